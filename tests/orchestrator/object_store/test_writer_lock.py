"""Drivers race for one bucket: exactly one gets the lock, and a driver that loses it commits nothing more."""

from __future__ import annotations

import json
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from envs.errors import RunFolderError
from orchestrator.object_store import run_location
from orchestrator.object_store.bucket import PROBE, Bucket
from orchestrator.object_store.uploader import Uploader
from orchestrator.object_store.writer_lock import ATTEMPT, LOCK, WriterLock
from orchestrator.storage.episode_store import EpisodeStore
from tests.orchestrator.blocks import batch_of

ROUNDS = 50
TAKEOVERS = 10


class RacingBucket(Bucket):
    """A bucket whose two users change the lock at the same moment, each of them once."""

    def __init__(self, url: str, barrier: threading.Barrier) -> None:
        super().__init__(url)
        self.barrier, self.waited = barrier, False

    def meet(self, name: str) -> None:
        if name == LOCK and not self.waited:
            self.waited = True
            with suppress(threading.BrokenBarrierError):
                self.barrier.wait(20)

    def create(self, name, content):
        self.meet(name)
        return super().create(name, content)


class TakeoverBucket(RacingBucket):
    """The same for an existing lock: both users read it before either replaces it."""

    def create(self, name, content):
        return Bucket.create(self, name, content)

    def replace(self, name, content, version):
        self.meet(name)
        return super().replace(name, content, version)


def race_drivers(url: str, kind: type[RacingBucket], settle: float = 0) -> tuple[list[WriterLock], list[str]]:
    """Race two drivers; return the locks of the winners and the messages of the refused."""
    barrier, winners, refused = threading.Barrier(2), [], []

    def drive() -> None:
        lock = WriterLock(kind(url, barrier), renew_every=0.05, silence=4, settle=settle)
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
        assert json.loads(Bucket(url).read(LOCK))["attempt"] == lock.attempt
        lock.release()
    return winners, refused


@pytest.mark.long
@pytest.mark.timeout(300)
def test_one_of_two_simultaneous_drivers_gets_bucket(url):
    with ThreadPoolExecutor(5) as pool:
        outcomes = list(pool.map(lambda number: race_drivers(f"{url}/{number}", RacingBucket), range(ROUNDS)))

    assert [(len(winners), len(refused)) for winners, refused in outcomes] == [(1, 1)] * ROUNDS
    assert all("is in use by process" in refused[0] for _, refused in outcomes)
    assert not any(name.endswith((LOCK, PROBE)) for name in Bucket(url).list_objects())


def ended_pid() -> int:
    """Return the pid of a process that has ended."""
    pid = os.posix_spawn(sys.executable, [sys.executable, "-c", ""], os.environ)
    os.waitpid(pid, 0)
    return pid


@pytest.mark.timeout(300)
def test_one_of_two_drivers_takes_over_from_dead_writer(url):
    pid = ended_pid()
    for number in range(TAKEOVERS):
        address = f"{url}/{number}"
        dead = WriterLock(Bucket(address), settle=0)
        dead.take(str)
        record = json.loads(Bucket(address).read(LOCK))
        Bucket(address).write(LOCK, json.dumps({**record, "pid": pid, "attempt": "of the dead one"}).encode())

        winners, refused = race_drivers(address, TakeoverBucket)

        assert (len(winners), len(refused)) == (1, 1), f"round {number}"


@pytest.mark.parametrize("conditions", ["refused", "ignored"])
def test_one_driver_stays_without_conditional_writes(url, service, conditions):
    service.faults.conditions = conditions
    lines: list[str] = []
    lock = WriterLock(Bucket(url), settle=0)
    lock.take(lines.append)
    lock.release()
    assert [line for line in lines if "has no conditional writes" in line] == lines and len(lines) == 1
    assert PROBE not in Bucket(url).list_objects() and Bucket(url).read(LOCK) is None

    winners, refused = race_drivers(f"{url}/raced", RacingBucket, settle=1)
    assert (len(winners), len(refused)) == (1, 1)
    bucket = Bucket(url)
    assert bucket.create("a", b"1") and not (conditions == "refused" and bucket.create("a", b"2"))


def write_foreign_lock(url: str, **fields: object) -> None:
    """Write the lock as an earlier version of this program on another machine does."""
    who = {"host": "elsewhere", "pid": 77, "started": "2026-01-01T00:00:00+00:00", "attempt": "x", "beat": 0}
    Bucket(url).write(LOCK, json.dumps({**who, **fields}).encode())


def test_writer_losing_lock_after_turns_uploads_no_episodes(url, service):
    lock = WriterLock(Bucket(url), settle=0)
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
        Uploader(Bucket(url), folder, lock, {}).upload_round(everything=True)
    names = Bucket(url).list_objects()
    assert "turns/part-00000001.parquet" in names and not any(name.startswith("episodes/") for name in names)


def test_writer_stops_after_another_came_and_went(url):
    bucket = Bucket(url)
    sleeper = WriterLock(bucket, settle=0)
    sleeper.take(str)
    bucket.write(ATTEMPT, sleeper.attempt.encode())
    bucket.delete([LOCK])
    sleeper.check()  # the lock was removed by hand, and nobody has written since
    bucket.write(ATTEMPT, b"another machine's")
    bucket.delete([LOCK])

    with pytest.raises(RunFolderError, match="in use by a process that has just ended"):
        sleeper.check()
    sleeper.release()
    assert bucket.read(LOCK) is None


def test_lock_with_lost_reply_is_kept(url):
    """A client repeats a write whose reply was lost; the second write meets the first."""

    class Repeating(Bucket):
        def create(self, name, content):
            super().create(name, content)
            return super().create(name, content)

    lock = WriterLock(Repeating(url), silence=0, settle=0)
    lock.take(str)
    assert json.loads(Bucket(url).read(LOCK))["attempt"] == lock.attempt
