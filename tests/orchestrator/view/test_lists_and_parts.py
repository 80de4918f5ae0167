"""Lists page by page, parts as they are read, and columns of odd episodes: each bound on both sides."""

import asyncio

import numpy as np
import pytest

from envs.types import Ending
from orchestrator.report.measures.endings import EndingKind
from orchestrator.storage.episode_store import EpisodeStore
from orchestrator.storage.part_files import Part
from orchestrator.view import assets, page, part_columns, run_index
from orchestrator.view import catalog as catalogs
from orchestrator.view import query as queries
from orchestrator.view.catalog import Catalog, hash_key
from orchestrator.view.page import EpisodeName, ViewPage
from orchestrator.view.part_columns import ACTIONS, FLAGS, KINDS, MAPPED, Flag
from orchestrator.view.query import Query
from orchestrator.view.run_index import RunIndex
from tests.orchestrator.blocks import block, episode
from tests.orchestrator.storage.test_episode_store import write_store
from tests.orchestrator.view.test_catalog import store

CELL = "a/ROD/hint"


def endings(*kinds):
    """Episodes 0, 1, ... of one cell, right for ``+`` and wrong for ``-``."""
    found = {"+": Ending.CORRECT, "-": Ending.WRONG}
    return [episode(number, CELL, found[kind], turns=1) for number, kind in enumerate(kinds)]


@pytest.fixture
def seven(tmp_path) -> ViewPage:
    """A page on seven episodes, of which 1, 2 and 5 are wrong; a page of its list has two rows."""
    shown = ViewPage({"run": store(tmp_path / "run", endings(*"+--++-+"))})
    shown.refresh()
    return shown


def samples(answer):
    return [row["sample"] for row in answer["rows"]]


def test_a_list_is_cut_into_pages_and_opened_where_an_episode_is(seven, monkeypatch):
    assert (assets.MOST_ROWS, page.LISTS, page.TRIES, page.REFRESH_S) == (100, 6, 3, 1.0)
    monkeypatch.setattr(page, "MOST_ROWS", 2)
    named = [EpisodeName("run", hash_key(row["key"])) for row in endings(*"+--++-+")]
    everything, wrong = Query(), Query(outcome="not right")
    assert [samples(seven._list(everything, start, None, "")) for start in (0, 2, 6, 7)] == [[0, 1], [2, 3], [6], []]
    answers = [seven._list(everything, 0, name, "") for name in named]
    assert [(answer["row"], answer["start"]) for answer in answers] == [
        (0, 0), (1, 0), (2, 2), (3, 2), (4, 4), (5, 4), (6, 6),
    ]  # fmt: skip
    filtered = seven._list(wrong, 0, named[5], "")
    assert (filtered["row"], filtered["start"], samples(filtered), filtered["matches"]) == (2, 2, [5], 3)
    absent = seven._list(wrong, 1, named[0], "")
    assert (absent["row"], absent["start"], samples(absent)) == (None, 1, [2, 5])
    unknown = seven._list(everything, 4, EpisodeName("run", 1), "")
    assert (unknown["row"], unknown["start"], unknown["total"], unknown["reading"]) == (None, 4, 7, False)


def test_steps_go_to_the_next_wrong_episode_and_stay_where_none_is(seven, monkeypatch):
    monkeypatch.setattr(page, "MOST_ROWS", 2)
    names = [EpisodeName("run", hash_key(row["key"])) for row in endings(*"+--++-+")]
    steps = {step: [seven._list(Query(), 3, name, step)["row"] for name in names] for step in ("next", "previous")}
    assert steps == {"next": [1, 2, 5, 5, 5, None, None], "previous": [None, None, 1, 2, 2, 2, 5]}
    assert seven._list(Query(), 3, names[6], "next")["start"] == 3, "it stays where it was"


def test_the_last_used_lists_are_kept(seven, monkeypatch):
    monkeypatch.setattr(page, "LISTS", 2)
    first, second, third = (Query(sample=str(number)) for number in range(3))
    for query in (first, second, first, third):
        seven._list(query, 0, None, "")
    assert [query for query, _ in seven._lists] == [first, third]
    assert seven._filtered(seven.catalog, first) is seven._lists[first, seven.catalog.version]
    assert [query for query, _ in seven._lists] == [third, first]


def test_parts_are_read_in_doubling_numbers_until_all_are_there(tmp_path, monkeypatch):
    shown = ViewPage({"run": write_store(tmp_path / "run", (0,), (1,), (2,), (3,), (4,), (5,), (6,))})
    asked, refresh = [], RunIndex.refresh

    def note(index, most=None):
        more = refresh(index, most)
        asked.append((most, index.height, more))
        return more

    monkeypatch.setattr(RunIndex, "refresh", note)
    assert not shown.is_complete and shown._state_fields() == {"version": 0, "total": 0, "planned": 0, "reading": True}
    shown.refresh()
    assert asked == [(1, 1, True), (2, 3, True), (4, 7, False)] and shown.is_complete
    assert shown._state_fields() == {"version": 3, "total": 7, "planned": 0, "reading": False}
    before = shown.catalog
    shown.refresh()
    assert shown.catalog is before, "nothing is new"


def test_a_run_of_which_nothing_is_read_yet_has_an_empty_list(tmp_path):
    empty = Catalog({"run": RunIndex(tmp_path)}, 0)
    query = Query(model="a", kind=KINDS[0], differs="model:a", sort="-model", text="x")
    passed = queries.mask(empty, query)
    assert passed.tolist() == [] and queries.order(empty, query, passed).tolist() == []
    assert all(pairs == [] for pairs in queries.counts(empty, query).values())
    assert empty.cells_named({}).tolist() == [False] and empty.find_episode("run", 1) is None


def test_rows_of_a_part_are_read_together_if_they_are_near(tmp_path, monkeypatch):
    index = RunIndex(store(tmp_path / "run", endings(*"+--++-+")))
    index.refresh()
    catalog, read = Catalog({"run": index}, 1), []
    stretch = Catalog._read_stretch
    monkeypatch.setattr(
        Catalog,
        "_read_stretch",
        lambda self, positions, part, rows: (read.append(rows.tolist()), stretch(self, positions, part, rows))[1],
    )
    monkeypatch.setattr(catalogs, "NEAR", 2)
    found = [stored.row["sample_id"] for stored in catalog.read_episodes([0, 2, 3, 6, 5, 5])]
    assert found == [0, 2, 3, 6, 5, 5] and read == [[0, 2, 3], [6], [5], [5]]
    assert catalogs.MOST_NEIGHBORS == 1000 and (assets.CONTENT["rows"], queries.LONGEST) == (100, 300)


def test_only_so_many_neighbors_are_offered(tmp_path, monkeypatch):
    rows = [episode(0, f"{model}/ROD/hint", Ending.CORRECT, turns=1) for model in "abcd"]
    index = RunIndex(store(tmp_path / "run", rows))
    index.refresh()
    catalog = Catalog({"run": index}, 1)
    assert catalog.neighbors(3) == [0, 1, 2]
    monkeypatch.setattr(catalogs, "MOST_NEIGHBORS", 2)
    assert catalog.neighbors(3) == [0, 1] and catalog.neighbors(0) == [1]


def test_a_part_that_cannot_be_read_is_skipped_once_and_named(tmp_path, monkeypatch, caplog):
    folder, tried, read = write_store(tmp_path / "run", (0,), (1,), (2,)), [], run_index.read_part

    def fail(folder, part, cells):
        tried.append(part.first)
        if part.first == 2:
            raise OSError("torn")
        return read(folder, part, cells)

    monkeypatch.setattr(run_index, "read_part", fail)
    index = RunIndex(folder)
    assert not index.refresh(3) and index.columns["sample"].tolist() == [0, 2] and tried == [1, 2, 3]
    assert caplog.messages == [f"part-00000002.parquet of {folder} is skipped: torn"]
    write_store(folder, (3,))
    assert not index.refresh(1) and index.columns["sample"].tolist() == [0, 2, 3] and tried == [1, 2, 3, 4]
    assert run_index._modified(folder / "gone") == 0 and [columns.part for columns in index.parts][-1] == Part(4, 4)


def test_without_a_plan_the_newest_episode_of_a_sample_counts(tmp_path):
    old, new = (episode(1, CELL, ending, turns=1) for ending in (Ending.WRONG, Ending.CORRECT))
    new["key"] = old["key"].replace("00000000", "11111111")
    folder = store(tmp_path / "run", [old, episode(2, CELL, turns=1)])
    store(folder, [new])
    index = RunIndex(folder)
    index.refresh()
    assert index.columns["sample"].tolist() == [2, 1] and index.columns["right"].tolist() == [1, 1]


def test_episodes_without_a_score_a_turn_or_a_single_ending_have_their_kinds(tmp_path):
    rows = [
        episode(0, CELL, Ending.MAPPED, turns=1, correct=None),
        episode(1, CELL, Ending.FAILED, turns=0, correct=False, error="no"),
        episode(2, CELL, Ending.CORRECT, turns=2, suggestions=0, categories=1, abstentions=2, unparsable=1),
    ]
    index = RunIndex(store(tmp_path / "run", rows, reply="x" * 200))
    index.refresh()
    kinds = [KINDS[number] for number in index.columns["kind"]]
    assert kinds[0] == MAPPED == "answered every picture" and kinds[2] == EndingKind.CORRECT.value
    assert index.columns["right"].tolist() == [-1, -1, 1], "an error is no zero"
    assert [Flag(bits) for bits in index.columns["flags"].tolist()] == [
        Flag.LONG | Flag.NAMED,
        Flag(0),
        Flag.LONG | Flag.REPEATED | Flag.ABSTAINED | Flag.NAMED | Flag.UNPARSABLE,
    ]
    alone = RunIndex(store(tmp_path / "alone", [rows[1]]))
    alone.refresh()
    assert [KINDS[number] for number in alone.columns["kind"]] == [kinds[1]], "a part without any turn"
    assert (part_columns.LONG_REPLY, *FLAGS.values()) == (
        200, "letter and text disagree", "empty reply", "same reply twice in a row", "reply of 200 characters or more",
    )  # fmt: skip
    assert list(ACTIONS.values()) == ["asked for something", "abstained", "named a category", "named no option"]
    assert [int(flag) for flag in (*FLAGS, *ACTIONS)] == [1, 2, 4, 8, 16, 32, 64, 128]


def test_numbers_beyond_a_column_are_its_largest_one(tmp_path):
    written = block([episode(0, CELL, turns=1, prompt_tokens=2**32, reply_tokens=2**32 - 1)])
    written.episodes["turns"][0] = 70_000
    opened = EpisodeStore(tmp_path)
    opened.append(written)
    opened.close()
    index = RunIndex(tmp_path)
    index.refresh()
    values = [index.columns[name].tolist() for name in ("turns", "read", "written")]
    assert values == [[65_535], [2**32 - 1], [2**32 - 1]]


def test_a_number_that_no_column_holds_is_no_sample(tmp_path):
    rows = [episode(0, CELL, turns=1), episode(2**31, CELL, turns=1), episode(2**31 - 1, CELL, turns=1)]
    index = RunIndex(store(tmp_path, rows))
    index.refresh()
    assert index.columns["sample"].tolist() == [0, -1, 2**31 - 1]


def test_a_turn_without_its_episode_belongs_to_none(tmp_path):
    written = block(endings(*"+-"))
    written.turns["key"][1] = "a/ROD/hint/0009-00000000"
    written.turns["reply"] = ["A", ""]
    opened = EpisodeStore(tmp_path)
    opened.append(written)
    opened.close()
    index = RunIndex(tmp_path)
    index.refresh()
    assert index.parts[0].owners.tolist() == [0, -1]
    assert [Flag(bits) for bits in index.columns["flags"].tolist()] == [Flag.NAMED, Flag.NAMED]


@pytest.mark.parametrize("table", ["episodes", "turns"])
def test_a_part_counts_once_both_of_its_files_are_there(tmp_path, table):
    index = RunIndex(write_store(tmp_path / "run", (0,)))
    file = tmp_path / "run" / table / "part-00000001.parquet"
    file.rename(tmp_path / "kept")
    index.refresh()
    assert index.height == 0
    (tmp_path / "kept").rename(file)
    index.refresh()
    assert index.height == 1


def test_a_page_ends_if_its_samples_cannot_be_loaded(seven, monkeypatch):
    def fail():
        raise KeyError("a bug")

    monkeypatch.setattr(seven, "_load_samples", fail)
    monkeypatch.setattr(page, "REFRESH_S", 0.0)

    async def watch():
        with pytest.raises(KeyError, match="a bug"):
            await asyncio.wait_for(seven.watch(), 20)

    asyncio.run(watch())


def test_the_last_parts_of_several_runs_are_all_read(tmp_path):
    runs = {"one": write_store(tmp_path / "one", (0,)), "two": write_store(tmp_path / "two", (1,), (2,), (3,))}
    shown = ViewPage(runs)
    shown.refresh()
    assert shown._state_fields() == {"version": 3, "total": 4, "planned": 0, "reading": False}


def test_replies_are_searched_in_any_case_in_the_parts_of_candidates_alone(tmp_path):
    index = RunIndex(store(store(tmp_path / "run", endings("+"), "An APPLE"), [episode(5, CELL, turns=2)], "pear"))
    index.refresh()
    catalog = Catalog({"run": index}, 1)
    assert catalog.replies_with("apple", np.array([True, True])).tolist() == [True, False]
    (index.folder / "turns" / "part-00000001.parquet").unlink()
    assert catalog.replies_with("e", np.array([True, True])).tolist() == [False, True], "a merge has replaced the first"


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("18446744073709551615", 2**64 - 1),
        ("18446744073709551616", None),
        ("", None),
        ("+1", None),
        ("٣", None),
    ],
)
def test_an_id_is_a_hash_of_64_bits(text, number):
    if number is not None:
        assert page._parse_number(text, 20) == number
        return
    with pytest.raises(page.web.HTTPBadRequest):
        page._parse_number(text, 20)
