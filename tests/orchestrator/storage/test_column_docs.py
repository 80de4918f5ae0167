"""Every stored column is documented where its row type is, and says so in ``ls columns`` and in the Parquet file itself."""

import polars as pl
import pytest

from orchestrator.storage import part_writer
from orchestrator.storage.episode_store import EpisodeStore
from orchestrator.storage.schemas import METADATA, ROWS, column_docs, schema
from tests.orchestrator.storage.test_episode_store import write_store


@pytest.mark.parametrize("row", ROWS.values(), ids=str)
def test_every_column_has_a_meaning(row):
    docs = column_docs(row)
    assert [column.column for column in docs] == list(schema(row))
    assert [column.column for column in docs if not column.meaning] == []


def test_parts_and_merged_parts_carry_the_meanings(tmp_path):
    write_store(tmp_path, [1, 2], [3])
    store = EpisodeStore(tmp_path)
    for merge in (False, True):
        if merge:
            store.compact()
        for table in ROWS:
            for path in (tmp_path / table).glob("*.parquet"):
                metadata = pl.read_parquet_metadata(path)
                assert {METADATA: metadata[METADATA]} == part_writer.METADATA[table]
        assert len(list((tmp_path / "turns").glob("*.parquet"))) == (1 if merge else 2)
    store.close()
