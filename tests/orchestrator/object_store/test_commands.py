"""Commands to a run in a bucket or in a folder: sent by anyone who may write there, taken by the driver, answered in its log."""

import pytest

from orchestrator.object_store import control_client, run_location, uploader
from orchestrator.object_store.bucket import Bucket
from orchestrator.object_store.control_client import ControlClient
from orchestrator.object_store.uploader import Uploader
from orchestrator.object_store.writer_lock import WriterLock
from orchestrator.storage import control_log, run_folder
from orchestrator.storage.control_log import parse_command
from tests.orchestrator.buckets import wait_for
from tests.orchestrator.object_store.test_object_store import stored_ids, write_parts

PAUSE = parse_command("pause", "oracle")


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(control_client, "POLL_INTERVAL_S", 0.01)
    monkeypatch.setattr(uploader, "ROUND_INTERVAL_S", 0.02)
    monkeypatch.setattr(uploader, "COMMANDS_INTERVAL_S", 0.02)


@pytest.fixture
def bucket(tmp_path):
    """A bucket in a folder, with the settings of a run."""
    bucket = Bucket(f"file://{tmp_path}/bucket")
    bucket.fs.mkdirs(f"{bucket.root}/{control_log.INBOX}")
    bucket.write(run_folder.RESOLVED, b"x = 1")
    return bucket


def test_a_command_in_a_bucket_reaches_the_folder_of_its_driver(bucket, tmp_path):
    client, folder = ControlClient(bucket.url), tmp_path / "copy"
    folder.mkdir()
    lease = WriterLock(bucket, settle=0)
    assert not client.running
    lease.take(str)
    assert client.running and client.read_history() == [] and client.wait_for_answer("none", 0) is None
    name = client.send(PAUSE)
    assert list(bucket.list_objects(control_log.INBOX)) == [name] and control_log.NAME.fullmatch(name)

    uploading = Uploader(bucket, folder, lease, bucket.list_objects())
    uploading.start()
    wait_for(lambda: control_log.waiting_commands(folder), 20)
    taken = control_log.take_commands(folder, lambda command: (f"{command.verb} {command.target}", True))
    assert uploading.close() is None
    entry = client.wait_for_answer(name, 5)

    assert [each.name for each in taken] == [name] and (entry.name, entry.effect) == (name, "pause oracle")
    assert client.read_history() == [entry] and bucket.list_objects(control_log.INBOX) == {}
    lease.release()
    assert not client.running


def test_a_command_that_is_too_large_becomes_empty(bucket, tmp_path):
    folder = tmp_path / "copy"
    folder.mkdir()
    lease = WriterLock(bucket, settle=0)
    lease.take(str)
    names = [control_log.command_file(PAUSE)[0] for _ in range(2)]
    for name, size in zip(names, (control_log.LARGEST, control_log.LARGEST + 1), strict=True):
        bucket.write(f"{control_log.INBOX}/{name}", b"x" * size)
    bucket.write(f"{control_log.INBOX}/notes.txt", b"x")
    Uploader(bucket, folder, lease, {}).fetch_commands()

    assert [(folder / control_log.INBOX / name).stat().st_size for name in names] == [control_log.LARGEST, 0]
    assert list(bucket.list_objects(control_log.INBOX)) == ["notes.txt"]


def test_a_reader_fetches_only_what_is_new(url):
    with run_location.open_location(url, str) as location:
        (location.folder / run_folder.RESOLVED).write_text("x = 1")
        write_parts(location.folder, (1, 2), (3,))
    folder = run_location.readable_folder(url)
    stamps = {path: path.stat().st_mtime_ns for path in folder.rglob("*.parquet")}
    assert len(stamps) > 2 and stored_ids(url) == {1, 2, 3}
    with run_location.open_location(url, str) as location:
        write_parts(location.folder, (4,))
    assert stored_ids(url) == {1, 2, 3, 4}

    assert {path: path.stat().st_mtime_ns for path in stamps} == stamps
