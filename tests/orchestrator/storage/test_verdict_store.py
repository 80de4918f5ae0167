"""When verdicts become durable, under which file names, and which verdicts count."""

import os

import polars as pl
import pytest

from orchestrator.storage import checksums
from orchestrator.storage import verdict_store as module
from orchestrator.storage.episode_store import episodes
from orchestrator.storage.manifest import find_faults
from orchestrator.storage.schemas import VERDICTS, earlier_schema
from orchestrator.storage.verdict_store import (
    FOLDER,
    VerdictStore,
    final_replies,
    judge_names,
    mend_verdicts,
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
    """Write a part without a checksum, as if another program had written it."""
    (folder / FOLDER).mkdir(exist_ok=True)
    frame.write_parquet(folder / FOLDER / name)


def frame(*numbers, schema=VERDICTS):
    return pl.DataFrame(columns(*map(verdict, numbers)), schema=VERDICTS).select(list(schema))


def test_a_part_is_due_when_enough_verdicts_wait(tmp_path):
    store = VerdictStore(tmp_path, rows=3, seconds=1e9)
    assert not store.due
    store.append(columns(verdict(1), verdict(2)))
    assert not store.due
    store.append(columns(verdict(3)))
    assert store.due
    store.flush()
    assert not store.due and parts(tmp_path) == ["part-00000001.parquet"]
    store.flush()
    assert parts(tmp_path) == ["part-00000001.parquet"], "nothing waits, so nothing is written"


def test_a_part_is_due_when_the_oldest_verdict_has_waited_long_enough(tmp_path, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    store = VerdictStore(tmp_path, rows=1000, seconds=5.0)
    now[0] = 104.0
    store.append(columns(verdict(1)))
    now[0] = 107.0
    store.append(columns(verdict(2)))
    assert not store.due, "the oldest has waited three seconds"
    now[0] = 108.9
    assert not store.due
    now[0] = 109.0
    assert store.due
    store.flush()
    now[0] = 200.0
    assert not store.due, "nothing waits"


def test_a_new_store_writes_after_five_seconds_or_five_thousand_verdicts(tmp_path):
    store = VerdictStore(tmp_path)
    assert (store.seconds, store.rows, store.folder) == (5.0, 5_000, tmp_path / "verdicts")


def test_the_latest_verdict_of_a_judge_counts_in_the_order_of_writing(tmp_path):
    store = VerdictStore(tmp_path)
    for rows in ((verdict(1), verdict(2)), (verdict(1, judge="k"),), (verdict(1, text="0,0"),)):
        store.append(columns(*rows))
        store.flush()
    assert read(tmp_path) == [(2, "j"), (1, "k"), (1, "j")]
    assert dict(verdicts(tmp_path).filter(sample_id=1).select("judge", "text").collect().rows()) == {
        "j": "0,0",
        "k": "1,1",
    }
    store.compact()
    assert read(tmp_path) == [(2, "j"), (1, "k"), (1, "j")]
    assert parts(tmp_path) == ["part-00000004.parquet"]
    number = os.stat(tmp_path / FOLDER / "part-00000004.parquet").st_ino
    store.compact()
    assert os.stat(tmp_path / FOLDER / "part-00000004.parquet").st_ino == number, "one part is left as it is"


def test_judges_are_named_once_in_order(tmp_path):
    assert judge_names(tmp_path) == []
    store = VerdictStore(tmp_path)
    store.append(columns(verdict(1, judge="b"), verdict(2, judge="c"), verdict(3, judge="a"), verdict(4, judge="b")))
    store.flush()
    assert judge_names(tmp_path) == ["a", "b", "c"]


@pytest.mark.parametrize("how", ["stored", "damaged", "noted"])
def test_part_numbers_are_never_reused(tmp_path, how):
    store = VerdictStore(tmp_path)
    store.append(columns(verdict(1)))
    store.flush()
    path = tmp_path / FOLDER / "part-00000001.parquet"
    if how == "stored":
        path.rename(path.with_name("part-00000041.parquet"))
    if how == "damaged":
        (tmp_path / "damaged").mkdir()
        path.rename(tmp_path / "damaged/verdicts-part-00000041.parquet")
        (tmp_path / "damaged/turns-part-00000077.parquet").touch()
    if how == "noted":
        with (tmp_path / checksums.NAME).open("a") as file:
            file.write(f"{'0' * 64}  verdicts/part-00000041.parquet\n{'0' * 64}  turns/part-00000077.parquet\n")
    store.append(columns(verdict(2)))
    store.flush()
    assert (tmp_path / FOLDER / "part-00000042.parquet").is_file()


def test_only_files_named_as_parts_are_read(tmp_path):
    store = VerdictStore(tmp_path)
    store.append(columns(verdict(1)))
    store.flush()
    for name in ("part-1.parquet", "part-00000002.parquet.tmp", "part-0000000x.parquet", "other.parquet"):
        write_foreign_part(tmp_path, name, frame(2))
    assert read(tmp_path) == [(1, "j")]
    write_foreign_part(tmp_path, f"part-{'0' * 17}3.parquet", frame(3))
    assert read(tmp_path) == [(3, "j"), (1, "j")], "by name"


def test_a_part_of_an_earlier_version_reads_with_nulls(tmp_path):
    write_foreign_part(tmp_path, "part-00000001.parquet", frame(1, schema=earlier_schema(VERDICTS)))
    write_foreign_part(tmp_path, "part-00000002.parquet", frame(2))
    assert verdicts(tmp_path).collect().schema == VERDICTS
    assert dict(verdicts(tmp_path).select("sample_id", "strict_category").collect().rows()) == {1: None, 2: True}


@pytest.mark.parametrize("how", ["columns", "torn", "folder", "empty", "pages"])
def test_unusable_part_is_skipped_named_and_moved_aside(tmp_path, how, caplog):
    write_foreign_part(tmp_path, "part-00000001.parquet", frame(1))
    path = tmp_path / FOLDER / "part-00000002.parquet"
    if how == "columns":
        frame(2).drop("text").write_parquet(path)
    elif how == "folder":
        path.mkdir()
    elif how == "empty":
        path.touch()
    else:
        frame(*range(2, 60)).write_parquet(path)
        raw = bytearray(path.read_bytes())
        path.write_bytes(raw[:-5] if how == "torn" else raw[:4] + bytes(200) + raw[204:])
    assert read(tmp_path) == [(1, "j")]
    assert "part-00000002.parquet cannot be used and is skipped" in caplog.text
    assert "part-00000001.parquet" not in caplog.text
    VerdictStore(tmp_path)
    assert "part-00000002.parquet cannot be used and is moved to damaged/" in caplog.text
    assert parts(tmp_path) == ["part-00000001.parquet"]
    assert [path.name for path in (tmp_path / "damaged").iterdir()] == ["verdicts-part-00000002.parquet"]


def test_complete_part_with_other_checksum_is_ignored(tmp_path):
    folder = store_judged(tmp_path / "run", (1,), (2,))
    frame(7).write_parquet(folder / FOLDER / "part-00000002.parquet")
    assert read(folder) == [(1, "j")]


def test_a_link_to_nowhere_is_no_part(tmp_path):
    write_foreign_part(tmp_path, "part-00000001.parquet", frame(1))
    (tmp_path / FOLDER / "part-00000002.parquet").symlink_to(tmp_path / "nowhere")
    assert read(tmp_path) == [(1, "j")]


def test_pending_answers_are_those_unread_by_judge(tmp_path):
    folder = store_judged(tmp_path / "run", (1, 2, 3))
    store = VerdictStore(folder)
    store.append(columns(verdict(1, judge="k"), verdict(2, judge="k", reason="no reply")))
    store.flush()
    keys = dict(episodes(folder).select("sample_id", "key").collect().rows())

    def pending_keys(*arguments):
        return set(pending_answers(episodes(folder), folder, *arguments)["key"])

    assert pending_keys("j") == set()
    assert pending_keys("k") == {keys[3]} and pending_keys("k", True) == {keys[2], keys[3]}
    assert pending_keys("nobody") == set(keys.values())
    unfinished = episodes(folder).with_columns(ending=pl.lit("max_steps"))
    assert pending_answers(unfinished, folder, "nobody").is_empty(), "only answers in free text are read"


def test_final_replies_of_requested_episodes(tmp_path):
    folder = store_judged(tmp_path / "run", (1, 2, 3))
    keys = dict(episodes(folder).select("sample_id", "key").collect().rows())
    replies = final_replies(folder, [keys[1], keys[3], "unknown"])
    assert set(replies) == {keys[1], keys[3]} and all(isinstance(reply, str) and reply for reply in replies.values())
    assert final_replies(folder, []) == {}


def test_full_disk_keeps_waiting_verdicts(tmp_path, monkeypatch):
    store = VerdictStore(tmp_path)
    store.append(columns(verdict(1)))

    def full(*_a, **_k):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(module.safe_write, "prepare_table", full)
        with pytest.raises(OSError):
            store.flush()
    assert parts(tmp_path) == []
    store.flush()
    assert read(tmp_path) == [(1, "j")]


def test_mending_takes_back_the_sum_of_a_part_that_never_got_its_name(tmp_path):
    checksums.write(tmp_path / "plan.json", b"{}")  # a run's list of sums begins before its first part
    store_judged(tmp_path, range(3))
    checksums.record_sums(tmp_path, [store_copy(tmp_path)])
    assert [fault.name for fault in find_faults(tmp_path)] == ["verdicts/part-00000002.parquet"]

    mend_verdicts(tmp_path)

    assert find_faults(tmp_path) == [] and len(read(tmp_path)) == 3


def store_copy(folder):
    """Write what a merge leaves before its rename, and return the path that it was to get."""
    path = folder / FOLDER / "part-00000002.parquet"
    path.with_name(path.name + ".tmp").write_bytes((folder / FOLDER / "part-00000001.parquet").read_bytes())
    return path


def test_a_part_that_is_removed_while_it_is_judged_is_missed_once(tmp_path, caplog):
    checksums.write(tmp_path / "plan.json", b"{}")
    store = VerdictStore(tmp_path)
    for number in range(3):
        store.append(columns(verdict(number)))
        store.flush()
    (tmp_path / FOLDER / "part-00000002.parquet").unlink()

    store.compact()
    store.compact()

    assert caplog.messages == [f"part-00000002.parquet of {tmp_path / FOLDER} was removed; its answers are read again"]
    removed = [name for name, sums in checksums.read_sums(tmp_path).items() if checksums.GONE in sums]
    names = ["manifest", *(f"{FOLDER}/part-{number:08d}.parquet" for number in (2, 1, 3))]
    assert sorted(removed) == sorted(names)
    assert parts(tmp_path) == ["part-00000004.parquet"] and read(tmp_path) == [(0, "j"), (2, "j")]
    assert find_faults(tmp_path) == []
