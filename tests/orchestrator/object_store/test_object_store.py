"""A run in a bucket: nothing lost, nothing twice, from any point of any machine; a real S3 service on this machine."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from hashlib import sha256
from pathlib import Path

import pytest

from orchestrator.object_store import run_location as remote
from orchestrator.object_store.bucket import CACHE, Bucket, BucketError
from orchestrator.object_store.uploader import Uploader, is_shared, pending_parts
from orchestrator.object_store.writer_lock import LOCK, WriterLock
from orchestrator.storage import checksums
from orchestrator.storage.episode_store import EpisodeStore, episodes
from orchestrator.storage.lock import RunFolderError
from orchestrator.storage.part_files import damaged_parts
from tests.orchestrator import buckets
from tests.orchestrator.blocks import numbered
from tests.orchestrator.buckets import wait_for
from tests.orchestrator.storage.test_episode_store import sound


def machine(monkeypatch, tmp_path: Path, name: str) -> None:
    """From here on this is another machine, as far as folders go."""
    monkeypatch.setenv(CACHE, str(tmp_path / name))


def write(folder: Path, *parts: tuple[int, ...], merged: bool = False) -> None:
    store = EpisodeStore(folder)
    for numbers in parts:
        store.append(numbered(*numbers))
        store.flush()
    if merged:
        store.compact()
    store.close()


def stored(url: str) -> set[int]:
    """The sample ids that a reader finds, each of them once with its own turns."""
    return sound(remote.readable_folder(url))


# -- the order of what is carried, by itself ------------------------------------------------------------------------------
def test_turns_are_carried_before_episodes_and_what_a_merge_replaced_goes_after_it():
    there = ["episodes/part-00000001.parquet", "turns/part-00000001.parquet"]
    here = [f"{t}/part-{n}.parquet" for t in ("episodes", "turns") for n in ("00000001-00000003", "00000004")]

    new, gone = pending_parts(here, there)

    assert new == [
        "turns/part-00000001-00000003.parquet", "turns/part-00000004.parquet",
        "episodes/part-00000001-00000003.parquet", "episodes/part-00000004.parquet",
    ]  # fmt: skip
    assert gone == there


def test_a_merge_without_its_episodes_replaces_nothing_yet():
    parts = [f"{table}/part-0000000{n}.parquet" for table in ("episodes", "turns") for n in (1, 2)]

    new, gone = pending_parts([*parts, "turns/part-00000001-00000002.parquet"], parts)

    assert (new, gone) == (["turns/part-00000001-00000002.parquet"], [])


def test_what_means_something_on_one_machine_alone_stays_there():
    local = ["lock", "attempt", "sent", "mlflow.db", "mlflow.db-wal", "mlartifacts/1/x", "damaged/x", "plan.json.tmp"]
    assert not any(map(is_shared, local))
    assert all(map(is_shared, ["plan.json", "logs/attempt-0001/driver.log", "verdicts/part-00000001.parquet"]))


class Breaking(Bucket):
    """A bucket that takes so many objects and is away from then on."""

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


def test_whatever_the_last_object_was_the_bucket_alone_goes_on_without_loss_or_doubles(service, tmp_path, monkeypatch):
    """The carrying is cut after every possible number of objects; each time another machine ends the run."""
    cuts = 0
    for cut in range(1, 40):
        machine(monkeypatch, tmp_path, f"a{cut}")
        address = f"s3://{buckets.BUCKET}/{tmp_path.name}-{cut}"
        bucket = Breaking(address)
        bucket.left = 10**6
        lease = WriterLock(bucket, settle=0)
        lease.take(str)
        folder = remote.cache_folder(address, "run")
        mirror = Uploader(bucket, folder, lease, {})
        bucket.left, whole = cut, True
        try:
            write(folder, (1, 2), (3,))
            mirror.upload_round(everything=True)
            write(folder, (4,), merged=True)
            mirror.upload_round(everything=True)
        except BucketError:
            whole, cuts = False, cuts + 1
        lease.bucket = Bucket(address)
        lease.release()

        carried = stored(address) if Bucket(address).list_objects() else set()
        assert carried <= {1, 2, 3, 4}
        machine(monkeypatch, tmp_path, f"b{cut}")
        with remote.open_location(address, str) as place:
            assert sound(place.folder) == carried, "what the bucket had is there"
            write(place.folder, *[(n,) for n in sorted({1, 2, 3, 4} - carried)], merged=True)
        assert not place.unsent and stored(address) == {1, 2, 3, 4}
        if whole:
            break
    assert whole and cuts >= 8


class Watched(Bucket):
    """After each object, what a reader of that moment would find unlike its sum."""

    unlike: tuple[str, ...] = ()

    def write(self, name, content):
        super().write(name, content)
        lines = (self.read(checksums.NAME) or b"").decode().splitlines()
        sums = {known: {line[:64] for line in lines if line[66:] == known} for known in ("plan.json", "status.json")}
        self.unlike += tuple(
            known for known, noted in sums.items() if (now := self.read(known)) and sha256(now).hexdigest() not in noted
        )


def test_no_file_is_in_the_bucket_before_its_sum(service, tmp_path, monkeypatch):
    machine(monkeypatch, tmp_path, "a")
    bucket = Watched(f"s3://{buckets.BUCKET}/{tmp_path.name}")
    lock = WriterLock(bucket, settle=0)
    lock.take(str)
    folder = tmp_path / "run"
    folder.mkdir()
    uploader = Uploader(bucket, folder, lock, {})
    for content in (b"1", b"2"):
        for name in ("plan.json", "status.json"):
            checksums.write(folder / name, content)
        uploader.upload_round(everything=True)
    lock.release()
    assert bucket.unlike == () and bucket.read("status.json") == b"2"


# -- two machines -----------------------------------------------------------------------------------------------------------
def test_another_machine_goes_on_and_the_first_one_puts_aside_what_it_did_not_carry(url, tmp_path, monkeypatch):
    with remote.open_location(url, str) as place:
        write(place.folder, (1,))
    machine(monkeypatch, tmp_path, "other")
    with remote.open_location(url, str) as place:
        assert sound(place.folder) == {1}
        write(place.folder, (2,))
    machine(monkeypatch, tmp_path, "cache")
    left = remote.cache_folder(url, "run")
    (left / "sent").unlink()
    write(left, (3,))
    said: list[str] = []
    with remote.open_location(url, said.append) as place:
        assert sound(place.folder) == {1, 2}

    assert "files that this machine did not upload are kept in" in said[0]
    assert sound(Path(said[0].split("kept in ")[1])) == {1, 3}


def test_what_the_last_attempt_did_not_carry_is_carried_by_the_next_one_here(url):
    with remote.open_location(url, str) as place:
        write(place.folder, (1,))
    (place.folder / "sent").unlink()
    write(place.folder, (2,), (3,), merged=True)  # as if the bucket had gone away before these

    with remote.open_location(url, str) as again:
        assert again.folder == place.folder
    assert stored(url) == {1, 2, 3}
    assert [name for name in Bucket(url).list_objects() if name.startswith("episodes/")] == [
        "episodes/part-00000001-00000003.parquet"
    ]


def test_a_part_that_an_episode_was_taken_out_of_is_written_anew(url):
    with remote.open_location(url, str) as place:
        write(place.folder, (1, 2), (3,))
        wait_for(lambda: len(Bucket(url).list_objects()) >= 4)
        store = EpisodeStore(place.folder)
        store.discard({episodes(place.folder).collect()["key"][0]})
        store.close()

    assert len(stored(url)) == 2
    with remote.open_location(url, str) as place:
        assert len(sound(place.folder)) == 2


def test_a_damaged_object_is_pending_again_and_no_crash(url, tmp_path, monkeypatch):
    with remote.open_location(url, str) as place:
        write(place.folder, (1,), (2,))
    Bucket(url).write("episodes/part-00000001.parquet", b"PAR1 and nothing more")
    assert len(damaged_parts(remote.readable_folder(url))) == 2 and stored(url) == {2}

    machine(monkeypatch, tmp_path, "other")
    with remote.open_location(url, str) as place:
        write(place.folder, (1,))
    assert stored(url) == {1, 2}


# -- one writer -------------------------------------------------------------------------------------------------------------
def foreign(bucket: Bucket, beat: int = 0) -> None:
    who = {"host": "elsewhere", "pid": 77, "started": "2026-01-01T00:00:00+00:00", "attempt": "x", "beat": beat}
    bucket.write(LOCK, json.dumps(who).encode())


def renewed(bucket: Bucket, stopped: threading.Event) -> None:
    """Renew the other writer's lock until ``stopped``, as one that lives does."""
    beat = 0
    while not stopped.wait(0.3):
        beat += 1
        foreign(bucket, beat)


def test_a_writer_that_renews_is_named_and_a_silent_one_is_replaced(url):
    bucket, said = Bucket(url), []
    foreign(bucket)
    stopped = threading.Event()
    renewing = threading.Thread(target=renewed, args=(bucket, stopped))
    renewing.start()
    try:
        with pytest.raises(
            RunFolderError, match=r"in use by process 77 on elsewhere .*wait for it, stop it, or pass"
        ) as no:
            WriterLock(bucket, silence=30, settle=0).take(said.append)
    finally:
        stopped.set()
        renewing.join()
    assert "\n" not in str(no.value)

    lease = WriterLock(bucket, silence=0.5, settle=0)
    lease.take(said.append)
    assert "taken over" in said[-1]
    lease.release()
    assert bucket.read(LOCK) is None


def test_a_writer_of_this_machine_that_is_gone_is_replaced_at_once(url):
    bucket = Bucket(url)
    dead = WriterLock(bucket, settle=0)
    dead.take(str)
    lock = json.loads(bucket.read(LOCK))
    gone = os.posix_spawn(sys.executable, [sys.executable, "-c", ""], os.environ)
    os.waitpid(gone, 0)
    bucket.write(LOCK, json.dumps({**lock, "pid": gone, "attempt": "y"}).encode())

    began = time.monotonic()
    WriterLock(bucket, silence=60, settle=0).take(str)
    assert time.monotonic() - began < 50, "a dead writer is known by its pid, not by the silence of a minute"


def test_a_writer_that_lost_its_lock_carries_nothing_more_and_hears_of_it(url):
    bucket, heard = Bucket(url), threading.Event()
    lease = WriterLock(bucket, renew_every=0.1, settle=0)
    lease.take(str)
    lease.start_renewing(lambda reason: heard.set())
    foreign(bucket)
    folder = remote.cache_folder(url, "run")
    write(folder, (1,))

    with pytest.raises(RunFolderError, match="process 77 on elsewhere"):
        Uploader(bucket, folder, lease, {}).upload_round(everything=True)
    assert heard.wait(20)
    lease.release()
    assert json.loads(bucket.read(LOCK))["pid"] == 77, "the lock of another is left alone"


def test_a_name_that_another_process_took_is_never_written_over(url):
    bucket = Bucket(url)
    lease = WriterLock(bucket, settle=0)
    lease.take(str)
    folder = remote.cache_folder(url, "run")
    write(folder, (1,))
    bucket.write("episodes/part-00000001.parquet", b"of another")

    with pytest.raises(RunFolderError, match="was written by another process"):
        Uploader(bucket, folder, lease, {}).upload_round(everything=True)
    assert bucket.read("episodes/part-00000001.parquet") == b"of another"


# -- outages ----------------------------------------------------------------------------------------------------------------
@pytest.mark.long
@pytest.mark.slow
def test_a_service_that_goes_away_is_waited_for_and_one_that_stays_away_is_told(url, service, capsys, monkeypatch):
    with remote.open_location(url, str) as place:
        write(place.folder, (1,))
        wait_for(lambda: "episodes/part-00000001.parquet" in Bucket(url).list_objects())
        service.stop()
        began = time.monotonic()
        write(place.folder, (2,))
        assert time.monotonic() - began < 20, "the sweep does not wait for the bucket"
        time.sleep(2)
        service.back()
    assert not place.unsent and place.exit_code(0) == 0 and stored(url) == {1, 2}

    monkeypatch.setattr("orchestrator.object_store.uploader.UPLOAD_TIMEOUT_S", 1.0)
    with remote.open_location(url, str) as place:
        write(place.folder, (3,))
        service.stop()
    service.back()
    assert (place.exit_code(0), place.exit_code(130)) == (1, 130)
    told = capsys.readouterr().err.strip().splitlines()[-1]
    assert "the same command uploads the rest" in told and "a-secret" not in told
    assert stored(url) == {1, 2}
    with remote.open_location(url, str) as place:
        pass
    assert stored(url) == {1, 2, 3}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_file_that_cannot_be_read_never_passes_for_carried(url):
    with remote.open_location(url, str) as place:
        (place.folder / "loop").symlink_to("loop")
        write(place.folder, (1,))
    assert "ended with the fault shown above" in place.unsent and place.exit_code(0) == 1
    (place.folder / "loop").unlink()
    with remote.open_location(url, str):
        pass
    assert stored(url) == {1}


# -- what a user gets wrong -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("output", "told"),
    [
        ("s3://key:secret@sweeps/x", "keys belong in the environment"),
        ("s3:///x", "names no bucket"),
        ("s4://sweeps/x", "proactive-sweep[cloud]"),
        ("s3://no-such-bucket/x", "no-such-bucket/x cannot be written"),
    ],
)
def test_an_address_that_cannot_be_is_one_sentence(service, output, told):
    with pytest.raises(RunFolderError) as no, remote.open_location(output, str):
        pass
    assert told in str(no.value) and "\n" not in str(no.value) and "secret@" not in str(no.value)


def test_an_object_that_would_leave_the_folder_is_refused(url, tmp_path):
    bucket = Bucket(url)
    bucket.write("plan.json", b"{}")
    listed = bucket.list_objects()
    with pytest.raises(RunFolderError, match="is no file of a run folder"):
        remote._fetch(bucket, tmp_path / "x", {"../../evil": listed["plan.json"]})
