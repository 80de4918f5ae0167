"""What reading a run says and leaves out: notes word by word, replicates, clusters, and the last turns of episodes."""

import dataclasses

import polars as pl
import pytest

from actors.playing.records import EpisodeBatch
from envs.errors import RunFolderError
from envs.types import Ending
from orchestrator.report import read_run as room
from orchestrator.report.read_run import read_run, read_runs
from orchestrator.report.run_data import CLUSTERS, RunData, cached_per_run
from orchestrator.storage.episode_store import EpisodeStore
from tests.orchestrator.blocks import columns, episode, turn
from tests.orchestrator.report.measures.test_estimates import replace_episodes
from tests.orchestrator.report.runs import play_sweep, sweep


def test_clusters_need_a_known_name_and_the_samples():
    episodes, samples = pl.DataFrame({"scenario": ["QD", "CIT", "ROD"]}), {"QD": {}}

    for cluster in ("", "automatic"):
        room._check_cluster(cluster, episodes, {})
    room._check_cluster("object", episodes.head(1), samples)
    with pytest.raises(RunFolderError) as unknown:
        room._check_cluster("room", episodes, samples)
    assert str(unknown.value) == "there is no clustering 'room'; type --cluster object or --cluster picture"
    with pytest.raises(RunFolderError) as missing:
        room._check_cluster("picture", episodes, samples)
    assert str(missing.value) == (
        "--cluster picture needs the samples of CIT, which were not found; type --data DIR with their folder"
    )


def test_data_that_are_absent_or_other_are_noted(run, tmp_path):
    (note,) = read_run(run, data=tmp_path / "gone").notes

    assert note.startswith("the data folder is not available (") and note.endswith(
        "), so views are judged by the oracle's path"
    )
    with pytest.raises(RunFolderError, match="named twice"):
        read_runs([run, run])
    (data,) = read_runs([run], strict=True, cluster="object")
    assert data.strict and data.cluster == "object" and data.data is None


def test_planned_cells_have_full_sizes_only_with_a_rule(demo_data, tmp_path, monkeypatch):
    folder = play_sweep(tmp_path / "run", sweep(demo_data, ["guess"], ["hint"], scenarios=["QD", "ROD"]), only=0)

    assert (
        room._planned_frame(folder)["planned"].to_list() == [10, 10]
        and "full" not in room._planned_frame(folder).columns
    )
    cells = room.planned_cells(folder)
    monkeypatch.setattr(room, "planned_cells", lambda _: [{**cells[0], "full": 30}, cells[1]])
    assert room._planned_frame(folder)["full"].to_list() == [30, 10]


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


def test_clusters_are_of_the_answer_or_the_picture(run_data):
    sample = next(iter(run_data.samples["QD"].values()))

    assert CLUSTERS["picture"][0](sample) == sample.image
    assert CLUSTERS["object"][0](sample) == CLUSTERS["object"][0](dataclasses.replace(sample, image="other"))
    assert [about for _, about in CLUSTERS.values()] == [
        "samples of one scenario with the same right answer",
        "samples of one scenario cut from the same picture or video",
    ]


def test_models_are_kept_or_baselines_if_there_are_none(run_data):
    rows = pl.DataFrame({"model": ["oracle", "m", "guess"]})

    assert run_data.models_or_baselines(rows)["model"].to_list() == ["m"]
    assert run_data.models_or_baselines(rows.filter(pl.col("model") != "m"))["model"].to_list() == ["oracle", "guess"]
    assert run_data.models_of_policy("oracle") == ["oracle"] and run_data.models_of_policy("none") == []
    assert run_data.unseen_conditions == []


def test_values_are_cached_by_run_and_arguments(run_data):
    calls = []

    @cached_per_run
    def measure(run: RunData, first: int, second: int = 2) -> int:
        calls.append((first, second))
        return first + second

    run = dataclasses.replace(run_data)
    assert [measure(run, 1), measure(run, 1, 2), measure(run, 1, second=2), measure(run, first=1)] == [3] * 4
    assert measure(run, 1, 3) == 4 and measure(dataclasses.replace(run), 1) == 3
    assert calls == [(1, 2), (1, 3), (1, 2)]
