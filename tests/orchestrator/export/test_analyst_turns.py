"""One table answers "at which turn does X ask": in one line of Polars, in one of DuckDB, and both as the store counts."""

from __future__ import annotations

import json

import polars as pl
import pytest

from orchestrator.export.analyst_turns import EPISODE_COLUMNS, SAMPLE_COLUMNS, describe_columns
from orchestrator.export.export import export
from orchestrator.storage.episode_store import episodes, turns
from orchestrator.storage.schemas import METADATA
from tests.orchestrator.report.runs import play_export_run

ASKS = "SELECT model, scenario, turn, count(*) AS asks FROM '{}' WHERE action = 'suggestion' GROUP BY ALL ORDER BY ALL"


@pytest.fixture(scope="module")
def exported(demo_data, tmp_path_factory):
    """A run of two policies, and its table of turns."""
    folder = tmp_path_factory.mktemp("turns")
    run = play_export_run(folder / "run", demo_data, "a reply")
    assert export(run, "turns", folder / "out") == ["turns.parquet"]
    return run, folder / "out" / "turns.parquet"


@pytest.fixture(scope="module")
def asks(exported) -> list[tuple]:
    """(model, scenario, turn, number of suggestions), counted from the store by a join."""
    run, _ = exported
    rows = turns(run).filter(action="suggestion").join(episodes(run).select("key", "model", "scenario"), on="key")
    counts = rows.group_by("model", "scenario", "turn").len().sort("model", "scenario", "turn").collect().rows()
    assert len({turn for _, _, turn, _ in counts}) > 1, "a policy asks at several turns"
    return counts


def test_one_line_of_polars_says_when_a_model_asks(exported, asks):
    _, path = exported
    table = pl.scan_parquet(path)
    counts = table.filter(action="suggestion").group_by("model", "scenario", "turn").len().collect()

    assert counts.sort("model", "scenario", "turn").rows() == asks


def test_one_line_of_duckdb_says_when_a_model_asks(exported, asks):
    duckdb = pytest.importorskip("duckdb")
    _, path = exported
    assert duckdb.sql(ASKS.format(path)).fetchall() == asks


def test_turns_carry_their_episode_and_sample(exported):
    run, path = exported
    table, stored = pl.read_parquet(path), turns(run).collect()

    assert table.columns == [*EPISODE_COLUMNS, *stored.columns, *SAMPLE_COLUMNS]
    assert table.select(stored.columns).equals(stored)
    assert table["question"].null_count() == 0 and all(table["options"].list.len() > 0)
    assert all(answer in categories for answer, categories in table.select("answer", "categories").unique().iter_rows())
    assert json.loads(pl.read_parquet_metadata(path)[METADATA]) == describe_columns()
    assert all(describe_columns().values())
