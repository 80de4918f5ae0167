"""The list's filters, orders and counts, against the same questions asked of the stored tables."""

import numpy as np
import polars as pl
import pytest

from orchestrator.report.measures.endings import endings
from orchestrator.report.read_run import read_run
from orchestrator.storage.episode_store import EpisodeStore, episodes, turns
from orchestrator.view import query as queries
from orchestrator.view.catalog import Catalog, hash_key
from orchestrator.view.part_columns import LONG_REPLY, MAPPED, Flag, _reply_flags
from orchestrator.view.query import Query
from orchestrator.view.run_index import RunIndex
from tests.orchestrator.report.runs import play_sweep, sweep

CONDITIONS = ["zero-shot", "hint"]


def catalog_of(**folders) -> Catalog:
    indexes = {name: RunIndex(folder) for name, folder in folders.items()}
    for index in indexes.values():
        while index.refresh(1):
            pass
    return Catalog(indexes, 1)


@pytest.fixture(scope="module")
def two_runs(demo_data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("view")
    models, scenarios = ["oracle", "uniform", "abstain"], ["ROD", "QD"]
    return {
        f"run{seed}": play_sweep(
            folder / f"run{seed}", sweep(demo_data, models, CONDITIONS, scenarios=scenarios, seed=seed)
        )
        for seed in (1, 2)
    }


@pytest.fixture(scope="module")
def catalog(two_runs):
    return catalog_of(**two_runs)


@pytest.fixture(scope="module")
def stored(two_runs) -> pl.DataFrame:
    """All episodes as the report reads them."""
    frames = []
    for name, folder in two_runs.items():
        kinds = endings(read_run(folder)).select("key", "kind")
        frames.append(episodes(folder).collect().join(kinds, on="key").with_columns(run=pl.lit(name)))
    return pl.concat(frames)


def keys_of(catalog, query) -> list[str]:
    positions = queries.order(catalog, query, queries.mask(catalog, query))
    return [next(catalog.read_episodes([position])).row["key"] for position in positions.tolist()]


@pytest.mark.parametrize("names", [{"model": "uniform"}, {"scenario": "QD", "condition": "hint"}, {"run": "run2"}])
def test_filters_by_name_equal_those_of_the_tables(names, catalog, stored):
    assert sorted(keys_of(catalog, Query(**names))) == sorted(stored.filter(**names)["key"])


def test_kinds_equal_those_of_the_report_up_to_the_view(catalog, stored):
    kinds = stored["kind"].replace(
        {"guessed too early": "guessed wrong", "guessed wrong on a clear view": "guessed wrong"}
    )
    expected = dict(kinds.value_counts().iter_rows())

    assert dict(queries.counts(catalog, Query())["kind"]) == expected and MAPPED not in expected


def test_kind_and_sample_filter_together(catalog, stored):
    expected = stored.filter(kind="correct", sample_id=1)["key"]

    assert len(expected) and sorted(keys_of(catalog, Query(kind="correct", sample="1"))) == sorted(expected)


def test_text_in_replies_in_any_case(catalog, two_runs):
    expected = [
        key
        for folder in two_runs.values()
        for key in turns(folder).filter(pl.col("reply").str.to_lowercase().str.contains("to the left")).collect()["key"]
    ]

    assert expected and set(keys_of(catalog, Query(text="To The LEFT"))) == set(expected)


def test_counts_leave_their_own_filter_out(catalog, stored):
    query = Query(model="uniform", outcome="not right")
    counts = queries.counts(catalog, query)
    wrong = stored.filter(~pl.col("correct"))

    assert dict(counts["model"]) == dict(wrong["model"].value_counts().iter_rows())
    assert dict(counts["condition"]) == dict(wrong.filter(model="uniform")["condition"].value_counts().iter_rows())


@pytest.mark.parametrize("differs", ["model:oracle", "run:run1"])
def test_disagreement_pairs_samples_under_one_condition(differs, catalog, stored):
    kind, name = differs.split(":")
    same = ["run" if kind == "model" else "model", "scenario", "condition", "sample_id"]
    pairs = stored.filter(pl.col(kind) != name).join(stored.filter(pl.col(kind) == name), on=same)
    expected = pairs.filter(pl.col("correct") != pl.col("correct_right"))["key"]

    assert len(expected) and sorted(keys_of(catalog, Query(differs=differs))) == sorted(expected)


def test_order_and_its_reverse(catalog):
    for name in queries.SORTS:
        positions = queries.order(catalog, Query(sort=f"-{name}"), np.ones(catalog.height, bool))
        values = queries.SORTS[name](catalog)[positions]
        assert (np.diff(values.astype(float)) <= 0).all()


@pytest.mark.parametrize(
    "query",
    [
        Query(model="nobody"),
        Query(kind="?"),
        Query(flag="?"),
        Query(sample="x"),
        Query(differs="x:y"),
        Query(differs="run:"),
    ],
)
def test_values_that_do_not_exist_leave_nothing(query, catalog):
    assert not queries.mask(catalog, query).any()


def test_flags_of_replies(catalog, two_runs):
    repeated = pl.concat(turns(folder).collect() for folder in two_runs.values())
    same = pl.col("reply") == pl.col("reply").shift(1).over("key")
    rows = [
        frame.with_columns(same=same).filter("same")["key"].n_unique()
        for frame in (turns(folder).collect() for folder in two_runs.values())
    ]

    assert repeated.height and queries.mask(catalog, Query(flag="same reply twice in a row")).sum() == sum(rows)
    assert not queries.mask(catalog, Query(flag="empty reply")).any()


def test_neighbors_are_of_the_same_sample(catalog):
    rows = [queries.describe(catalog, other) for other in catalog.neighbors(0)]

    assert len(rows) == 2 * 3 * 2 - 1 and len({(row["scenario"], row["sample"]) for row in rows}) == 1


def test_a_run_that_grows_and_is_merged(demo_data, tmp_path):
    wanted, folder = sweep(demo_data, ["uniform"], CONDITIONS, scenarios=["ROD"]), tmp_path / "run"
    index = RunIndex(play_sweep(folder, wanted, only=7))
    assert not index.refresh() and index.height == 7 < index.planned
    before = index.columns["hash"].tolist()

    play_sweep(folder, wanted)
    index.refresh()
    assert index.height == index.planned and index.columns["hash"].tolist()[:7] == before

    store, hashes = EpisodeStore(folder), index.columns["hash"].tolist()
    store.compact()
    store.close()
    index.refresh()
    assert index.columns["hash"].tolist() == hashes and len(index.parts) == 1
    position = Catalog({"run": index}, 2).find_episode("run", hash_key(episodes(folder).collect()["key"][3]))
    assert position is not None


def test_rows_of_a_part_that_was_rewritten_are_its_new_ones(demo_data, tmp_path):
    """As `run --retry-failed` does while the page is open: the rows after a discarded episode move up."""
    folder = play_sweep(tmp_path / "run", sweep(demo_data, ["uniform"], ["zero-shot"], scenarios=["ROD"]))
    index = RunIndex(folder)
    index.refresh()
    first, *rest = episodes(folder).collect()["key"].to_list()

    store = EpisodeStore(folder)
    store.discard([first])
    store.close()
    index.refresh()

    catalog = Catalog({"run": index}, 2)
    assert catalog.find_episode("run", hash_key(first)) is None and catalog.height == len(rest)
    for key in rest:
        assert next(catalog.read_episodes([catalog.find_episode("run", hash_key(key))])).row["key"] == key


def test_a_torn_part_is_left_out(demo_data, tmp_path):
    folder = play_sweep(tmp_path / "run", sweep(demo_data, ["uniform"], ["zero-shot"], scenarios=["ROD"]))
    (folder / "turns" / "part-00000099.parquet").write_bytes(b"PAR1")
    (folder / "episodes" / "part-00000099.parquet").write_bytes(b"PAR1")
    index = RunIndex(folder)
    index.refresh()

    assert index.height == index.planned


@pytest.mark.parametrize(("outcome", "right"), [("right", True), ("not right", False), ("without a score", None)])
def test_outcomes_are_those_of_the_stored_column(outcome, right, catalog, stored):
    expected = stored.filter(pl.col("correct").eq_missing(pl.lit(right)))["key"]

    assert sorted(keys_of(catalog, Query(outcome=outcome))) == sorted(expected)
    assert dict(queries.counts(catalog, Query())["outcome"]).get(outcome, 0) == len(expected)


def test_a_run_that_is_not_read_yet_is_empty(two_runs):
    index = RunIndex(two_runs["run1"])

    assert (index.version, index.planned, index.height) == (0, 0, 0)
    assert all(values.size == 0 for values in index.columns.values())


def test_flags_of_an_episode_are_those_of_its_own_turns():
    """The third turn has no episode: it marks none, and the last row is not its neighbor."""
    turns = pl.DataFrame(
        {
            "reply": ["A", "A", None, "", "B", "B", "x" * LONG_REPLY, "x" * (LONG_REPLY - 1), "x"],
            "option": ["correct", "mismatch", "wrong", "mismatch", "wrong", "mismatch", None, "mismatch", "mismatch"],
            "category": [
                "mismatch",
                "mismatch",
                "wrong",
                "mismatch",
                "correct",
                "mismatch",
                "wrong",
                "mismatch",
                "wrong",
            ],
        }
    )
    owners = np.array([0, 0, -1, 1, 2, 3, 4, 5, 6], np.int32)

    assert [Flag(bits) for bits in _reply_flags(turns, owners, 7)] == [
        Flag.REPEATED, Flag.EMPTY, Flag.DISAGREES, Flag(0), Flag.LONG, Flag(0), Flag(0),
    ]  # fmt: skip
