"""A run in a bucket loses and duplicates nothing, on any machine and after any cut; tested with a local S3 service."""

from __future__ import annotations

import json
import re
import threading
import time
from pathlib import Path

import pytest

from envs.errors import RunFolderError
from orchestrator.object_store import run_location as remote
from orchestrator.object_store.bucket import CACHE, Bucket, BucketError
from orchestrator.object_store.uploader import Uploader
from orchestrator.object_store.writer_lock import WriterLock, read_holder
from orchestrator.storage.episode_store import EpisodeStore, episodes
from orchestrator.storage.part_files import list_parts
from tests.orchestrator import buckets
from tests.orchestrator.blocks import batch_of
from tests.orchestrator.buckets import wait_for
from tests.orchestrator.storage.test_episode_store import checked_ids


def switch_machine(monkeypatch, tmp_path: Path, name: str) -> None:
    """Use the cache folder of another machine from here on."""
    monkeypatch.setenv(CACHE, str(tmp_path / name))


def write_parts(folder: Path, *parts: tuple[int, ...], merged: bool = False) -> None:
    store = EpisodeStore(folder)
    for numbers in parts:
        store.append(batch_of(*numbers))
        store.flush()
    if merged:
        store.compact()
    store.close()


def stored_ids(url: str) -> set[int]:
    """Return the sample ids that a reader finds, each once with its own turns."""
    return checked_ids(remote.readable_folder(url, started=False))


# -- upload order ---------------------------------------------------------------------------------------------------------
class BreakingBucket(Bucket):
    """A bucket that accepts ``left`` objects and then fails."""

    left = 0

    def _spend(self) -> None:
        if self.left <= 0:
            raise BucketError("away")
        self.left -= 1

    def create(self, name, content):
        self._spend()
        return super().create(name, content)

    def write(self, name, content):
        self._spend()
        super().write(name, content)

    def delete(self, names):
        for name in names:
            self._spend()
            super().delete([name])


def test_run_resumes_from_bucket_after_cut_at_any_object(service, tmp_path, monkeypatch):
    """Cut the upload after one object, six, ...; each time, another machine finishes the run."""
    cuts = 0
    for cut in range(1, 40, 5):
        switch_machine(monkeypatch, tmp_path, f"a{cut}")
        address = f"s3://{buckets.BUCKET}/{tmp_path.name}-{cut}"
        bucket = BreakingBucket(address)
        bucket.left = 10**6
        lease = WriterLock(bucket)
        lease.take(str)
        folder = remote.cache_folder(address, "run")
        uploader = Uploader(bucket, folder, lease, {})
        bucket.left, complete = cut, True
        try:
            write_parts(folder, (1, 2), (3,))
            uploader.upload_round()
            write_parts(folder, (4,), merged=True)
            uploader.upload_round()
        except BucketError:
            complete, cuts = False, cuts + 1
        lease.bucket = Bucket(address)
        lease.release()

        carried = stored_ids(address) if Bucket(address).list_objects() else set()
        assert carried <= {1, 2, 3, 4}
        switch_machine(monkeypatch, tmp_path, f"b{cut}")
        with remote.open_location(address, str) as location:
            assert checked_ids(location.folder) == carried, "what the bucket had is there"
            write_parts(location.folder, *[(n,) for n in sorted({1, 2, 3, 4} - carried)], merged=True)
        assert not location.unsent and stored_ids(address) == {1, 2, 3, 4}
        if complete:
            break
    assert complete and cuts >= 3


# -- two machines -----------------------------------------------------------------------------------------------------------
def test_first_machine_moves_aside_files_it_did_not_upload(url, tmp_path, monkeypatch):
    with remote.open_location(url, str) as location:
        write_parts(location.folder, (1,))
    switch_machine(monkeypatch, tmp_path, "other")
    with remote.open_location(url, str) as location:
        assert checked_ids(location.folder) == {1}
        write_parts(location.folder, (2,))
    switch_machine(monkeypatch, tmp_path, "cache")
    local_folder = remote.cache_folder(url, "run")
    (local_folder / "sent").unlink()
    write_parts(local_folder, (3,))
    lines: list[str] = []
    with remote.open_location(url, lines.append) as location:
        assert checked_ids(location.folder) == {1, 2}

    assert "files that this machine did not upload are kept in" in lines[0]
    assert checked_ids(Path(lines[0].split("kept in ")[1])) == {1, 3}


def test_next_attempt_uploads_what_last_one_did_not(url):
    with remote.open_location(url, str) as location:
        write_parts(location.folder, (1,))
    (location.folder / "sent").unlink()
    write_parts(location.folder, (2,), (3,), merged=True)  # as if the bucket had gone away before these

    with remote.open_location(url, str) as again:
        assert again.folder == location.folder
    assert stored_ids(url) == {1, 2, 3}
    assert [name for name in Bucket(url).list_objects() if name.startswith("episodes/")] == [
        "episodes/part-00000001-00000003.parquet"
    ]


def test_part_with_discarded_episode_is_uploaded_again(url):
    with remote.open_location(url, str) as location:
        write_parts(location.folder, (1, 2), (3,))
        wait_for(lambda: len(Bucket(url).list_objects()) >= 4)
        store = EpisodeStore(location.folder)
        store.discard({episodes(location.folder).collect()["key"][0]})
        store.close()

    assert len(stored_ids(url)) == 2
    with remote.open_location(url, str) as location:
        assert len(checked_ids(location.folder)) == 2


def test_damaged_object_is_pending_again(url, tmp_path, monkeypatch):
    with remote.open_location(url, str) as location:
        write_parts(location.folder, (1,), (2,))
    Bucket(url).write("episodes/part-00000001.parquet", b"PAR1 and nothing more")
    assert len(list_parts(remote.readable_folder(url, started=False)).bad) == 2 and stored_ids(url) == {2}

    switch_machine(monkeypatch, tmp_path, "other")
    with remote.open_location(url, str) as location:
        write_parts(location.folder, (1,))
    assert stored_ids(url) == {1, 2}


# -- one writer -------------------------------------------------------------------------------------------------------------
def write_foreign_lock(bucket: Bucket, beat: int = 0) -> None:
    who = {"host": "elsewhere", "pid": 77, "started": "2026-01-01T00:00:00+00:00", "attempt": "x", "beat": beat}
    bucket.write("writer/00000002", json.dumps(who).encode())


def renew_lock(bucket: Bucket, stopped: threading.Event) -> None:
    """Renew the other writer's lock until ``stopped``, as a live writer does."""
    beat = 0
    while not stopped.wait(0.3):
        beat += 1
        write_foreign_lock(bucket, beat)


def test_live_writer_is_named_and_silent_one_is_replaced(url):
    bucket, lines = Bucket(url), []
    write_foreign_lock(bucket)
    stopped = threading.Event()
    renewing = threading.Thread(target=renew_lock, args=(bucket, stopped))
    renewing.start()
    try:
        with pytest.raises(
            RunFolderError, match=r"in use by process 77 on elsewhere .*wait for it, stop it, or pass"
        ) as error:
            WriterLock(bucket, silence=30).take(lines.append)
    finally:
        stopped.set()
        renewing.join()
    assert "\n" not in str(error.value)

    lease = WriterLock(bucket, silence=0.5)
    lease.take(lines.append)
    holder = "process 77 on elsewhere .+"
    assert re.fullmatch(
        rf"{url} is locked by {holder}: waiting up to 30 s to see whether that process is alive", lines[0]
    )
    assert read_holder(bucket)["attempt"] == lease.attempt
    lease.release()
    assert read_holder(bucket) is None


def test_writer_without_lock_stops_uploading_and_is_notified(url):
    bucket, lock_lost = Bucket(url), threading.Event()
    lease = WriterLock(bucket, renew_every=0.1)
    lease.take(str)
    lease.start_renewing(lambda reason: lock_lost.set())
    write_foreign_lock(bucket)
    folder = remote.cache_folder(url, "run")
    write_parts(folder, (1,))

    with pytest.raises(RunFolderError, match="process 77 on elsewhere"):
        Uploader(bucket, folder, lease, {}).upload_round()
    assert lock_lost.wait(20)
    lease.release()
    assert read_holder(bucket)["pid"] == 77, "the lock of another is left alone"


# -- outages ----------------------------------------------------------------------------------------------------------------
@pytest.mark.long
@pytest.mark.slow
def test_outage_is_waited_for_and_reported_if_it_lasts(url, service, capsys, monkeypatch):
    with remote.open_location(url, str) as location:
        write_parts(location.folder, (1,))
        wait_for(lambda: "episodes/part-00000001.parquet" in Bucket(url).list_objects())
        service.stop()
        began = time.monotonic()
        write_parts(location.folder, (2,))
        assert time.monotonic() - began < 20, "the sweep does not wait for the bucket"
        time.sleep(2)
        service.back()
    assert not location.unsent and location.exit_code(0) == 0 and stored_ids(url) == {1, 2}

    monkeypatch.setattr("orchestrator.object_store.uploader.UPLOAD_TIMEOUT_S", 1.0)
    with remote.open_location(url, str) as location:
        write_parts(location.folder, (3,))
        service.stop()
    service.back()
    assert (location.exit_code(0), location.exit_code(130)) == (1, 130)
    message = capsys.readouterr().err.strip().splitlines()[-1]
    assert "the same command uploads the rest" in message and "a-secret" not in message
    assert stored_ids(url) == {1, 2}
    with remote.open_location(url, str) as location:
        pass
    assert stored_ids(url) == {1, 2, 3}


# -- what a user gets wrong -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["../../evil", "/evil", "episodes/../../evil"])
def test_object_outside_folder_is_refused(url, tmp_path, name):
    with pytest.raises(RunFolderError, match="is no file of a run folder"):
        remote._fetch(Bucket(url), tmp_path / "x", [name])


def test_the_parent_of_a_run_is_refused_and_not_downloaded(url):
    with remote.open_location(f"{url}/run", str) as location:
        write_parts(location.folder, (1,))
    with pytest.raises(RunFolderError, match=f"^{url} holds no run yet; .* --output {url}`"):
        remote.readable_folder(url)
    assert not list(remote.cache_folder(url, "view").rglob("*.parquet"))


def test_a_reader_fetches_only_what_is_new(url):
    with remote.open_location(url, str) as location:
        (location.folder / "sweep.resolved.toml").write_text("x = 1")
        write_parts(location.folder, (1, 2), (3,))
    folder = remote.readable_folder(url, started=False)
    stamps = {path: path.stat().st_mtime_ns for path in folder.rglob("*.parquet")}
    assert len(stamps) > 2 and stored_ids(url) == {1, 2, 3}
    with remote.open_location(url, str) as location:
        write_parts(location.folder, (4,))
    assert stored_ids(url) == {1, 2, 3, 4}

    assert {path: path.stat().st_mtime_ns for path in stamps} == stamps
