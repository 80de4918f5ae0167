"""Drivers race for one bucket: exactly one gets the lock, and a driver that loses it commits nothing more."""

from __future__ import annotations

import json
import threading
from contextlib import suppress

import pytest

from envs.errors import RunFolderError
from orchestrator.object_store import run_location
from orchestrator.object_store.bucket import Bucket
from orchestrator.object_store.uploader import Uploader
from orchestrator.object_store.writer_lock import WriterLock, read_holder, read_newest
from orchestrator.storage.episode_store import EpisodeStore
from tests.orchestrator.blocks import batch_of

ROUNDS = 3


class RacingBucket(Bucket):
    """A bucket whose two users take the lock at the same moment, each of them once."""

    def __init__(self, url: str, barrier: threading.Barrier) -> None:
        super().__init__(url)
        self.barrier, self.waited = barrier, False

    def create(self, name, content):
        if not self.waited:
            self.waited = True
            with suppress(threading.BrokenBarrierError):
                self.barrier.wait(20)
        return super().create(name, content)


def race_drivers(url: str) -> tuple[list[WriterLock], list[str]]:
    """Race two drivers; return the locks of the winners and the messages of the refused."""
    barrier, winners, refused = threading.Barrier(2), [], []

    def drive() -> None:
        lock = WriterLock(RacingBucket(url, barrier), renew_every=0.05, silence=4)
        try:
            lock.take(str)
        except RunFolderError as reason:
            refused.append(str(reason))
        else:
            lock.start_renewing(lambda reason: refused.append(reason))
            winners.append(lock)

    threads = [threading.Thread(target=drive) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for lock in winners:
        assert read_holder(Bucket(url))["attempt"] == lock.attempt
        lock.release()
    return winners, refused


@pytest.mark.parametrize("is_locked", [False, True], ids=["a free bucket", "a dead writer's"])
def test_one_of_two_drivers_gets_the_bucket(url, is_locked):
    for number in range(ROUNDS):
        address = f"{url}/{is_locked}-{number}"
        if is_locked:
            dead = WriterLock(Bucket(address))
            dead.take(str)
            record = {**read_holder(Bucket(address)), "attempt": "of the dead one"}
            Bucket(address).write("writer/00000001", json.dumps(record).encode())
        winners, refused = race_drivers(address)

        assert (len(winners), len(refused)) == (1, 1), f"round {number}"
        assert "is in use by process" in refused[0]
        assert list(Bucket(address).list_objects()) == [f"writer/0000000{1 + is_locked}"]


def test_a_service_without_conditional_writes_still_locks(url, service):
    service.faults.conditions = "refused"
    first, second = WriterLock(Bucket(url)), WriterLock(Bucket(url), silence=0.5)
    first.take(str)
    bucket = Bucket(url)
    assert bucket.create("a", b"1") and not bucket.create("a", b"2")
    first.release()
    second.take(str)
    with pytest.raises(RunFolderError, match="is in use by process"):
        first.check()


def write_foreign_lock(url: str) -> None:
    """Write the lock as a driver on another machine does."""
    who = {"host": "elsewhere", "pid": 77, "started": "2026-01-01T00:00:00+00:00", "attempt": "x", "beat": 0}
    Bucket(url).write("writer/00000002", json.dumps(who).encode())


def test_writer_losing_lock_after_turns_uploads_no_episodes(url, service):
    lock = WriterLock(Bucket(url))
    lock.take(str)
    folder = run_location.cache_folder(url, "run")
    store = EpisodeStore(folder)
    store.append(batch_of(1))
    store.flush()
    store.close()

    def steal(method: str, path: str) -> None:
        if method == "PUT" and "/turns/" in path:
            service.faults.after = lambda method, path: None
            write_foreign_lock(url)

    service.faults.after = steal
    with pytest.raises(RunFolderError, match="process 77 on elsewhere"):
        Uploader(Bucket(url), folder, lock, {}).upload_round()
    names = Bucket(url).list_objects()
    assert "turns/part-00000001.parquet" in names and not any(name.startswith("episodes/") for name in names)


def test_writer_stops_after_another_came_and_went(url):
    """A stopped process that wakes up changes nothing that counts: its number is never used again."""
    sleeper, other, third = (WriterLock(Bucket(url), silence=0.2) for _ in range(3))
    sleeper.take(str)
    other.take(str)
    other.begin()
    other.release()
    with pytest.raises(RunFolderError, match="in use by another process"):
        sleeper.check()
    sleeper.bucket.write("writer/00000001", sleeper._content())  # a renewal that was under way
    sleeper.release()
    third.take(str)
    assert (third.number, third.last_attempt) == (3, other.attempt)
    assert read_newest(Bucket(url)) == (3, json.loads(third._content()))


def test_lock_with_lost_reply_is_kept(url):
    """A client repeats a write whose reply was lost; the second write meets the first."""

    class Repeating(Bucket):
        def create(self, name, content):
            super().create(name, content)
            return super().create(name, content)

    lock = WriterLock(Repeating(url), silence=0)
    lock.take(str)
    assert read_holder(Bucket(url))["attempt"] == lock.attempt
