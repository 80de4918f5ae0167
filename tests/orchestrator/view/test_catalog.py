"""The columns of two runs, their episodes as film strips, and runs that change."""

import polars as pl
import pytest

from orchestrator.report.measures.endings import endings
from orchestrator.report.read_run import read_run
from orchestrator.storage.episode_store import EpisodeStore, episodes
from orchestrator.storage.schemas import VERDICTS
from orchestrator.storage.verdict_store import VerdictStore
from orchestrator.view.catalog import KINDS, Catalog, open_unread, read_episodes
from orchestrator.view.page import ViewPage
from tests.orchestrator.report.runs import play_sweep, sweep


def read_catalog(folders) -> Catalog:
    return Catalog({name: read_episodes(open_unread(folder)) for name, folder in folders.items()})


@pytest.fixture(scope="module")
def catalog(two_folders) -> Catalog:
    return read_catalog(two_folders)


def test_columns_hold_every_planned_episode_of_both_runs(catalog, two_folders):
    rows = catalog.rows
    stored = {name: episodes(folder).collect() for name, folder in two_folders.items()}

    assert rows["key"].to_list() == [key for frame in stored.values() for key in frame["key"]], "in stored order"
    assert catalog.height == catalog.planned == sum(frame.height for frame in stored.values())
    for name, folder in two_folders.items():
        kinds = dict(endings(read_run(folder)).select("key", "kind").iter_rows())
        own = rows.filter(run=name)
        assert [KINDS[number] for number in own["kind"]] == [kinds[key] for key in own["key"]]
        scores = dict(stored[name].select("key", "correct").iter_rows())
        is_scored = own.filter(pl.col("right") >= 0)
        right = {key: bool(value) for key, value in is_scored.select("key", "right").iter_rows()}
        assert right.items() <= scores.items()
    assert "refused" not in {KINDS[number] for number in rows.filter(pl.col("right") >= 0)["kind"]}
    assert (rows["right"] == -1).any(), "an error has no score"


def test_a_run_is_read_again_only_when_it_has_changed(demo_data, tmp_path):
    wanted = sweep(demo_data, ["guess"], ["hint"], scenarios=["QD"])
    folder = play_sweep(tmp_path / "run", wanted, only=3)
    page = ViewPage({"run": folder})
    assert (page.catalog.height, page.catalog.version) == (0, 0)
    for _ in range(2):
        page.refresh()
    assert (page.catalog.height, page.catalog.planned, page.catalog.version) == (3, 10, 1)
    store = EpisodeStore(folder)
    store.discard([page.catalog.rows["key"][0]])
    store.close()
    page.refresh()
    assert (page.catalog.height, page.catalog.version) == (2, 2)
    plan = (folder / "plan.json").read_bytes()
    (folder / "plan.json").write_bytes(b"torn")
    page.refresh()
    assert page.catalog.height == 2, "a folder that cannot be read keeps what was read"
    (folder / "plan.json").write_bytes(plan)
    play_sweep(folder, wanted)
    page.refresh()
    assert page.catalog.height == 10


def test_open_ended_answers_are_right_by_the_newest_verdict(demo_data, tmp_path):
    folder = play_sweep(tmp_path / "run", sweep(demo_data, ["guess"], ["hint"], scenarios=["QD"], protocol="oeg"))
    keys = episodes(folder).select("key").collect()["key"].to_list()
    store = VerdictStore(folder)
    for key, judge, verdict in ((keys[0], "a", True), (keys[1], "a", False), (keys[0], "b", False)):
        row = {"key": key, "judge": judge, "cell": "c", "model": "guess", "scenario": "QD", "condition": "hint"}
        store.append({name: [(row | {"sample_id": 0, "aggregate": verdict}).get(name)] for name in VERDICTS})
    store.flush()

    assert read_catalog({"run": folder}).rows["right"].to_list() == [0, 0, *[-1] * (len(keys) - 2)]
