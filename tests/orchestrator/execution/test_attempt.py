"""A sweep from the outside: it ends complete, with the chance levels in place."""

from __future__ import annotations

import json
import time
from pathlib import Path

import polars as pl
import pytest

from orchestrator.storage.episode_store import episodes, turns

pytestmark = pytest.mark.slow


@pytest.fixture
def sweep_file(tmp_path: Path, demo_data: Path) -> Path:
    """Three baselines over all scenarios and the baselines' conditions; one writes slowly enough to be interrupted."""
    path = tmp_path / "small.toml"
    path.write_text(
        f"""# A test.
data = "{demo_data}"
models = ["oracle", "uniform", "always-ask"]
conditions = ["zero-shot", "hint", "random-proactive", "reference"]
tracking = {{ uri = "none" }}
"""
    )
    return path


def many_models(path: Path, models: int) -> Path:
    """The same sweep over so many uniform baselines of 280 episodes; the first part is written after 20,000 or five seconds."""
    tables = "\n".join(
        f'[[model]]\nname = "u{n}"\nsource = "builtin:uniform"\nbackend = "builtin"\ngpus = 0\n' for n in range(models)
    )
    text = path.read_text().replace('models = ["oracle", "uniform", "always-ask"]\n', "")
    longer = path.with_name("long.toml")
    longer.write_text(f"{text}\n{tables}")
    return longer


def assert_stored_once(folder: Path, planned: int) -> None:
    stored = episodes(folder).select("key", "turns").collect()
    assert stored.height == planned
    assert stored["key"].n_unique() == planned
    assert turns(folder).select(pl.len()).collect().item() == stored["turns"].sum()


def test_a_sweep_ends_complete_with_the_chance_levels_in_place(cli, sweep_file, tmp_path):
    out = tmp_path / "run"
    done = cli.call("run", sweep_file, "--output", out)

    assert done.returncode == 0, done.stderr
    assert_stored_once(out, 3 * 4 * 70)
    rows = pl.read_parquet(out / "results.parquet")
    oracle = rows.filter(pl.col("model") == "oracle")
    assert set(oracle["acc"]) == {100.0}
    assert rows.filter((pl.col("model") == "always-ask") & (pl.col("condition") == "zero-shot"))["acc"].max() < 50
    assert "oracle" in done.stdout and "avg" in done.stdout
    status = json.loads(cli.call("status", out, "--json").stdout)
    assert {cell["state"] for cell in status["cells"]} == {"complete"}


def wait_for_parts(folder: Path, process, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not any(folder.glob("episodes/*.parquet")):
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline, "no part was written"
        time.sleep(0.05)
