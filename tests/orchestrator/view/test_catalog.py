"""The columns of planted episodes of two runs, parts that appear while a run writes, and episodes read in any order."""

import io
import zlib

import numpy as np
import polars as pl
import pytest

from envs.types import Ending
from orchestrator.report.measures.endings import EndingKind
from orchestrator.storage.episode_store import EpisodeStore
from orchestrator.view import catalog as catalogs
from orchestrator.view import run_index
from orchestrator.view.catalog import LISTED, Catalog, run_names
from orchestrator.view.part_columns import KINDS, MAPPED, OUTCOMES
from orchestrator.view.run_index import RunIndex
from tests.orchestrator.blocks import block, episode
from tests.orchestrator.report.runs import play_sweep, sweep

CELL = "a/ROD/hint"
CELLS = {
    "one": [
        ("a/ROD/hint", 0, Ending.CORRECT), ("a/ROD/hint", 1, Ending.WRONG), ("a/ROD/hint", 2, Ending.REFUSED),
        ("b/ROD/hint", 0, Ending.WRONG), ("b/QD/own", 0, Ending.CORRECT),
    ],
    "two": [("a/ROD/hint", 0, Ending.WRONG), ("a/ROD/zero-shot", 1, Ending.CORRECT)],
}  # fmt: skip


@pytest.fixture(autouse=True)
def no_sweep(monkeypatch):
    """Planted folders have parts and nothing else."""
    monkeypatch.setattr(run_index, "stored_sweep", lambda folder: sweep(folder, ["oracle"]))


def rows_of(name):
    return [episode(number, cell, ending, turns=1 + number) for cell, number, ending in CELLS[name]]


def store(folder, rows, reply="A"):
    written = EpisodeStore(folder)
    written.append(block(rows, reply))
    written.close()
    return folder


def index_of(folder):
    index = RunIndex(folder)
    index.refresh()
    return index


@pytest.fixture
def catalog(tmp_path):
    """Run ``one`` has five episodes, ``two`` has two."""
    return Catalog({n: index_of(store(tmp_path / n, rows_of(n), f"Reply of {n}")) for n in CELLS}, 7)


def test_columns_of_the_runs_follow_each_other(catalog):
    assert (catalog.height, catalog.version, catalog.planned) == (7, 7, 0)
    assert [(run, *names) for run, names in catalog.cells] == [
        ("one", "a", "ROD", "hint", "mcqa"), ("one", "b", "ROD", "hint", "mcqa"), ("one", "b", "QD", "own", "mcqa"),
        ("two", "a", "ROD", "hint", "mcqa"), ("two", "a", "ROD", "zero-shot", "mcqa"),
    ]  # fmt: skip
    assert catalog.columns["cell"].tolist() == [0, 0, 0, 1, 2, 3, 4]
    assert catalog.columns["part"].tolist() == [0] * 5 + [1] * 2
    assert catalog.columns["right"].tolist() == [1, 0, -1, 0, 1, 0, 1], "an error has no score"
    assert catalog.columns["turns"].tolist() == [1, 2, 3, 1, 1, 1, 2]
    keys = [stored.row["key"] for stored in catalog.read_episodes(range(7))]
    assert catalog.columns["crc"].tolist() == [zlib.crc32(key.encode()) for key in keys]


def test_the_page_gets_the_columns_and_the_names_in_the_papers_order(catalog):
    about, listed = catalog.about(), pl.read_parquet(io.BytesIO(catalog.list_bytes()))

    assert listed.columns == list(LISTED) and listed["sample"].to_list() == [0, 1, 2, 0, 0, 0, 1]
    assert about["orders"] == {
        "run": ["one", "two"], "model": ["a", "b"], "scenario": ["ROD", "QD"],
        "condition": ["zero-shot", "hint", "own"], "protocol": ["mcqa"],
    }  # fmt: skip
    assert about["cells"][2] == {
        "run": "one", "model": "b", "scenario": "QD", "condition": "own", "protocol": "mcqa", "baseline": False,
    }  # fmt: skip
    assert (about["total"], about["outcomes"], about["kinds"]) == (7, OUTCOMES, KINDS)


def test_baselines_are_known(demo_data, tmp_path, monkeypatch):
    monkeypatch.undo()
    model = {"name": "mine", "source": "nobody/nothing", "backend": "transformers", "gpus": 0}
    wanted = sweep(demo_data, ["guess", model], ["hint"], scenarios=["QD"])
    folder = play_sweep(tmp_path / "run", wanted, backends={"mine": catalogs_policy()})
    cells = Catalog({"run": index_of(folder)}, 1).about()["cells"]

    assert {cell["model"]: cell["baseline"] for cell in cells} == {"guess": True, "mine": False}


def catalogs_policy():
    from actors.engine.baselines import Baseline

    return Baseline("oracle")


def test_episodes_are_read_in_the_order_that_was_asked_with_their_own_turns(catalog, monkeypatch):
    monkeypatch.setattr(catalogs, "NEAR", 2)
    order = [6, 2, 1, 1, 0, 4, 5]
    stored = list(catalog.read_episodes(order))

    assert [each.position for each in stored] == order and [each.run for each in stored] == ["two", *["one"] * 5, "two"]
    for each in stored:
        assert [turn["turn"] for turn in each.turns] == list(range(each.row["turns"]))
        assert {turn["key"] for turn in each.turns} == {each.row["key"]}
        assert {turn["reply"] for turn in each.turns} == {f"Reply of {each.run}"}
    assert list(catalog.read_episodes([])) == []


def test_replies_are_searched_in_any_case(catalog, tmp_path):
    assert catalog.replies_with("reply OF one").tolist() == [0, 1, 2, 3, 4]
    assert catalog.replies_with("absent").tolist() == []
    for path in (tmp_path / "two" / "turns").iterdir():
        path.unlink()
    assert catalog.replies_with("reply").tolist() == [0, 1, 2, 3, 4], "a merge has replaced the part"


def test_run_names_are_short_unless_two_end_alike(tmp_path):
    one, two, other = tmp_path / "a" / "run", tmp_path / "b" / "run", tmp_path / "other"

    assert run_names([one, other]) == {"run": one, "other": other}
    assert run_names([one, two, other]) == {str(one): one, str(two): two, "other": other}


# -- one run -----------------------------------------------------------------------------------------------------------
def test_parts_are_read_a_few_at_a_time_and_old_ones_stay(tmp_path):
    for name in CELLS:
        store(tmp_path, rows_of(name)[:1] if name == "one" else rows_of(name)[1:])
    index = RunIndex(tmp_path)
    assert Catalog({"run": index}, 0).height == 0

    assert index.refresh(1) and (index.height, index.version, len(index.parts)) == (1, 1, 1)
    assert not index.refresh(1) and (index.height, index.version, len(index.parts)) == (2, 2, 2)
    assert index.columns["part"].tolist() == [0, 1] and index.planned == 0
    assert index.refresh() is False and index.version == 2, "nothing has changed"


def test_a_part_that_cannot_be_read_is_skipped_once_and_named(tmp_path, monkeypatch, caplog):
    tried, read = [], run_index.read_part
    for number in range(3):
        store(tmp_path, [episode(number, CELL, turns=1)])

    def fail(folder, part, cells):
        tried.append(part.first)
        if part.first == 2:
            raise OSError("torn")
        return read(folder, part, cells)

    monkeypatch.setattr(run_index, "read_part", fail)
    index = index_of(tmp_path)
    assert index.columns["sample"].tolist() == [0, 2] and "part-00000002.parquet" in caplog.text
    store(tmp_path, [episode(3, CELL, turns=1)])
    assert not index.refresh() and index.columns["sample"].tolist() == [0, 2, 3] and tried == [1, 2, 3, 4]


def test_without_a_plan_the_newest_episode_of_a_sample_counts(tmp_path):
    old, new = (episode(1, CELL, ending, turns=1) for ending in (Ending.WRONG, Ending.CORRECT))
    new["key"] = old["key"].replace("00000000", "11111111")
    folder = store(tmp_path, [old, episode(2, CELL, turns=1)])
    store(folder, [new])
    index = index_of(folder)
    assert index.columns["sample"].tolist() == [2, 1] and index.columns["right"].tolist() == [1, 1]


def test_episodes_without_a_score_a_turn_or_a_single_ending_have_their_kinds(tmp_path):
    rows = [
        episode(0, CELL, Ending.MAPPED, turns=1, correct=None),
        episode(1, CELL, Ending.FAILED, turns=0, correct=False, error="no"),
        episode(2**31, CELL, Ending.CORRECT, turns=2),
    ]
    index = index_of(store(tmp_path / "run", rows))
    kinds = [KINDS[number] for number in index.columns["kind"]]
    assert kinds[0] == MAPPED and kinds[2] == EndingKind.CORRECT.value
    assert index.columns["right"].tolist() == [-1, -1, 1] and index.columns["sample"].tolist() == [0, 1, -1]
    alone = index_of(store(tmp_path / "alone", [rows[1]]))
    assert [KINDS[number] for number in alone.columns["kind"]] == [kinds[1]], "a part without any turn"


def test_open_ended_answers_are_right_by_the_newest_verdict(tmp_path, monkeypatch):
    rows = [episode(n, "m/QD/hint", Ending.ANSWERED, protocol="oeg", correct=None, turns=1) for n in range(4)]
    store(tmp_path, rows)
    names = [row["key"] for row in rows]
    judged = pl.LazyFrame({"key": [*names[:3], names[0]], "aggregate": [True, False, None, False]})
    monkeypatch.setattr(run_index, "verdicts", lambda _: judged)

    assert index_of(tmp_path).columns["right"].tolist() == [0, 0, -1, -1]
    assert np.array(list(OUTCOMES.values())).tolist() == [1, 0, -1]
