"""Bounds of what a run folder holds, each on both sides, and what is flushed, closed and recorded on the way."""

import errno
import fcntl
import hashlib
import math
import os
from contextlib import suppress
from types import SimpleNamespace

import polars as pl
import pytest

from envs.errors import RunFolderError
from orchestrator.storage import checksums, episode_store, lock, part_files, safe_write
from orchestrator.storage.episode_store import EpisodeStore
from orchestrator.storage.part_files import Part, describe_parts, find_merged, list_parts, missing_files
from tests.orchestrator.blocks import batch_of
from tests.orchestrator.storage.test_episode_store import files, ids, write_store


def lines(folder):
    return (folder / checksums.NAME).read_text().splitlines()


def handles(folder):
    """Return the names of the files below a folder that this process has open, sorted."""
    names = list[str]()
    for handle in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # another thread has closed it meanwhile
            target = os.readlink(f"/proc/self/fd/{handle}")
            names += [os.path.basename(target)] if target.startswith(f"{folder}/") else []
    return sorted(names)


def removals(folder):
    return [line.split("  ")[1] for line in lines(folder) if line.startswith(f"{checksums.GONE}  ")]


def test_a_removal_is_recorded_once_for_files_that_exist_or_have_a_sum(tmp_path):
    checksums.record_removals(tmp_path, [])
    checksums.record_removals(tmp_path, [tmp_path / "never.json"])
    assert not (tmp_path / checksums.NAME).exists()

    checksums.write(tmp_path / "listed.json", b"1")
    (tmp_path / "listed.json").unlink()
    (tmp_path / "foreign.json").write_bytes(b"2")
    names = [tmp_path / name for name in ("never.json", "listed.json", "foreign.json")]
    checksums.record_removals(tmp_path, names)
    assert removals(tmp_path) == ["manifest", "listed.json", "foreign.json"]
    checksums.record_removals(tmp_path, names)
    assert removals(tmp_path) == ["manifest", "listed.json", "foreign.json"], "each is recorded once"


def test_a_list_is_complete_only_if_it_was_there_before_the_first_part(tmp_path):
    (tmp_path / "old" / "episodes").mkdir(parents=True)
    (tmp_path / "old" / "episodes" / "part-00000001.parquet").touch()
    for name in ("old", "new"):
        (tmp_path / name).mkdir(exist_ok=True)
        for file in ("a.json", "b.json"):
            checksums.write(tmp_path / name / file, b"1")
    digest = hashlib.sha256(b"1").hexdigest()
    assert lines(tmp_path / "old") == [f"{digest}  a.json", f"{digest}  b.json"]
    assert lines(tmp_path / "new") == [f"{'0' * 64}  manifest", *lines(tmp_path / "old")]


@pytest.mark.parametrize("count", [0, 1, 20])
@pytest.mark.parametrize("torn", ["", "f", "f" * 64 + "  a.js"])
def test_a_torn_last_line_is_cut_off_and_no_other(tmp_path, count, torn):
    whole = [f"{'a' * 64}  {number}.json" for number in range(count)]
    (tmp_path / checksums.NAME).write_text("".join(f"{line}\n" for line in whole) + torn)

    checksums.write(tmp_path / "last.json", b"1")

    assert lines(tmp_path) == [*whole, f"{hashlib.sha256(b'1').hexdigest()}  last.json"]


def test_a_sum_is_on_the_disk_before_its_file_has_its_name(tmp_path, monkeypatch):
    flushed, fsync = [], os.fsync

    def note(handle):
        target = os.readlink(f"/proc/self/fd/{handle}")
        if target.startswith(str(tmp_path)):
            flushed.append((os.path.basename(target), os.fstat(handle).st_size if os.path.isfile(target) else None))
        fsync(handle)

    checksums.write(tmp_path / "a.json", b"first")
    monkeypatch.setattr(os, "fsync", note)
    checksums.write(tmp_path / "a.json", b"second")

    size = (tmp_path / checksums.NAME).stat().st_size
    assert flushed == [("a.json.tmp", 6), (checksums.NAME, size), (tmp_path.name, None)]


def test_a_file_that_a_writer_replaces_meanwhile_is_not_damaged(tmp_path, monkeypatch):
    checksums.write(tmp_path / "a.json", b"1")
    calls, wrong = [], {"a.json": {"0" * 63 + "1"}}

    def read(folder, at):
        calls.append(folder)
        return wrong if len(calls) == at else checksums.parse_sums((folder / checksums.NAME).read_bytes())

    monkeypatch.setattr(checksums, "read_sums", lambda folder: read(folder, 1))
    assert checksums.read_verified(tmp_path / "a.json") == b"1" and len(calls) == 2
    calls.clear()
    monkeypatch.setattr(checksums, "read_sums", lambda folder: read(folder, 2))
    assert checksums.damaged_files(tmp_path) == [], "the second look counts"


def test_parts_are_merged_from_the_most_small_ones_on_or_into_a_large_one(tmp_path, monkeypatch):
    assert (episode_store.MOST_SMALL, EpisodeStore(tmp_path / "new").seconds) == (128, 5.0)
    lock.release(tmp_path / "new", "store")
    monkeypatch.setattr(episode_store, "MOST_SMALL", 3)
    monkeypatch.setattr(episode_store, "LARGE", 5)
    store, counts, start = EpisodeStore(tmp_path / "run"), [], 0
    for size in (1, 1, 1, 5, 1, 4, 2):
        store.append(batch_of(*range(start, start + size)))
        store.flush()
        start += size
        counts.append(files(tmp_path / "run", "episodes"))
    store.close()

    assert [len(names) for names in counts] == [1, 2, 1, 2, 3, 3, 4]
    assert counts[4] == ["part-00000001-00000003.parquet", "part-00000004.parquet", "part-00000005.parquet"]
    assert counts[5] == ["part-00000001-00000003.parquet", "part-00000004.parquet", "part-00000005-00000006.parquet"]
    assert ids(tmp_path / "run") == list(range(15))


@pytest.mark.parametrize(
    ("most_small", "sizes", "parts"),
    [
        (100, (1, 3), 2),
        (100, (1, 3, 1), 1),
        (100, (1, 3, 2), 1),
        (3, (5, 1, 1), 3),
        (3, (6, 1, 1), 3),
        (3, (2, 1, 1), 1),
    ],
)
def test_a_part_is_small_below_the_large_size_and_large_at_it(tmp_path, monkeypatch, most_small, sizes, parts):
    """With a large size of five; the parts that are flushed last decide."""
    monkeypatch.setattr(episode_store, "MOST_SMALL", most_small)
    monkeypatch.setattr(episode_store, "LARGE", 5)
    numbers = iter(range(sum(sizes)))
    folder = write_store(tmp_path, *(tuple(next(numbers) for _ in range(size)) for size in sizes))
    assert len(files(folder, "episodes")) == parts and ids(folder) == list(range(sum(sizes)))


def test_parts_of_the_large_size_and_beyond_a_gap_stay_apart(tmp_path, monkeypatch):
    folder = write_store(tmp_path / "run", (0,), (1, 2, 3), (4,), (5, 6), (7,), (8,), (9,))
    monkeypatch.setattr(episode_store, "LARGE", 3)
    for table in ("episodes", "turns"):
        (folder / table / "part-00000006.parquet").unlink()
    store = EpisodeStore(folder)
    store.compact()
    store.close()

    assert files(folder, "episodes") == [
        "part-00000001.parquet",
        "part-00000002.parquet",
        "part-00000003-00000004.parquet",
        "part-00000005.parquet",
        "part-00000007.parquet",
    ]


def test_the_writer_says_what_it_moves_aside_or_misses(tmp_path, caplog):
    folder = write_store(tmp_path / "run", (0,), (1,), (2,), (3,))
    bad = folder / "episodes" / "part-00000001.parquet"
    bad.write_bytes(b"")
    for number in (2, 3, 4):
        (folder / "episodes" / f"part-{number:08d}.parquet").unlink()
    EpisodeStore(folder).close()

    assert caplog.messages == [
        f"{bad} cannot be used and is moved to damaged/; its episodes are pending again",
        f"{folder / 'turns' / bad.name} cannot be used and is moved to damaged/; its episodes are pending again",
        f"each of 3 parts from part-00000002.parquet to part-00000004.parquet of episodes/ in {folder} was removed;"
        " its episodes are pending again",
    ]
    assert describe_parts(["part-00000002.parquet"]) == "part-00000002.parquet"


@pytest.mark.parametrize("together", [256, 2, 3])
@pytest.mark.parametrize("beyond", [0, -1])
def test_small_parts_are_decoded_together(tmp_path, monkeypatch, together, beyond):
    folder = write_store(tmp_path / "a=b [1]", *((number,) for number in range(5)))
    sizes = {table: [path.stat().st_size for path in (folder / table).iterdir()] for table in ("episodes", "turns")}
    largest = max(sizes["episodes"]) + beyond
    small = {table: sum(size <= largest for size in sizes[table]) for table in sizes}
    monkeypatch.setattr(part_files, "TOGETHER", together)
    monkeypatch.setattr(part_files, "SMALL_BYTES", largest)
    collected, collect = [], pl.LazyFrame.collect
    monkeypatch.setattr(pl.LazyFrame, "collect", lambda frame, **keys: (collected.append(1), collect(frame, **keys))[1])

    parts = [Part(n, n) for n in range(1, 6)]
    assert list_parts(folder).parts == parts and not collected, "with their sums, their schemas are enough"
    assert list_parts(folder, decode=True).parts == parts
    assert len(collected) == sum(math.ceil(small[table] / together) + 5 - small[table] for table in sizes)


def test_an_empty_file_with_its_sum_is_bad_and_spoils_none(tmp_path):
    folder = write_store(tmp_path / "run", (0,), (1,), (2,))
    path = folder / "episodes" / "part-00000002.parquet"
    checksums.write(folder / "empty.json", b"")
    with (folder / checksums.NAME).open("a") as file:
        file.write(f"{hashlib.sha256(b'').hexdigest()}  episodes/{path.name}\n")
    path.write_bytes(b"")

    listed = list_parts(folder, decode=True)
    assert listed.parts == [Part(1, 1), Part(3, 3)] and {file.name for file in listed.bad} == {path.name}


def test_every_missing_file_is_named_also_after_one_that_is_there(tmp_path):
    checksums.write(tmp_path / "a.json", b"1")
    checksums.write(tmp_path / "b.json", b"1")
    folder = write_store(tmp_path, (0,), (1,))
    (folder / "b.json").unlink()
    (folder / "verdicts").mkdir()
    with (folder / checksums.NAME).open("a") as file:
        file.write(f"{'a' * 64}  verdicts/part-00000001.parquet\n{'a' * 64}  elsewhere/part-00000001.parquet\n")
    (folder / "turns" / "part-00000002.parquet").unlink()

    assert missing_files(folder) == ["b.json", "turns/part-00000002.parquet", "verdicts/part-00000001.parquet"]
    assert find_merged([Part(1, 1), Part(2, 3)], [Part(1, 2), Part(2, 3)]) == [Part(1, 1)]


def test_files_and_folders_take_every_bit_of_their_folder_but_execution_of_files(tmp_path):
    before = os.umask(0)
    try:
        for mode in (0o777, 0o705, 0o711):
            parent = tmp_path / f"{mode:o}"
            parent.mkdir()
            parent.chmod(0o1000 | mode)
            safe_write.make_folder(parent / "folder")
            safe_write.write(parent / "file", b"")
            assert (parent / "folder").stat().st_mode & 0o7777 == mode
            assert (parent / "file").stat().st_mode & 0o7777 == mode & 0o666
    finally:
        os.umask(before)


def test_every_file_is_closed_whatever_becomes_of_it(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / lock.NAME).touch()
    safe_write.write(tmp_path / "a", b"1")
    with pytest.raises(OSError, match="it is a pipe or a device, not a file") as refused:
        os.close(safe_write.open_file(tmp_path / "pipe", os.O_RDWR))
    assert refused.value.errno == errno.EINVAL and handles(tmp_path) == []
    assert lock.holder(tmp_path / "run") is None and handles(tmp_path) == []
    with lock.hold(tmp_path / "run", "driver"):
        assert lock.holder(tmp_path / "run") and handles(tmp_path) == [lock.NAME]
    assert handles(tmp_path) == []


def test_a_lock_is_tried_ten_times_before_it_is_refused(tmp_path, monkeypatch):
    pauses = []
    monkeypatch.setattr(lock, "time", SimpleNamespace(sleep=pauses.append))
    handle = os.open(tmp_path / lock.NAME, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(handle, fcntl.LOCK_SH)
        with pytest.raises(RunFolderError) as refused:
            lock.acquire(tmp_path, "driver")
    finally:
        os.close(handle)
    assert pauses == [0.03] * 9 and handles(tmp_path) == []
    assert (
        str(refused.value) == f"{tmp_path} is in use by another process; wait for it, stop it, or pass another --output"
    )
    with lock.hold(tmp_path, "driver"):
        assert len(pauses) == 9
