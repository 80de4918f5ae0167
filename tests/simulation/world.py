"""One process with the real driver, scheduler, sink, store, judge queue and control, in a simulated world.

Replaced are: Ray, the clock, the disk's power, the event loop and the engines. Everything else is the product's own code.
"""

from __future__ import annotations

import shutil
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from envs.errors import RunFolderError
from envs.types import Ending
from orchestrator.execution import attempt as attempt_module
from orchestrator.execution.score import AttemptOutcome
from orchestrator.storage import control_log
from orchestrator.storage.checksums import damaged_files
from orchestrator.storage.control_log import Command
from tests.simulation.attempt_checks import check_attempt
from tests.simulation.bucket_run import BucketRun
from tests.simulation.faults import flip_bit, happen, move_back
from tests.simulation.invariants import Promises, PublishedParts, check_end
from tests.simulation.observed import ObservedDriver
from tests.simulation.replacements import simulated
from tests.simulation.schedule import FLIP, Event, Schedule, is_in_bucket
from tests.simulation.scripted import Benchmark
from tests.simulation.simulated_disk import FAULTS, Image, SimulatedDisk, find_failure
from tests.simulation.simulated_ray import build_cluster
from tests.simulation.virtual_threads import running
from tests.simulation.virtual_time import VirtualClock

BOUND_S = 4 * 3600.0
"""Virtual seconds that an attempt may take."""
RESTART_S = (1.0, 20.0)
"""Virtual seconds between two attempts."""
CLEAN_ATTEMPTS = 2
"""Undisturbed attempts after the storm: the first must play everything, the other replays episodes given up in the storm."""
OPERATION_S = 0.001
"""Virtual seconds of a disk operation while other threads run."""
SLOW_OPERATIONS = 10
"""Operations for which a slow disk stays slow."""


class DriverKilled(SystemExit):
    """The end of the driver's process; asyncio lets it out of any task."""


@dataclass
class World:
    """A folder in which runs are simulated, one after another."""

    benchmark: Benchmark
    scratch: Path
    clock: VirtualClock = field(default_factory=VirtualClock)
    trace: list[str] = field(default_factory=list)
    """What happened in the last run, in order."""

    def play(self, schedule: Schedule) -> bytes:
        """Play a schedule to its end and return results.json; raises AssertionError if an invariant does not hold."""
        run = SimulatedRun(self, schedule)
        try:
            return run.play()
        finally:
            self.trace = run.trace

    def undisturbed(self, seed: int) -> bytes:
        """Return the results of the sweep of a seed without faults, played once."""
        sweep = self.benchmark.sweep(seed)
        if sweep.name not in self.benchmark.expected:
            run = SimulatedRun(self, Schedule(seed))
            self.benchmark.expected[sweep.name] = run.play(is_first=True)
        return self.benchmark.expected[sweep.name]


class SimulatedRun:
    """The attempts of one schedule."""

    def __init__(self, world: World, schedule: Schedule) -> None:
        self.world, self.schedule = world, schedule
        self.sweep, self.plan = world.benchmark.sweep(schedule.seed), world.benchmark.plan(schedule.seed)
        self.keys = list(self.plan.with_stops({}).all_keys())
        self.clock, self.chance = world.clock, Random(f"world {schedule.seed}")
        self.clock.now = 0.0
        self.remote = BucketRun(self, schedule) if is_in_bucket(schedule.seed) else None
        self.folder = self.remote.folder if self.remote else world.scratch / "run"
        if self.remote is None:
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder.mkdir(mode=0o700)
        self.disk = SimulatedDisk(self.folder, self._before_operation, self._after_rename, self._before_unlink)
        self.moved = self.folder.with_name("moved")
        """Where a person has moved the run folder while its driver was running."""
        shutil.rmtree(self.moved, ignore_errors=True)
        self.published = PublishedParts(self.disk)
        self.driver: ObservedDriver | None = None
        """The driver of the last attempt, if it had anything to play."""
        self.poisoned: set[str] = set()
        """Keys of the episodes that end a worker's process now."""
        self.given_up: set[str] = set()
        """Keys of the episodes that a driver gave up."""
        self.promises = Promises()
        self.trace: list[str] = []
        self.owed: list[tuple[str, str]] = []
        """Commands that end a pause or a drain, verb and target: the person sends them again if the driver died before."""
        self.image: Image | None = None
        """What the killed process left on the disk."""
        self.stop_reason = ""
        """Why a thread has asked the driver to stop."""
        self.update = False
        """True once a lying disk made the person add ``--update``."""
        self.remedied = False
        """True once it made the person do what a sentence says."""
        self.ends_now = False
        """True if a thread had a fault that ends the whole process."""

    def play(self, is_first: bool = False) -> bytes:
        with simulated(self):
            for number in range(self.schedule.attempts):
                self.attempt(number, [event for event in self.schedule.events if event.attempt == number])
            retry: tuple[Ending, ...] = ()
            for number in range(CLEAN_ATTEMPTS):
                outcome = self.attempt(self.schedule.attempts + number, [], retry)
                if outcome is None and self.remedied:
                    outcome = self.attempt(self.schedule.attempts + CLEAN_ATTEMPTS, [], retry)
                assert outcome is not None, "an undisturbed attempt ended with an error"
                if outcome.complete:
                    break
                retry = (Ending.FAILED,)
            else:
                raise AssertionError(f"not complete after the storm: {dict(outcome.reasons)}")
            if self.remote:
                self.remote.check_end()
            check_end(self.folder, self.plan)
        results = (self.folder / "results.json").read_bytes()
        if not is_first:
            assert results == self.world.undisturbed(self.schedule.seed), (
                "results.json differs from the undisturbed run"
            )
        return results

    # -- an attempt ------------------------------------------------------------------------------------------------------
    def attempt(self, number: int, events: list[Event], retry: tuple[Ending, ...] = ()) -> AttemptOutcome | None:
        """Run an attempt with these faults; return its outcome, or None if a fault ended it."""
        self._begin_attempt(number, events)
        outcome, problem = None, ""
        try:
            with (
                self.remote.open() if self.remote else nullcontext(self.folder) as folder,
                attempt_module.open_attempt(self.sweep, self.plan, folder, lambda line: None, self.update) as attempt,
            ):
                outcome = attempt.run(retry)
        except (DriverKilled, RuntimeError):  # asyncio complains if it is killed in its last step
            if self.image is None:
                raise
            problem = "the driver is killed"
        except RunFolderError as refusal:
            assert self._expects(str(refusal)), refusal
            problem = str(refusal)
        if self.image is not None:
            if not self.moved.exists():
                self.disk.restore(self.image)
            outcome, problem = None, problem or "the driver is killed"
        self.note(problem or f"attempt {number} ends: complete {outcome is not None and outcome.complete}")
        assert not self.ray.faults, self.ray.faults[0]
        if outcome is not None:
            assert events or not (self.remote and self.remote.unsent), f"it is not in the bucket: {self.remote}"
            check_attempt(self, outcome)
        elif self.driver is not None:
            self.given_up |= self.driver.given_up
        return outcome

    def _expects(self, refusal: str) -> bool:
        """Return True if an attempt may be refused; what a person would do about it is noted."""
        if self.promises.suspended and not self.update and "--update" in refusal:
            self.update = self.remedied = True
            return True
        if self.promises.suspended and "move the file away" in refusal:
            (self.folder / control_log.LOG).unlink()
            self.remedied = True
            return True
        is_hit = not {*FAULTS, "move folder"}.isdisjoint(self.by_number)
        return is_hit or self.image is not None or (self.remote is not None and bool(self.events))

    def _begin_attempt(self, number: int, events: list[Event]) -> None:
        """Bring cluster, disk and bucket into the state in which an attempt begins, and set its numbered faults."""
        self.events, self.steps, self.disk.operations, self.image = events, 0, 0, None
        self.stop_reason, self.ends_now = "", False
        self.chance = Random(f"{self.schedule.seed}/{number}")
        self.clock.advance(self.chance.uniform(*RESTART_S))
        self.clock.deadline = self.clock.now + BOUND_S
        self.ray = build_cluster(self.world.benchmark.nodes(self.schedule.seed), self.chance, events)
        if self.remote:
            self.remote.begin_attempt(events)
        elif self.moved.exists():
            move_back(self)
        damaged = [] if self.promises.suspended else damaged_files(self.folder)
        assert not damaged, f"{damaged[0]} has another sum although no byte of it changed"
        for event in events:
            if event.kind == FLIP:
                flip_bit(self, event)
        self.by_number = {event.kind: event for event in events}
        self.disk.skip_flushes = {int(e.at) for e in events if e.kind == "lying flush"}
        self.promises.suspended |= bool(self.disk.skip_flushes)
        if self.remote:
            self.remote.bucket.is_strict &= not self.promises.suspended
        self.poisoned.clear()
        self.driver = None

    def begin_events(self, driver: ObservedDriver) -> None:
        """Set the timers of an attempt's timed faults; the driver calls this when it begins to play."""
        self.driver = driver
        owed, self.owed = self.owed, []
        for verb, target in owed:
            self.owe(verb, target, 0.0)
        for event in self.events:
            self.ray.later(event.at, lambda e=event: self._happen(e, driver))  # type: ignore[misc]

    def _happen(self, event: Event, driver: ObservedDriver) -> None:
        if happen(self, event, driver) or (self.remote is not None and self.remote.hit(event)):
            self.note(f"{event.kind} ({event.value:g})")

    def owe(self, verb: str, target: str, seconds: float) -> None:
        """Send a command later, in the next attempt if this one ends before."""
        self.owed.append((verb, target))
        self.ray.later(seconds, lambda: self.send(verb, target))

    def send(self, verb: str, target: str) -> None:
        """Send a command as ``ctl`` does, in a file of the folder; again and again if the disk is full and it is owed."""
        command = Command(verb=verb, target=target, who="simulation")
        try:
            control_log.send_command(self.folder, command)
        except OSError:
            if (verb, target) in self.owed:
                self.ray.later(1.0, lambda: self.send(verb, target))

    # -- ends of the driver ------------------------------------------------------------------------------------------------
    def before_step(self) -> None:
        """Kill the driver between two awaits, if this is the step."""
        self.steps += 1
        self._end_with_thread()
        if self.stop_reason and self.driver:
            self.stop_reason = ""
            self.driver.stop()
        for kind, is_power_loss in (("kill at step", False), ("power loss at step", True)):
            if (event := self.by_number.get(kind)) and event.at == self.steps:
                self.end_driver(event, is_power_loss)

    @property
    def disk_delay(self) -> float:
        """Seconds for which a slow disk may hold the driver up: a merge needs all slow operations in one step."""
        slow = self.by_number.get("slow disk")
        return SLOW_OPERATIONS * slow.value if slow else 0.0

    def _before_operation(self, number: int, kind: str) -> None:
        self._end_with_thread()
        if self.image is not None:
            return
        if self.remote and not running:
            self.clock.advance(OPERATION_S)
        for end, is_power_loss in (("kill at disk operation", False), ("power loss at disk operation", True)):
            if (event := self.by_number.get(end)) and event.at == number:
                self.end_driver(event, is_power_loss)
        for fault, event in ((name, self.by_number[name]) for name in FAULTS if name in self.by_number):
            if failure := find_failure(fault, int(event.at), event.value, number, kind):
                failure.filename = str(self.folder)
                raise failure
        if (slow := self.by_number.get("slow disk")) and slow.at <= number < slow.at + SLOW_OPERATIONS:
            self.clock.sleep(slow.value)

    def _after_rename(self, path: Path) -> None:
        if self._is_watched():
            self.ray.faults += self.published.find_faults(path)

    def _before_unlink(self, path: Path) -> None:
        if self._is_watched():
            self.ray.faults += self.published.find_losses(path, self.promises.keys)

    def _is_watched(self) -> bool:
        """Return True if the parts that come and go are the store's own, and the disk has flushed what it said."""
        return self.image is None and not self.promises.suspended and (self.remote is None or self.remote.is_open)

    def stop_soon(self, reason: str) -> None:
        """Let the driver stop at its next step, as a signal does."""
        self.stop_reason = reason

    def _end_with_thread(self) -> None:
        """End the main thread after a fault that ended the process in another one."""
        if self.ends_now and not running:
            self.ends_now = False
            raise DriverKilled

    def end_driver(self, event: Event, is_power_loss: bool) -> None:
        """Save what the process leaves on the disk and end it; what its cleanup does afterwards is undone."""
        if self.image is None:
            chance = Random(f"{self.schedule.seed}/{event}")
            self.image = self.disk.image_after_power_loss(chance) if is_power_loss else self.disk.image()
            self.note(f"{event.kind} ({event.at:g})")
            self.ends_now = bool(running)
            raise DriverKilled

    def note(self, line: str) -> None:
        self.trace.append(f"{self.clock.now:10.3f} {line}")
