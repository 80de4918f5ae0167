"""The uploader's order, its pauses and its failures, over a bucket in a folder of this machine."""

import threading
import time

import pytest

from envs.errors import RunFolderError
from orchestrator.object_store import uploader
from orchestrator.object_store.bucket import Bucket, BucketError
from orchestrator.object_store.uploader import Uploader
from orchestrator.object_store.writer_lock import FOLDER, WriterLock
from orchestrator.storage import checksums, safe_write
from tests.orchestrator.buckets import wait_for


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
        if not name.startswith(FOLDER):
            self._note(f"create {name}")
        self.fs.mkdirs(f"{self.root}/{name}".rpartition("/")[0], exist_ok=True)
        return super().create(name, content)

    def write(self, name, content):
        self._note(f"write {name}")
        self.fs.mkdirs(f"{self.root}/{name}".rpartition("/")[0], exist_ok=True)
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
    lock = WriterLock(bucket)
    lock.take(str)
    return Uploader(bucket, folder, lock, {})


def put(folder, *names: str, content: bytes = b"x") -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        safe_write.temporary_path(folder / name).write_bytes(content)
        checksums.publish(folder, folder / name)


def test_a_round_writes_sums_first_then_parts_then_files_and_the_next_one_nothing(uploading, bucket, folder):
    put(folder, "plan.json", part("episodes", 1), part("turns", 1))
    bucket.changes.clear()
    assert uploading.upload_round()
    assert list(dict.fromkeys(bucket.changes)) == [
        f"write {checksums.NAME}", f"create {part('turns', 1)}", f"create {part('episodes', 1)}", "write plan.json",
    ]  # fmt: skip
    assert not uploading.upload_round()

    bucket.changes.clear()
    put(folder, "plan.json", content=b"longer")
    assert uploading.upload_round()
    assert list(dict.fromkeys(bucket.changes)) == [f"write {checksums.NAME}", "write plan.json"]


def test_a_file_that_is_removed_here_is_removed_there_after_the_sums(uploading, bucket, folder):
    put(folder, "a.json", "b.json")
    uploading.upload_round()
    (folder / "a.json").unlink()
    assert not uploading.upload_round(), "a file that somebody else removed stays"
    checksums.record_removals(folder, [folder / "a.json"])
    bucket.changes.clear()
    assert uploading.upload_round()
    assert bucket.changes == [f"write {checksums.NAME}", "delete a.json"]
    assert sorted(bucket.list_objects()) == sorted([f"{FOLDER}/00000001", "b.json", checksums.NAME])


def test_a_part_of_another_writer_stops_this_one(uploading, bucket, folder):
    put(folder, part("turns", 1))
    bucket.fs.mkdirs(f"{bucket.root}/turns", exist_ok=True)
    bucket.write(part("turns", 1), b"another's")
    with pytest.raises(RunFolderError) as refused:
        uploading.upload_round()
    assert str(refused.value) == f"{bucket.url}/{part('turns', 1)} was written by another process, so this one stops"
    uploading.start()
    assert uploading.close() == f"{refused.value}; what is not in the bucket stays in {folder}"


def test_the_end_of_an_attempt_waits_for_a_bucket_that_has_failed_for_long(uploading, bucket, folder, monkeypatch):
    monkeypatch.setattr(uploader, "ROUND_INTERVAL_S", 0.02)
    monkeypatch.setattr(uploader, "UPLOAD_TIMEOUT_S", 0.5)
    put(folder, "plan.json")
    bucket.fault = BucketError("the bucket is away")
    uploading.start()
    time.sleep(0.6)
    threading.Timer(0.1, setattr, (bucket, "fault", None)).start()
    assert uploading.close() == "" and bucket.read("plan.json") == b"x"


def test_a_file_that_is_written_after_rounds_without_any_is_uploaded_while_the_run_goes_on(
    uploading, bucket, folder, monkeypatch
):
    monkeypatch.setattr(uploader, "ROUND_INTERVAL_S", 0.02)
    uploading.start()
    time.sleep(0.2)
    put(folder, "plan.json")
    wait_for(lambda: "plan.json" in bucket.list_objects())
    assert bucket.read("plan.json") == b"x" and uploading.close() == ""
