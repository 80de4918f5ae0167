"""Every stored column is documented where its row type is, and says so in ``ls columns`` and in the Parquet file itself."""

import json

import polars as pl
import pytest
from typer.testing import CliRunner

from actors.playing.rows import EpisodeRow
from orchestrator.cli.main import app
from orchestrator.storage.episode_store import EpisodeStore
from orchestrator.storage.schemas import METADATA, ROWS, column_docs, parquet_metadata, schema
from tests.orchestrator.storage.test_episode_store import write_store


@pytest.mark.parametrize("row", ROWS.values(), ids=str)
def test_every_column_has_a_meaning(row):
    docs = column_docs(row)
    assert [column.column for column in docs] == list(schema(row))
    assert [column.column for column in docs if not column.meaning] == []


def test_types_nulls_and_values_are_those_of_the_rows():
    docs = {column.column: column for column in column_docs(EpisodeRow)}
    assert (docs["correct"].type, docs["correct"].nullable) == ("Boolean", True)
    assert (docs["turns"].type, docs["turns"].nullable, docs["turns"].values) == ("Int32", False, ())
    assert docs["ending"].values[:3] == ("correct", "wrong", "limit")


def test_ls_columns_prints_every_table_as_json():
    printed = json.loads(CliRunner().invoke(app, ["ls", "columns", "--json"]).stdout)
    assert list(dict.fromkeys(row["table"] for row in printed)) == [
        "episodes",
        "turns",
        "options",
        "verdicts",
        "results",
    ]
    assert [row for row in printed if row["table"] == "turns"][7] == {
        "table": "turns",
        "column": "action",
        "type": "String",
        "nullable": True,
        "values": ["suggestion", "abstention", "category", "unparsable"],
        "meaning": "What kind of option the reply names.",
    }


def test_ls_columns_prints_values_for_people():
    printed = " ".join(CliRunner().invoke(app, ["ls", "columns"]).stdout.split())
    assert "How the episode was played. One of: mcqa, oeg, oeg-multi, tools." in printed


def test_parts_and_merged_parts_carry_the_meanings(tmp_path):
    write_store(tmp_path, [1, 2], [3])
    store = EpisodeStore(tmp_path)
    for merge in (False, True):
        if merge:
            store.compact()
        for table, row in ROWS.items():
            for path in (tmp_path / table).glob("*.parquet"):
                metadata = pl.read_parquet_metadata(path)
                assert {METADATA: metadata[METADATA]} == parquet_metadata(row)
        assert len(list((tmp_path / "turns").glob("*.parquet"))) == (1 if merge else 2)
    store.close()
