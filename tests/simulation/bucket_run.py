"""A simulated run whose folder is in a bucket: its machines, its threads, and a second driver that wants its lock."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from envs.errors import RunFolderError
from orchestrator.object_store import bucket as bucket_module
from orchestrator.object_store import run_location, uploader, writer_lock
from orchestrator.object_store.bucket import CACHE, Bucket
from orchestrator.object_store.writer_lock import WriterLock, read_holder
from orchestrator.storage import checksums
from tests.simulation.schedule import FORMER, OTHER_MACHINE, Event, Schedule
from tests.simulation.simulated_bucket import ROOT, URL, Client, SimulatedBucket
from tests.simulation.virtual_threads import SerialPool, ThreadingModule, Threads, running

if TYPE_CHECKING:
    from tests.simulation.world import SimulatedRun

SECOND = "second driver"
AWAY_S = 40.0
"""Most virtual seconds that the bucket is away."""


class ObservedLock(WriterLock):
    """The lock of the run's own driver, with a record of whether it is held."""

    run: BucketRun

    def take(self, say: Callable[[str], None]) -> None:
        super().take(say)
        self.run.is_held = True

    def release(self) -> None:
        self.run.is_held = False
        super().release()


class BucketRun:
    """The bucket of a run, and the machines from which its driver writes into it."""

    def __init__(self, run: SimulatedRun, schedule: Schedule) -> None:
        self.run, self.scratch = run, run.world.scratch
        self.threads = Threads(run.clock)
        self.bucket = SimulatedBucket(run.clock, self.threads.wait, Random(f"bucket {schedule.seed}"))
        self.is_held = False
        """True while the run's driver has the lock."""
        self.is_open = False
        """True once the driver has the run folder of the bucket on its machine."""
        self.unsent = ""
        for path in self.scratch.glob("machine-*"):
            shutil.rmtree(path)
        self.use_machine(0)

    @property
    def folder(self) -> Path:
        return run_location.cache_folder(URL, "run")

    def use_machine(self, number: int) -> None:
        self.machine = number
        os.environ[CACHE] = str(self.scratch / f"machine-{number}")
        self.folder.parent.mkdir(parents=True, exist_ok=True)

    @contextlib.contextmanager
    def replaced(self, replace: Callable[[Any, str, Any], None]) -> Iterator[None]:
        """Replace service and threads in a block."""
        client = Client(self.bucket, self._is_dead)
        replace(bucket_module, "_open_file_system", lambda url: (client, ROOT))
        for module in (uploader, writer_lock):
            replace(module, "threading", ThreadingModule(self.threads))
        replace(run_location, "ThreadPoolExecutor", SerialPool)
        replace(run_location, "WriterLock", type("Lock", (ObservedLock,), {"run": self}))
        replace(run_location, "_stop", self.run.stop_soon)
        before = os.environ.get(CACHE)
        try:
            with self.threads.closed_at_the_end():
                yield
        finally:
            os.environ.pop(CACHE) if before is None else os.environ.update({CACHE: before})

    @contextlib.contextmanager
    def open(self) -> Iterator[Path]:
        """Yield the run folder of an attempt, as ``run`` does."""
        self.unsent = ""
        try:
            with run_location.open_location(URL, lambda line: None) as location:
                self.is_open = True
                yield location.folder
            self.unsent = location.unsent
        finally:
            self.is_open = self.is_held = False
            self.threads.kill(lambda thread: thread.name != SECOND)
            self.run.ray.faults += self.bucket.faults + self.threads.faults

    def _is_dead(self) -> bool:
        """Return True if the process that asks has ended."""
        return self.run.image is not None and not (running and running[-1].name == SECOND)

    # -- faults ------------------------------------------------------------------------------------------------------------
    def begin_attempt(self, events: list[Event]) -> None:
        """Set the faults of an attempt's requests, and change the machine if the last one is lost."""
        self.bucket.clear()
        if not events:
            self.threads.kill()
        self.bucket.unanswered = {int(self.bucket.writes + e.at) for e in events if e.kind == "unanswered write"}
        moves = [event for event in events if event.kind == OTHER_MACHINE]
        if moves and self.bucket.objects:
            is_former = moves[0].value < FORMER and self.machine > 0
            self.use_machine(self.machine - 1 if is_former else self.machine + 1)
            self.run.disk.move_to(self.folder)
            self.run.promises.keys &= self.bucket.keys()
            self.run.folder = self.folder
            self.run.note(f"the driver moves to machine {self.machine}")

    def hit(self, event: Event) -> bool:
        """Let a timed fault happen; return False if it is none of the bucket's."""
        match event.kind:
            case "bucket away":
                self.bucket.go_away(AWAY_S * event.value)
            case "bucket throttles":
                self.bucket.throttle()
            case "second driver":
                ThreadingModule(self.threads).Thread(self._take_lock, name=SECOND).start()
            case _:
                return False
        return True

    def _take_lock(self) -> None:
        """Try to become the writer as another driver does, and give the right back at once."""
        lock = WriterLock(Bucket(URL))
        try:
            lock.take(lambda line: None)
        except RunFolderError:
            self.run.note("the second driver is refused")
            return
        if self.is_held and self.run.image is None:
            self.bucket.faults.append("a second driver has the lock of a living one")
        self.run.note("the second driver has the lock")
        lock.release()

    # -- the end -----------------------------------------------------------------------------------------------------------
    def check_end(self) -> None:
        """Assert that a reader on a new machine finds the whole run in the bucket, as it is in the driver's folder."""
        written = _read_files(self.folder)
        self.use_machine(self.machine + 1)
        read = _read_files(run_location.readable_folder(URL, started=False))
        others = [name for name in {**written, **read} if written.get(name) != read.get(name)]
        assert not others, f"{', '.join(others)} in the bucket is another one"
        assert read_holder(Bucket(URL)) is None, "the lock is held after the end"


def _read_files(folder: Path) -> dict[str, bytes]:
    """Return the tables, sums and results of a run folder."""
    paths = [*folder.glob("*/part-*.parquet"), folder / checksums.NAME, folder / "results.json"]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}
