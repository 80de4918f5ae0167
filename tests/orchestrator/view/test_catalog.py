"""The columns of planted episodes of two runs: names, pairs that ended otherwise, and episodes read in any order."""

import numpy as np
import polars as pl
import pytest

from envs.types import Ending
from orchestrator.storage.episode_store import EpisodeStore
from orchestrator.view import query as queries
from orchestrator.view import run_index
from orchestrator.view.catalog import Catalog, hash_key, run_names
from orchestrator.view.page import _next_failure
from orchestrator.view.part_columns import MAPPED
from orchestrator.view.query import Query
from orchestrator.view.run_index import RunIndex
from tests.orchestrator.blocks import block, episode

CELLS = {
    "one": [
        ("a/ROD/hint", 0, Ending.CORRECT), ("a/ROD/hint", 1, Ending.WRONG), ("a/ROD/hint", 2, Ending.REFUSED),
        ("b/ROD/hint", 0, Ending.WRONG), ("b/ROD/hint", 1, Ending.WRONG), ("b/ROD/hint", 2, Ending.CORRECT),
        ("b/QD/own", 0, Ending.CORRECT),
    ],
    "two": [("a/ROD/hint", 0, Ending.WRONG), ("a/ROD/zero-shot", 1, Ending.CORRECT)],
}  # fmt: skip


def rows_of(name):
    return [
        episode(number, cell, ending, turns=1 + number, seconds=float(3 - number), prompt_tokens=10 * number, reply_tokens=number)
        for cell, number, ending in CELLS[name]
    ]  # fmt: skip


def store(folder, rows, reply="A"):
    written = EpisodeStore(folder)
    written.append(block(rows, reply))
    written.close()
    return folder


@pytest.fixture(scope="module")
def catalog(tmp_path_factory):
    """Run ``one`` has seven episodes, ``two`` has two."""
    indexes = {}
    for name in CELLS:
        indexes[name] = RunIndex(store(tmp_path_factory.mktemp(name), rows_of(name), f"Reply of {name}"))
        indexes[name].refresh()
    return Catalog(indexes, 7)


def keys(catalog, positions):
    return [stored.row["key"].removesuffix("-00000000") for stored in catalog.read_episodes(positions)]


def marked(catalog, passed):
    return keys(catalog, np.flatnonzero(passed))


def test_columns_of_the_runs_follow_each_other(catalog):
    assert (catalog.height, catalog.version, catalog.offsets) == (9, 7, {"one": 0, "two": 7})
    assert [(cell.run, *cell.names) for cell in catalog.cells] == [
        ("one", "a", "ROD", "hint", "mcqa"), ("one", "b", "ROD", "hint", "mcqa"), ("one", "b", "QD", "own", "mcqa"),
        ("two", "a", "ROD", "hint", "mcqa"), ("two", "a", "ROD", "zero-shot", "mcqa"),
    ]  # fmt: skip
    assert catalog.columns["cell"].tolist() == [0, 0, 0, 1, 1, 1, 2, 3, 4]
    assert catalog.columns["part"].tolist() == [0] * 7 + [1] * 2
    assert catalog.columns["right"].tolist() == [1, 0, -1, 0, 0, 1, 1, 0, 1], "an error has no score"
    assert catalog.columns["sample"].tolist() == [0, 1, 2, 0, 1, 2, 0, 0, 1]
    assert catalog.columns["turns"].tolist() == [1, 2, 3, 1, 2, 3, 1, 1, 2]
    assert catalog.columns["read"].tolist() == [0, 10, 20, 0, 10, 20, 0, 0, 10]
    assert catalog.columns["written"].tolist() == [0, 1, 2, 0, 1, 2, 0, 0, 1]


def test_samples_that_ended_otherwise_are_paired_within_run_or_model(catalog):
    assert marked(catalog, catalog.ended_otherwise("model", "b")) == ["a/ROD/hint/0000"]
    assert marked(catalog, catalog.ended_otherwise("model", "a")) == ["b/ROD/hint/0000"]
    assert marked(catalog, catalog.ended_otherwise("run", "two")) == ["a/ROD/hint/0000"]
    assert catalog.ended_otherwise("run", "one").tolist() == [False] * 7 + [True, False]
    for kind, name in (("run", "three"), ("model", "c"), ("condition", "hint"), ("", "")):
        assert not catalog.ended_otherwise(kind, name).any()


def test_names_are_counted_and_ranked_in_the_papers_order(catalog):
    assert catalog.count_names("condition", [3, 3, 1, 1, 1]) == [("zero-shot", 1), ("hint", 7), ("own", 1)]
    assert catalog.count_names("scenario", [3, 3, 1, 1, 1]) == [("ROD", 8), ("QD", 1)]
    assert catalog.count_names("run", [3, 3, 1, 1, 1]) == [("one", 7), ("two", 2)]
    assert catalog.count_names("model", [0, 3, 1, 0, 0]) == [("a", 0), ("b", 4)]
    assert catalog.name_ranks("condition").tolist() == [1] * 6 + [2, 1, 0]
    assert catalog.name_ranks("model").tolist() == [0] * 3 + [1] * 4 + [0] * 2


def test_episodes_are_read_in_the_order_that_was_asked_with_their_own_turns(catalog):
    order = [8, 2, 1, 1, 0, 6, 7]
    stored = list(catalog.read_episodes(order))

    assert [each.position for each in stored] == order and [each.run for each in stored] == ["two", *["one"] * 5, "two"]
    for each in stored:
        assert [turn["turn"] for turn in each.turns] == list(range(each.row["turns"]))
        assert {turn["key"] for turn in each.turns} == {each.row["key"]}
        assert {turn["reply"] for turn in each.turns} == {f"Reply of {each.run}"}
    assert list(catalog.read_episodes([])) == []


def test_an_episode_is_found_in_its_run_or_in_the_first_that_has_it(catalog):
    number = hash_key("a/ROD/hint/0000-00000000")

    assert [catalog.find_episode(run, number) for run in ("one", "two", "", "gone")] == [0, 7, 0, 0]
    assert catalog.find_episode("two", hash_key("b/QD/own/0000-00000000")) is None
    assert catalog.find_episode("one", hash_key("nothing")) is None


def test_neighbors_share_scenario_protocol_and_sample(catalog):
    assert catalog.neighbors(0) == [3, 7] and catalog.neighbors(7) == [0, 3] and catalog.neighbors(6) == []


def test_replies_are_searched_among_the_candidates_only(catalog):
    every, few = np.ones(9, bool), np.arange(9) < 2

    assert catalog.replies_with("reply OF one", every).tolist() == [True] * 7 + [False] * 2
    assert catalog.replies_with("reply", few).tolist() == few.tolist()
    assert not catalog.replies_with("absent", every).any()


def test_replies_of_a_part_that_a_merge_has_replaced_do_not_match(tmp_path):
    store(tmp_path, rows_of("one"))
    index = RunIndex(tmp_path)
    index.refresh()
    catalog = Catalog({"run": index}, 1)
    for path in (tmp_path / "turns").iterdir():
        path.unlink()

    assert not catalog.replies_with("reply", np.ones(catalog.height, bool)).any()


@pytest.mark.parametrize(
    ("sort", "order"),
    [
        ("", [0, 1, 2, 3, 4, 5, 6, 7, 8]),
        ("unknown", [0, 1, 2, 3, 4, 5, 6, 7, 8]),
        ("sample", [0, 3, 6, 7, 1, 4, 8, 2, 5]),
        ("-sample", [2, 5, 1, 4, 8, 0, 3, 6, 7]),
        ("model", [0, 1, 2, 7, 8, 3, 4, 5, 6]),
        ("condition", [8, 0, 1, 2, 3, 4, 5, 7, 6]),
        ("turns", [0, 3, 6, 7, 1, 4, 8, 2, 5]),
        ("seconds", [2, 5, 1, 4, 8, 0, 3, 6, 7]),
        ("tokens read", [0, 3, 6, 7, 1, 4, 8, 2, 5]),
        ("-tokens written", [2, 5, 1, 4, 8, 0, 3, 6, 7]),
    ],
)
def test_every_order_keeps_equal_rows_as_stored(catalog, sort, order):
    assert queries.order(catalog, Query(sort=sort), np.ones(9, bool)).tolist() == order


@pytest.mark.parametrize(
    ("query", "positions"),
    [
        ({}, list(range(9))),
        ({"outcome": "right"}, [0, 5, 6, 8]),
        ({"outcome": "without a score"}, [2]),
        ({"outcome": "odd"}, []),
        ({"kind": "correct"}, [0, 5, 6, 8]),
        ({"kind": "refused"}, [2]),
        ({"kind": "odd"}, []),
        ({"sample": "1"}, [1, 4, 8]),
        ({"sample": "x"}, []),
        ({"sample": "1" * 10}, []),
        ({"model": "b", "scenario": "QD"}, [6]),
        ({"run": "two", "text": "  REPLY of "}, [7, 8]),
        ({"action": "asked for something", "sample": "1"}, [1, 4, 8]),
        ({"flag": "same reply twice in a row"}, [1, 2, 4, 5, 8]),
        ({"differs": "model:b"}, [0]),
        ({"differs": "b"}, []),
    ],
)
def test_filters_leave_these_rows(catalog, query, positions):
    assert np.flatnonzero(queries.mask(catalog, Query(**query))).tolist() == positions


def test_counts_of_every_filter_leave_zeros_out(catalog):
    counts = queries.counts(catalog, Query(model="a", outcome="right"))

    assert counts["model"] == [("a", 2), ("b", 2)] and counts["outcome"] == [
        ("right", 2),
        ("not right", 2),
        ("without a score", 1),
    ]
    assert counts["run"] == [("one", 1), ("two", 1)] and counts["scenario"] == [("ROD", 2)]
    assert counts["condition"] == [("zero-shot", 1), ("hint", 1)] and counts["protocol"] == [("mcqa", 2)]
    assert counts["kind"] == [("correct", 2)] and counts["action"] == [
        ("asked for something", 1),
        ("named a category", 2),
    ]
    assert counts["flag"] == [("same reply twice in a row", 1)]


def test_queries_ignore_what_they_do_not_know_and_cut_what_is_long():
    query = Query.parse({"model": "m" * 301, "unknown": "x", "sort": "-turns"})

    assert query == Query(model="m" * 300, sort="-turns")


def test_a_row_of_the_list_has_these_fields(catalog):
    assert queries.describe(catalog, 1) == {
        "id": str(hash_key("a/ROD/hint/0001-00000000")), "run": "one", "model": "a", "scenario": "ROD", "condition": "hint",
        "protocol": "mcqa", "sample": 1, "kind": queries.KINDS[catalog.columns["kind"][1]], "right": 0, "turns": 2,
    }  # fmt: skip
    assert queries.KINDS[-1] == MAPPED


@pytest.mark.parametrize(
    ("row", "step", "expected"),
    [(None, "next", 1), (1, "next", 3), (3, "next", 4), (7, "next", None), (None, "previous", 7), (4, "previous", 3),
     (1, "previous", None), (9, "next", None)],
)  # fmt: skip
def test_failures_are_stepped_through_in_both_directions(catalog, row, step, expected):
    assert _next_failure(catalog, np.arange(9), row, step) == expected


def test_run_names_are_short_unless_two_end_alike(tmp_path):
    one, two, other = tmp_path / "a" / "run", tmp_path / "b" / "run", tmp_path / "other"

    assert run_names([one, other]) == {"run": one, "other": other}
    assert run_names([one, two, other]) == {str(one): one, str(two): two, "other": other}


def test_parts_are_read_a_few_at_a_time_and_old_ones_stay(tmp_path):
    for name in CELLS:
        store(tmp_path, rows_of(name)[:1] if name == "one" else rows_of(name)[1:])
    index = RunIndex(tmp_path)

    assert index.refresh(1) and (index.height, index.version, len(index.parts)) == (1, 1, 1)
    assert not index.refresh(1) and (index.height, index.version, len(index.parts)) == (2, 2, 2)
    assert index.columns["part"].tolist() == [0, 1] and index.planned == 0
    assert index.refresh() is False and index.version == 2, "nothing has changed"


def test_open_ended_answers_are_right_by_the_newest_verdict(tmp_path, monkeypatch):
    rows = [episode(n, "m/QD/hint", Ending.ANSWERED, protocol="oeg", correct=None, turns=1) for n in range(4)]
    store(tmp_path, rows)
    names = [row["key"] for row in rows]
    judged = pl.LazyFrame({"key": [*names[:3], names[0]], "aggregate": [True, False, None, False]})
    monkeypatch.setattr(run_index, "verdicts", lambda _: judged)
    index = RunIndex(tmp_path)
    index.refresh()

    assert index.columns["right"].tolist() == [0, 0, -1, -1]
