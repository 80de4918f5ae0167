"""Drivers that race for one bucket: whatever the moment, one has it, and who lost it commits nothing more."""

from __future__ import annotations

import json
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from orchestrator.object_store import run_location
from orchestrator.object_store.bucket import PROBE, Bucket
from orchestrator.object_store.uploader import Uploader
from orchestrator.object_store.writer_lock import ATTEMPT, LOCK, WriterLock
from orchestrator.storage.episode_store import EpisodeStore
from orchestrator.storage.lock import RunFolderError
from tests.orchestrator.blocks import numbered

ROUNDS = 50


class Together(Bucket):
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


class TakingOver(Together):
    """The same, for a lock that is there already: both have read it before either replaces it."""

    def create(self, name, content):
        return Bucket.create(self, name, content)

    def replace(self, name, content, version):
        self.meet(name)
        return super().replace(name, content, version)


def raced(url: str, kind: type[Together], settle: float = 0) -> tuple[list[WriterLock], list[str]]:
    """Who of two drivers has the lock, and what the others are told."""
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
def test_of_two_drivers_that_start_at_once_one_has_the_bucket(url):
    with ThreadPoolExecutor(5) as pool:
        found = list(pool.map(lambda number: raced(f"{url}/{number}", Together), range(ROUNDS)))

    assert [(len(winners), len(refused)) for winners, refused in found] == [(1, 1)] * ROUNDS
    assert all("is in use by process" in refused[0] for _, refused in found)
    assert not any(name.endswith((LOCK, PROBE)) for name in Bucket(url).list_objects())


def gone() -> int:
    """The number of a process that has ended."""
    pid = os.posix_spawn(sys.executable, [sys.executable, "-c", ""], os.environ)
    os.waitpid(pid, 0)
    return pid


@pytest.mark.timeout(300)
def test_of_two_that_take_over_from_a_dead_writer_one_has_the_bucket(url):
    pid = gone()
    for number in range(ROUNDS):
        address = f"{url}/{number}"
        dead = WriterLock(Bucket(address), settle=0)
        dead.take(str)
        left = json.loads(Bucket(address).read(LOCK))
        Bucket(address).write(LOCK, json.dumps({**left, "pid": pid, "attempt": "of the dead one"}).encode())

        winners, refused = raced(address, TakingOver)

        assert (len(winners), len(refused)) == (1, 1), f"round {number}"


def test_a_pid_that_another_process_has_by_now_is_watched_and_then_replaced(url):
    dead, said = WriterLock(Bucket(url), settle=0), []
    dead.take(str)
    left = json.loads(Bucket(url).read(LOCK))
    Bucket(url).write(LOCK, json.dumps({**left, "pid": os.getppid(), "attempt": "of the dead one"}).encode())

    lock = WriterLock(Bucket(url), silence=0.5, settle=0)
    lock.take(said.append)

    assert "waiting up to" in said[-2] and "is taken over" in said[-1]
    assert json.loads(Bucket(url).read(LOCK))["attempt"] == lock.attempt
    lock.release()


@pytest.mark.parametrize("conditions", ["refused", "ignored"])
def test_a_service_without_conditional_writes_is_named_and_one_of_two_drivers_stays(url, service, conditions):
    service.faults.conditions = conditions
    said: list[str] = []
    lock = WriterLock(Bucket(url), settle=0)
    lock.take(said.append)
    lock.release()
    assert [line for line in said if "has no conditional writes" in line] == said and len(said) == 1
    assert PROBE not in Bucket(url).list_objects() and Bucket(url).read(LOCK) is None

    winners, refused = raced(f"{url}/raced", Together, settle=1)
    assert (len(winners), len(refused)) == (1, 1)
    bucket = Bucket(url)
    assert bucket.create("a", b"1") and not (conditions == "refused" and bucket.create("a", b"2"))


def foreign(url: str, **more: object) -> None:
    """The lock as an earlier version of this program on another machine writes it."""
    who = {"host": "elsewhere", "pid": 77, "started": "2026-01-01T00:00:00+00:00", "attempt": "x", "beat": 0}
    Bucket(url).write(LOCK, json.dumps({**who, **more}).encode())


def test_a_writer_that_loses_its_lock_between_turns_and_episodes_does_not_commit(url, service):
    lock = WriterLock(Bucket(url), settle=0)
    lock.take(str)
    folder = run_location.cache_folder(url, "run")
    store = EpisodeStore(folder)
    store.append(numbered(1))
    store.flush()
    store.close()

    def steal(method: str, path: str) -> None:
        if method == "PUT" and "/turns/" in path:
            service.faults.after = lambda method, path: None
            foreign(url)

    service.faults.after = steal
    with pytest.raises(RunFolderError, match="process 77 on elsewhere"):
        Uploader(Bucket(url), folder, lock, {}).upload_round(everything=True)
    names = Bucket(url).list_objects()
    assert "turns/part-00000001.parquet" in names and not any(name.startswith("episodes/") for name in names)


def test_a_writer_that_slept_while_another_came_and_went_does_not_go_on(url):
    bucket = Bucket(url)
    sleeper = WriterLock(bucket, settle=0)
    sleeper.take(str)
    bucket.write(ATTEMPT, sleeper.attempt.encode())
    bucket.delete([LOCK])
    sleeper.check()  # removed by hand, and nobody wrote since
    bucket.write(ATTEMPT, b"another machine's")
    bucket.delete([LOCK])

    with pytest.raises(RunFolderError, match="in use by a process that has just ended"):
        sleeper.check()
    sleeper.release()
    assert bucket.read(LOCK) is None


def test_an_unreadable_lock_is_replaced(url):
    Bucket(url).write(LOCK, b"no JSON")
    lock = WriterLock(Bucket(url), settle=0)
    lock.take(str)
    lock.release()
    assert Bucket(url).read(LOCK) is None


def test_a_lock_whose_answer_was_lost_is_ones_own(url):
    """A client repeats a write whose answer did not come; the second one meets the first."""

    class Repeating(Bucket):
        def create(self, name, content):
            super().create(name, content)
            return super().create(name, content)

    lock = WriterLock(Repeating(url), silence=0, settle=0)
    lock.take(str)
    assert json.loads(Bucket(url).read(LOCK))["attempt"] == lock.attempt
