"""A run folder knows which of its episodes and verdicts came from which folder, and when."""

import polars as pl

from orchestrator.storage import reused
from orchestrator.storage.reused import FILE, REUSED, drop_unstored, read_reused, record_reused
from tests.orchestrator.blocks import CELL, episode
from tests.orchestrator.storage.test_episode_store import write_store


def rows(*numbers, folder="old", judge=None, taken="2026-11-22T12:00:00+00:00", cell=CELL):
    return pl.DataFrame(
        [{"key": episode(n)["key"], "judge": judge, "cell": cell, "folder": folder, "taken": taken} for n in numbers],
        schema=REUSED,
    )


def samples(frame):
    return [int(key.rpartition("/")[2][:4]) for key in frame["key"]]


def test_only_stored_episodes_count_and_their_last_source(tmp_path):
    write_store(tmp_path, (1, 2, 3))
    record_reused(tmp_path, rows(3, 9, 1))
    record_reused(tmp_path, rows(1, folder="newer").with_columns(more=pl.lit("ignored")))
    record_reused(tmp_path, rows(1, judge="j"))

    found = read_reused(tmp_path)
    assert samples(found) == [3, 1, 1] and found.schema == REUSED
    assert found["folder"].to_list() == ["old", "newer", "old"] and found["judge"].to_list() == [None, None, "j"]
    assert samples(pl.read_parquet(tmp_path / FILE)) == [3, 9, 1, 1]
    drop_unstored(tmp_path)
    assert pl.read_parquet(tmp_path / FILE).equals(found)
    before = (tmp_path / FILE).stat().st_ino
    drop_unstored(tmp_path)
    assert (tmp_path / FILE).stat().st_ino == before, "nothing to drop, nothing written"


def test_episodes_are_counted_per_cell_and_told_per_source_and_day_without_verdicts(tmp_path):
    write_store(tmp_path, range(1_300))
    record_reused(tmp_path, rows(*range(1_200)))
    record_reused(tmp_path, rows(1_200, folder="s3://runs/b", cell="a/ROD/hint"))
    record_reused(tmp_path, rows(1_201, taken="2026-11-23T00:00:00+00:00"))
    record_reused(tmp_path, rows(1_202, judge="j"))

    assert list(reused.reused_per_cell(tmp_path).items()) == [("a/ROD/hint", 1), (CELL, 1_201)]
    assert reused.sentences(tmp_path) == [
        "1,200 reused episodes played in old, taken over on 2026-11-22",
        "1 reused episode played in s3://runs/b, taken over on 2026-11-22",
        "1 reused episode played in old, taken over on 2026-11-23",
    ]


def test_a_damaged_record_counts_for_nothing(tmp_path):
    write_store(tmp_path, (1, 2))
    record_reused(tmp_path, rows(1))
    (tmp_path / FILE).write_bytes((tmp_path / FILE).read_bytes()[:-9])
    drop_unstored(tmp_path)
    assert read_reused(tmp_path).is_empty()
    record_reused(tmp_path, rows(2))
    assert samples(read_reused(tmp_path)) == [2]
