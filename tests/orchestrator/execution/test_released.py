"""Run folders of released versions: the code at hand resumes each to the results that its own version would have reached."""

import json
import shutil
from pathlib import Path

import polars as pl
import pytest

RELEASED = sorted(path for path in Path(__file__).with_name("released").iterdir() if path.is_dir())
FIGURES = (
    "cell", "planned", "finished", "scored", "correct", "turns", "acc", "ps", "loops",
    "share_suggestion", "share_abstention", "share_category", "share_unparsable",
)  # fmt: skip
"""What a later version must find again; it may add columns and better intervals."""


def figures(path: Path) -> list[dict[str, object]]:
    return [{name: row[name] for name in FIGURES} for row in json.loads(path.read_text(encoding="utf-8"))]


@pytest.mark.slow
@pytest.mark.parametrize("released", RELEASED, ids=lambda path: path.name)
def test_an_interrupted_run_of_an_older_version_is_resumed(released, tmp_path, cli):
    shutil.copytree(released, tmp_path / "copy")
    sweep, run = tmp_path / "copy/sweep.toml", tmp_path / "copy/run"
    stored = pl.read_parquet(run / "episodes/*.parquet")["key"]

    # the folder has moved with its benchmark: where that lies is part of the configuration
    resolved = run / "sweep.resolved.toml"
    resolved.write_text(resolved.read_text().replace('data = "data"', f'data = "{tmp_path / "copy/data"}"'))

    done = cli.call("run", sweep, "--output", run, "--set", f"data={tmp_path / 'copy/data'}", "--tracking-uri", "none")

    assert done.returncode == 0, done.stderr
    assert f"{len(stored)} finished" in done.stdout
    keys = pl.read_parquet(run / "episodes/*.parquet")["key"]
    assert keys.is_unique().all() and set(stored) < set(keys)
    assert figures(run / "results.json") == figures(tmp_path / "copy/results.json")
