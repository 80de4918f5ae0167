"""The uploader's order, its pauses and its failures, over a bucket in a folder of this machine."""

import os
import threading

import pytest

from envs.errors import RunFolderError
from orchestrator.object_store import uploader
from orchestrator.object_store.bucket import Bucket, BucketError
from orchestrator.object_store.uploader import Uploader, pending_parts, replaced_parts, shared_files
from orchestrator.object_store.writer_lock import LOCK, WriterLock
from orchestrator.storage import checksums, safe_write


def part(table: str, first: int, last: int | None = None) -> str:
    return f"{table}/part-{first:08d}{f'-{last:08d}' if last else ''}.parquet"


class NotedBucket(Bucket):
    """A bucket in a folder that notes what is written and deleted, in order, and fails with ``fault`` where it is set."""

    fault: Exception | None = None

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.changes: list[str] = []

    def _note(self, line: str) -> None:
        if self.fault is not None:
            raise self.fault
        self.changes.append(line)

    def create(self, name, content):
        if name != LOCK:
            self._note(f"create {name}")
        self.fs.mkdirs(f"{self.root}/{name}".rpartition("/")[0], exist_ok=True)
        return super().create(name, content)

    def write(self, name, content):
        self._note(f"write {name}")
        super().write(name, content)

    def delete(self, names):
        for name in names:
            self._note(f"delete {name}")
            super().delete([name])


@pytest.fixture
def bucket(tmp_path):
    (tmp_path / "bucket").mkdir()
    return NotedBucket(f"file://{tmp_path}/bucket")


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "run").mkdir()
    return tmp_path / "run"


@pytest.fixture
def uploading(bucket, folder):
    lock = WriterLock(bucket, settle=0)
    lock.take(str)
    return Uploader(bucket, folder, lock, {})


def put(folder, *names: str, content: bytes = b"x") -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        safe_write.temporary_path(folder / name).write_bytes(content)
        checksums.record_sums(folder, [folder / name])
        safe_write.publish(folder / name)


def test_options_and_turns_go_first_then_episodes_and_verdicts_by_name():
    local = [part(table, number) for table in ("verdicts", "episodes", "turns", "options") for number in (2, 1)]
    assert pending_parts([*local, "plan.json"], [])[0] == [
        part("options", 1), part("options", 2), part("turns", 1), part("turns", 2),
        part("episodes", 1), part("episodes", 2), part("verdicts", 1), part("verdicts", 2),
    ]  # fmt: skip


def test_only_a_complete_merge_replaces_what_lies_inside_it():
    inside = [part("turns", 2), part("options", 3), part("episodes", 1, 2)]
    beside = [part("turns", 4), part("turns", 3, 4), part("verdicts", 2)]
    merge = [part("turns", 1, 3), part("episodes", 1, 3)]
    assert replaced_parts([*inside, *beside, *merge], merge) == set(inside)
    assert replaced_parts(inside, merge[:1]) == replaced_parts(inside, merge[1:]) == set()
    assert replaced_parts([part("turns", 1)], [part("turns", 1), part("episodes", 1)]) == set()


def test_verdicts_below_the_newest_are_merged_into_it():
    newest = part("verdicts", 3)
    names = [part("verdicts", number) for number in (1, 2, 3, 4)]
    assert replaced_parts(names, [newest, part("verdicts", 2)]) == {part("verdicts", 1)}
    assert replaced_parts(names, []) == set()


def test_shared_files_are_verdicts_then_episodes_then_all_others_by_name(folder):
    put(folder, "b.json", "a.json", part("turns", 1), part("episodes", 2), part("episodes", 1), part("verdicts", 1))
    put(folder, "logs/1/x.log", "mlruns/x", "damaged/turns/part-00000001.parquet", "control/inbox/x", "mlflow.db-wal")
    names = [name for name in shared_files(folder) if name not in (checksums.NAME, "control/inbox/x")]
    assert names == [
        part("verdicts", 1), part("episodes", 1), part("episodes", 2), "a.json", "b.json", "logs/1/x.log", part("turns", 1),
    ]  # fmt: skip


def test_a_round_writes_sums_first_then_parts_then_files_and_the_next_one_nothing(uploading, bucket, folder):
    put(folder, "plan.json", part("episodes", 1), part("turns", 1))
    bucket.changes.clear()
    assert uploading.upload_round(everything=False)
    assert list(dict.fromkeys(bucket.changes)) == [
        f"write {checksums.NAME}", f"create {part('turns', 1)}", f"create {part('episodes', 1)}", "write plan.json",
    ]  # fmt: skip
    assert not uploading.upload_round(everything=True)

    bucket.changes.clear()
    put(folder, "plan.json", content=b"longer")
    assert not uploading.upload_round(everything=False), "small files are looked at every five seconds"
    assert uploading.upload_round(everything=True)
    assert list(dict.fromkeys(bucket.changes)) == [f"write {checksums.NAME}", "write plan.json"]
    uploading._compared_at -= 5.0
    put(folder, "plan.json", content=b"longest")
    assert uploading.upload_round(everything=False)


def test_a_merge_takes_the_place_of_its_parts_after_it_is_there(uploading, bucket, folder):
    singles = [part(table, number) for table in ("episodes", "turns") for number in (1, 2)]
    put(folder, *singles)
    uploading.upload_round(everything=True)
    for name in singles:
        (folder / name).unlink()
    put(folder, part("episodes", 1, 2), part("turns", 1, 2))
    bucket.changes.clear()
    uploading.upload_round(everything=False)
    assert list(dict.fromkeys(bucket.changes)) == [
        f"write {checksums.NAME}", f"create {part('turns', 1, 2)}", f"create {part('episodes', 1, 2)}",
        *[f"delete {name}" for name in singles],
    ]  # fmt: skip
    assert uploading.remote_names == {checksums.NAME, part("turns", 1, 2), part("episodes", 1, 2)}


def test_a_file_that_is_removed_here_is_removed_there_after_the_sums(uploading, bucket, folder):
    put(folder, "a.json", "b.json")
    uploading.upload_round(everything=True)
    (folder / "a.json").unlink()
    assert not uploading.upload_round(everything=True), "a file that somebody else removed stays"
    checksums.record_removals(folder, [folder / "a.json"])
    bucket.changes.clear()
    assert uploading.upload_round(everything=True)
    assert bucket.changes == [f"write {checksums.NAME}", "delete a.json"]
    assert sorted(bucket.list_objects()) == sorted([LOCK, "b.json", checksums.NAME])


def test_parts_of_the_bucket_of_another_size_are_written_again(bucket, folder):
    put(folder, part("episodes", 1), part("episodes", 2))
    for name, content in ((part("episodes", 1), b"x"), (part("episodes", 2), b"other")):
        bucket.create(name, content)
    lock = WriterLock(bucket, settle=0)
    lock.take(str)
    uploading = Uploader(bucket, folder, lock, bucket.list_objects())
    bucket.changes.clear()
    uploading.upload_round(everything=True)
    assert [line for line in bucket.changes if "episodes" in line] == [f"write {part('episodes', 2)}"]
    assert bucket.read(part("episodes", 2)) == b"x"


def test_parts_that_the_bucket_has_lost_are_pending_again(uploading, bucket, folder):
    put(folder, part("turns", 1), part("episodes", 1), "plan.json")
    uploading.upload_round(everything=True)
    assert uploading.forget_lost_parts() == set()
    bucket.delete([part("episodes", 1), "plan.json"])
    assert uploading.forget_lost_parts() == {part("episodes", 1)}
    assert uploading.forget_lost_parts() == set()
    bucket.changes.clear()
    uploading.upload_round(everything=True)
    assert bucket.changes == [f"create {part('episodes', 1)}"]


def test_a_part_that_is_taken_and_not_there_is_an_error_of_the_bucket(uploading, bucket, folder, monkeypatch):
    put(folder, part("turns", 1))
    monkeypatch.setattr(NotedBucket, "create", lambda self, name, content: False)
    with pytest.raises(BucketError) as refused:
        uploading.upload_round(everything=True)
    assert str(refused.value) == (
        f"{bucket.url}/{part('turns', 1)} was refused by the service as taken, and is not there"
    )
    bucket.fs.mkdirs(f"{bucket.root}/turns", exist_ok=True)
    bucket.write(part("turns", 1), b"another's")
    with pytest.raises(RunFolderError) as refused:
        uploading.upload_round(everything=True)
    assert str(refused.value) == f"{bucket.url}/{part('turns', 1)} was written by another process, so this one stops"


def test_a_part_that_goes_before_it_is_read_is_left_to_the_next_round(uploading, folder):
    assert uploading._upload(part("turns", 1)) is False
    assert part("turns", 1) not in uploading.remote_names
    assert uploading._replace("absent.json") is None and "absent.json" not in uploading.remote_names


def test_pauses_double_up_to_half_a_minute(uploading, capsys):
    assert uploading._pause() == 2.0
    pauses = []
    for _ in range(12):
        uploading._report_failure(BucketError("away"))
        pauses.append(uploading._pause())
    assert pauses == [2.0, 4.0, 8.0, 16.0, *[30.0] * 8]
    assert capsys.readouterr().err == "away; the sweep continues, and the upload is retried\n", "said once"
    assert uploader.ROUND_INTERVAL_S == 1 and uploader.UPLOAD_TIMEOUT_S == 600 == uploading.patience


def test_an_end_of_the_disk_ends_the_upload_at_once(uploading, bucket, folder, capsys, monkeypatch):
    put(folder, part("turns", 1))
    monkeypatch.setattr(uploader, "ROUND_INTERVAL_S", 0.01)
    bucket.fault = OSError(28, "No space left on device")
    uploading._closing.set()
    uploading.start()
    problem = uploading.close()
    assert str(problem) == f"{folder} cannot be read or written (No space left on device)"
    assert capsys.readouterr().err == f"{problem}; the sweep continues, and the upload is retried\n"


def test_a_bucket_that_stays_away_is_waited_for_as_long_as_said(uploading, bucket, folder, monkeypatch):
    put(folder, part("turns", 1))
    monkeypatch.setattr(uploader, "RETRY_PAUSE_S", 0.0)
    monkeypatch.setattr(uploader, "ROUND_INTERVAL_S", 0.0)
    clock, sleeps = [1000.0], []
    monkeypatch.setattr(uploader.time, "monotonic", lambda: clock[0])

    def sleep(seconds):
        sleeps.append(seconds)
        clock[0] += 250

    monkeypatch.setattr(uploader.time, "sleep", sleep)
    bucket.fault = BucketError("away")
    uploading._closing.set()
    uploading._work()
    assert str(uploading._failed) == "away"
    assert len(sleeps) == 3 and not uploading._complete, "0, 250 and 500 seconds are too few, 750 are enough"
    bucket.fault = None
    uploading._work()
    assert uploading._complete


def test_another_writer_ends_the_upload(uploading, bucket, folder, monkeypatch):
    put(folder, part("turns", 1))
    bucket.fault = RunFolderError("taken")
    uploading._closing.set()
    uploading._work()
    assert str(uploading._failed) == "taken" and not uploading._complete


def test_commands_are_looked_for_every_two_seconds_and_not_at_the_end(uploading, monkeypatch):
    clock, looks = [1000.0], []
    monkeypatch.setattr(uploader.time, "monotonic", lambda: clock[0])

    def fetch_commands():
        looks.append(clock[0])
        uploading._commands_at = clock[0]

    def wait(seconds):
        clock[0] += seconds
        if clock[0] >= 1005:
            closed.set()

    closed = threading.Event()
    monkeypatch.setattr(uploading, "fetch_commands", fetch_commands)
    monkeypatch.setattr(closed, "wait", wait)
    monkeypatch.setattr(uploading, "_closing", closed)
    uploading._work()
    assert looks == [1001.0, 1003.0] and uploading._complete


def test_a_state_is_time_and_size(folder):
    put(folder, "a", content=b"123")
    os.utime(folder / "a", ns=(5, 7))
    assert uploader._file_state(folder / "a") == (7, 3) and uploader._file_state(folder / "b") is None
