"""When verdicts become durable, and which verdicts count."""

import os

import polars as pl
import pytest

from orchestrator.storage import checksums
from orchestrator.storage.episode_store import episodes
from orchestrator.storage.manifest import find_faults
from orchestrator.storage.schemas import ADDED_COLUMNS, VERDICTS
from orchestrator.storage.verdict_store import (
    FOLDER,
    VerdictStore,
    final_replies,
    judge_counts,
    judge_names,
    pending_answers,
    verdicts,
)
from tests.orchestrator.storage.test_flipped_bits import columns, store_judged, verdict


def parts(folder):
    return sorted(path.name for path in (folder / FOLDER).iterdir())


def read(folder):
    """Return (sample, judge) pairs in reading order."""
    return verdicts(folder).select("sample_id", "judge").collect().rows()


def write_foreign_part(folder, name, frame):
    """Write a part without a checksum, as an earlier version did."""
    (folder / FOLDER).mkdir(exist_ok=True)
    frame.write_parquet(folder / FOLDER / name)


def frame(*numbers, schema=VERDICTS):
    return pl.DataFrame(columns(*map(verdict, numbers)), schema=VERDICTS).select(list(schema))


def test_a_part_is_due_when_enough_verdicts_wait_or_the_oldest_has_waited(tmp_path):
    store = VerdictStore(tmp_path, rows=3, seconds=1e9)
    store.append(columns(verdict(1), verdict(2)))
    assert not store.due
    store.append(columns(verdict(3)))
    assert store.due
    store.flush()
    store.flush()
    assert not store.due and parts(tmp_path) == ["part-00000001.parquet"]
    store.seconds = 0.0
    assert not store.due, "nothing waits"
    store.append(columns(verdict(4)))
    assert store.due


def test_the_latest_verdict_of_a_judge_counts_in_the_order_of_writing(tmp_path):
    store = VerdictStore(tmp_path)
    for rows in ((verdict(1), verdict(2)), (verdict(1, judge="k"),), (verdict(1, text="0,0"),)):
        store.append(columns(*rows))
        store.flush()
    assert read(tmp_path) == [(2, "j"), (1, "k"), (1, "j")] and judge_names(tmp_path) == ["j", "k"]
    texts = dict(verdicts(tmp_path).filter(sample_id=1).select("judge", "text").collect().rows())
    assert texts == {"j": "0,0", "k": "1,1"}
    store.compact()
    assert read(tmp_path) == [(2, "j"), (1, "k"), (1, "j")]
    assert parts(tmp_path) == ["part-00000004.parquet"] and find_faults(tmp_path) == []
    number = os.stat(tmp_path / FOLDER / "part-00000004.parquet").st_ino
    store.compact()
    assert os.stat(tmp_path / FOLDER / "part-00000004.parquet").st_ino == number, "one part is left as it is"


def test_a_part_of_an_earlier_version_reads_with_nulls(tmp_path):
    earlier = [name for name in VERDICTS if not name.startswith(ADDED_COLUMNS)]
    write_foreign_part(tmp_path, "part-00000001.parquet", frame(1, schema=earlier))
    write_foreign_part(tmp_path, "part-00000002.parquet", frame(2))
    assert verdicts(tmp_path).collect().schema == VERDICTS
    assert dict(verdicts(tmp_path).select("sample_id", "strict_category").collect().rows()) == {1: None, 2: True}


@pytest.mark.parametrize("how", ["columns", "torn", "folder", "empty", "pages", "name"])
def test_unusable_part_is_skipped_named_and_moved_aside(tmp_path, how, caplog):
    write_foreign_part(tmp_path, "part-00000001.parquet", frame(1))
    path = tmp_path / FOLDER / ("other.parquet" if how == "name" else "part-00000002.parquet")
    if how == "columns":
        frame(2).drop("text").write_parquet(path)
    elif how == "folder":
        path.mkdir()
    elif how == "empty":
        path.touch()
    else:
        frame(*range(2, 60)).write_parquet(path)
        raw = bytearray(path.read_bytes())
        if how != "name":
            path.write_bytes(raw[:-5] if how == "torn" else raw[:4] + bytes(200) + raw[204:])
    assert read(tmp_path) == [(1, "j")]
    assert f"{path.name} cannot be used and is skipped" in caplog.text and "part-00000001" not in caplog.text
    VerdictStore(tmp_path)
    assert f"{path.name} cannot be used and is moved to damaged/" in caplog.text
    assert parts(tmp_path) == ["part-00000001.parquet"]
    assert [file.name for file in (tmp_path / "damaged").iterdir()] == [f"verdicts-{path.name}"]


def test_answers_that_a_judge_has_not_read_are_pending(tmp_path):
    folder = store_judged(tmp_path / "run", (1, 2, 3))
    store = VerdictStore(folder)
    store.append(columns(verdict(1, judge="k"), verdict(2, judge="k", reason="no reply", aggregate=None)))
    store.flush()
    keys = dict(episodes(folder).select("sample_id", "key").collect().rows())

    def pending_keys(*arguments):
        return set(pending_answers(episodes(folder), folder, *arguments)["key"])

    assert pending_keys("j") == set()
    assert pending_keys("k") == {keys[3]} and pending_keys("k", True) == {keys[2], keys[3]}
    assert pending_keys("nobody") == set(keys.values())
    sentence = judge_counts(folder, episodes(folder))["k"].sentence("k")
    assert sentence == "k: 1 verdict of 3 answers (1 without one, 2 calls; 1 not read yet)"
    replies = final_replies(folder, [keys[1], keys[3], "unknown"])
    assert set(replies) == {keys[1], keys[3]} and all(replies.values())
    unfinished = episodes(folder).with_columns(ending=pl.lit("max_steps"))
    assert pending_answers(unfinished, folder, "nobody").is_empty(), "only answers in free text are read"


def test_a_failed_write_keeps_waiting_verdicts(tmp_path):
    store = VerdictStore(tmp_path)
    store.append(columns(verdict(1)))
    (tmp_path / FOLDER).write_text("")  # as if the disk had gone away
    with pytest.raises(OSError):
        store.flush()
    (tmp_path / FOLDER).unlink()
    store.flush()
    assert read(tmp_path) == [(1, "j")]


def test_the_sum_of_a_part_that_never_got_its_name_is_taken_back(tmp_path):
    checksums.write(tmp_path / "plan.json", b"{}")  # a run's list of sums begins before its first part
    store_judged(tmp_path, range(3))
    path = tmp_path / FOLDER / "part-00000002.parquet"
    path.with_name(path.name + ".tmp").write_bytes((tmp_path / FOLDER / "part-00000001.parquet").read_bytes())
    checksums.record_sums(tmp_path, [path])
    assert [fault.name for fault in find_faults(tmp_path)] == ["verdicts/part-00000002.parquet"]

    store = VerdictStore(tmp_path)

    assert find_faults(tmp_path) == [] and len(read(tmp_path)) == 3
    store.append(columns(verdict(9)))
    store.flush()
    assert parts(tmp_path) == ["part-00000001.parquet", "part-00000003.parquet"]
