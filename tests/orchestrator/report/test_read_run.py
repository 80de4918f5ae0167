"""What reading a run says and leaves out: notes, clusters, and the last turns of episodes."""

import dataclasses
import json
import shutil

import polars as pl
import pytest

from actors.playing.records import EpisodeBatch
from envs.errors import RunFolderError
from envs.types import Ending
from orchestrator.report.comparisons.run_comparison import compare_runs
from orchestrator.report.read_run import read_run
from orchestrator.report.tables.all_tables import report_tables
from orchestrator.storage import checksums
from orchestrator.storage.episode_store import EpisodeStore
from tests.orchestrator.blocks import columns, episode, turn
from tests.orchestrator.report.measures.test_estimates import replace_episodes
from tests.orchestrator.report.runs import replace_part


def test_data_that_are_absent_or_other_are_noted(run, tmp_path):
    (note,) = read_run(run, data=tmp_path / "gone").notes

    assert note.startswith("the data folder is not available (")
    data = read_run(run, strict=True, cluster="object")
    assert data.strict and data.cluster == "object" and data.data is None


@pytest.mark.parametrize("name", ["condition", "protocol"])
def test_a_plan_that_is_not_of_its_sweep_is_refused(run, tmp_path, name):
    folder = shutil.copytree(run, tmp_path / "run")
    plan = json.loads((folder / "plan.json").read_text())
    plan["cells"][0][name] = "own"
    checksums.write(folder / "plan.json", json.dumps(plan).encode())
    with pytest.raises(RunFolderError, match=r"plan\.json plans .* --update"):
        read_run(folder)


@pytest.mark.parametrize("name", ["model", "turns"])
def test_missing_values_of_edited_episodes_end_no_report(run, tmp_path, name):
    folder = shutil.copytree(run, tmp_path / "run")
    for part in (folder / "episodes").glob("*.parquet"):
        table = pl.read_parquet(part)
        replace_part(table.with_columns(pl.when(pl.int_range(pl.len()) % 3 > 0).then(name).alias(name)), part)
    assert report_tables(read_run(folder)) and compare_runs([read_run(run), read_run(folder)])


MOVES = {0: ["left", "zoom", "up", "down"], 1: ["right", "right"], 2: [None]}


@pytest.fixture
def moved(run_data, tmp_path):
    """Three stored episodes with these moves, one of which is not the run's, and a fourth without a turn."""
    rows = [episode(n, "m/COCO/random-proactive", turns=len(moves)) for n, moves in MOVES.items()]
    rows.append(episode(3, "m/COCO/own", Ending.FAILED, turns=0))
    turns = [
        turn(rows[n]["key"], number, f"reply {number}") | {"move": move}
        for n, moves in MOVES.items() for number, move in enumerate(moves)
    ]  # fmt: skip
    store = EpisodeStore(tmp_path)
    store.append(EpisodeBatch([0, 1, 2, 3], columns(rows, episode(0)), columns(turns, turn("", 0))))
    store.close()
    return dataclasses.replace(replace_episodes(run_data, [rows[0], rows[2], rows[3]]), folder=tmp_path)


def test_last_turns_count_the_moves_before_them_on_each_axis(moved):
    last = moved.last_turns

    assert last.select("sample_id", "turn", "reply", "move", "across", "along", "mode").rows() == [
        (0, 3, "reply 3", "down", 2, 2, "random-proactive"), (2, 0, "reply 0", None, 0, 0, "random-proactive"),
    ]  # fmt: skip
    assert last.columns == [
        "key", "model", "scenario", "condition", "protocol", "cell", "sample_id", "seed", "ending", "correct", "turn", "frame",
        "image", "reply", "category", "action", "move", "across", "along", "mode",
    ]  # fmt: skip
    assert moved.turns.collect()["reply"].to_list() == [*(f"reply {n}" for n in range(4)), "reply 0"]
    assert moved.scored["sample_id"].to_list() == [0, 2]
