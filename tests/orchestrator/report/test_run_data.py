"""RunData holds what belongs to the plan; earlier configurations, other data and damaged files are reported."""

import json
import shutil

import polars as pl
import pytest

from envs.errors import RunFolderError
from envs.samples import lines_file
from orchestrator.report.read_run import read_run
from orchestrator.storage.run_folder import KEYS, PlannedCell
from tests.benchmark import copy_benchmark
from tests.orchestrator.report.runs import play_sweep, sweep


def test_complete_run_equals_its_results_file(run, run_data):
    assert run_data.rows.equals(pl.read_parquet(run / "results.parquet"))
    assert run_data.notes == ()
    assert sum(map(len, run_data.samples.values())) == 70


def test_episodes_of_an_earlier_configuration_are_left_out(demo_data, tmp_path):
    models, conditions = ["uniform"], ["zero-shot"]
    play_sweep(tmp_path / "run", sweep(demo_data, models, conditions, seed=1))
    folder = play_sweep(tmp_path / "run", sweep(demo_data, models, conditions, selection={"limit": 4}))
    exact, blind = read_run(folder), read_run(folder, data=tmp_path / "gone")

    assert exact.episodes.height == 28
    assert exact.rows.equals(pl.read_parquet(folder / "results.parquet"))
    assert "70 episodes of an earlier configuration" in exact.notes[-1]
    assert blind.episodes.equals(exact.episodes), "the run folder itself says what belongs"
    (folder / KEYS).unlink()
    blind = read_run(folder, data=tmp_path / "gone")
    assert blind.episodes.height == blind.episodes.unique(["cell", "sample_id"]).height == 70
    shared = blind.episodes.join(exact.episodes, on="key", how="semi")
    assert shared.height == 28, "in a folder that does not say it, of one sample the newest episode counts"


def test_other_benchmark_in_data_folder_is_detected(run, run_data, tmp_path):
    lines = lines_file(copy_benchmark(tmp_path / "other"), "QD")
    lines.write_text(lines.read_text().replace('"prompt": "', '"prompt": "Now: '))
    other_data = read_run(run, data=tmp_path / "other")

    assert set(other_data.samples) < set(run_data.samples)
    assert any("holds other samples of" in note for note in other_data.notes)
    assert other_data.rows.equals(run_data.rows)


HALF_A_CHARACTER = json.dumps(
    {"cells": [dict.fromkeys(PlannedCell.__annotations__, "\ud800") | {"planned": 1, "full": 1}]}
).encode()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("sweep.resolved.toml", None, "proactive-sweep run"),
        ("sweep.resolved.toml", b"\xff\x00", "is damaged or of another version"),
        ("sweep.resolved.toml", b"name = 3", "is damaged or of another version"),
        ("plan.json", None, "has not begun"),
        ("plan.json", b"[1, 2", "is damaged"),
        ("plan.json", b'{"cells": [{"cell": 1}]}', "is damaged"),
        ("plan.json", HALF_A_CHARACTER, "is damaged"),
    ],
)
def test_damaged_folder_is_refused_in_one_line(run, tmp_path, name, content, message):
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    (folder / name).unlink()
    if content is not None:
        (folder / name).write_bytes(content)

    with pytest.raises(RunFolderError, match=message) as raised:
        read_run(folder)
    assert "\n" not in str(raised.value)
