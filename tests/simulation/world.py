"""One process with the real driver, scheduler, sink, store, judge queue and control, in a simulated world.

Replaced are: Ray, the clock, the disk's power, the event loop and the engines. Everything else is the product's own code.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from envs.types import Ending
from orchestrator.execution import attempt as attempt_module
from orchestrator.execution.results import AttemptOutcome
from orchestrator.storage import control_log, lock
from orchestrator.storage.control_log import Command
from orchestrator.storage.lock import RunFolderError
from tests.simulation.attempt_checks import check_attempt
from tests.simulation.invariants import Promises, PublishedParts, check_end
from tests.simulation.observed import ObservedDriver
from tests.simulation.replacements import simulated
from tests.simulation.schedule import Event, Schedule
from tests.simulation.scripted import Benchmark
from tests.simulation.simulated_disk import Image, SimulatedDisk, disk_full
from tests.simulation.simulated_ray import SimulatedNode, SimulatedRay
from tests.simulation.virtual_time import VirtualClock

BOUND_S = 4 * 3600.0
"""Virtual seconds that an attempt may take."""
RESTART_S = (1.0, 20.0)
"""Virtual seconds between two attempts."""
CLEAN_ATTEMPTS = 2
"""Undisturbed attempts after the storm: the first must play everything, the other replays episodes given up in the storm."""
DISK_FULL_OPERATIONS = 3


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
    pace: float = 1.0
    """Factor on the seconds of a reply."""
    listens: bool = False
    """True if the product may log."""

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
            self.benchmark.seconds[sweep.name] = self.clock.now - run.began
        return self.benchmark.expected[sweep.name]


class SimulatedRun:
    """The attempts of one schedule."""

    def __init__(self, world: World, schedule: Schedule) -> None:
        self.world, self.schedule = world, schedule
        self.sweep, self.plan = world.benchmark.sweep(schedule.seed), world.benchmark.plan(schedule.seed)
        self.keys = [key for index in range(len(self.plan.cells)) for _, key in self.plan.numbered_keys(index)]
        self.folder = world.scratch / "run"
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(mode=0o700)
        self.clock, self.chance = world.clock, Random(f"world {schedule.seed}")
        self.clock.now = 0.0
        self.disk = SimulatedDisk(self.folder, self._before_operation, self._after_rename, self._before_unlink)
        self.published = PublishedParts(self.disk)
        self.driver: ObservedDriver | None = None
        """The driver of the last attempt, if it had anything to play."""
        self.poisoned: set[str] = set()
        """Keys of the episodes that end a worker's process now."""
        self.given_up: set[str] = set()
        """Keys of the episodes that a driver gave up."""
        self.promises = Promises()
        self.trace: list[str] = []
        self.began = 0.0
        """When the last driver began to play."""
        self.owed: list[tuple[str, str]] = []
        """Commands that end a pause or a drain, verb and target: the person sends them again if the driver died before."""
        self.image: Image | None = None
        """What the killed process left on the disk."""

    def play(self, is_first: bool = False) -> bytes:
        with simulated(self):
            for number in range(self.schedule.attempts):
                self._attempt(number, [event for event in self.schedule.events if event.attempt == number])
            retry: tuple[Ending, ...] = ()
            for number in range(CLEAN_ATTEMPTS):
                outcome = self._attempt(self.schedule.attempts + number, [], retry)
                assert outcome is not None, "an undisturbed attempt ended with an error"
                if outcome.complete:
                    break
                retry = (Ending.FAILED,)
            else:
                raise AssertionError(f"not complete after the storm: {dict(outcome.reasons)}")
        results = (self.folder / "results.json").read_bytes()
        check_end(self.folder, self.plan)
        if not is_first:
            assert results == self.world.undisturbed(self.schedule.seed), (
                "results.json differs from the undisturbed run"
            )
        return results

    # -- an attempt ------------------------------------------------------------------------------------------------------
    def _attempt(self, number: int, events: list[Event], retry: tuple[Ending, ...] = ()) -> AttemptOutcome | None:
        """Run an attempt with these faults; return its outcome, or None if a fault ended it."""
        self.events, self.steps, self.disk.operations, self.image = events, 0, 0, None
        self.chance = Random(f"{self.schedule.seed}/{number}")
        self.clock.advance(self.chance.uniform(*RESTART_S))
        self.clock.deadline = self.clock.now + BOUND_S
        self._make_cluster()
        if any(event.kind == "damage" for event in events) and self.disk.damage_part(self.chance):
            self.promises.suspended = True
            self._note("damage")
        self.by_number = {event.kind: event for event in events}
        self.disk.skip_flushes = {int(e.at) for e in events if e.kind == "lying flush"}
        self.promises.suspended |= bool(self.disk.skip_flushes)
        self.poisoned.clear()
        self.driver, outcome, problem = None, None, ""
        try:
            with attempt_module.open_attempt(self.sweep, self.plan, self.folder, lambda line: None) as attempt:
                self.promises.check(attempt.store)
                outcome = attempt.run(retry)
        except (DriverKilled, RuntimeError):  # asyncio complains if it is killed in its last step
            if self.image is None:
                raise
            problem = "the driver is killed"
        except RunFolderError as refusal:
            assert "disk full" in self.by_number or self.image is not None, refusal
            problem = str(refusal)
        lock.release(self.folder, "store")
        if self.image is not None:
            self.disk.restore(self.image)
            outcome, problem = None, problem or "the driver is killed"
        self._note(problem or f"attempt {number} ends: complete {outcome is not None and outcome.complete}")
        assert not self.ray.faults, self.ray.faults[0]
        if outcome is not None:
            check_attempt(self, outcome)
        elif self.driver is not None:
            self.given_up |= self.driver.given_up
        return outcome

    def _make_cluster(self) -> None:
        shape = self.world.benchmark.nodes(self.schedule.seed)
        nodes = [SimulatedNode(f"{n:056x}", gpus, cpus) for n, (gpus, cpus) in enumerate(shape, start=1)]
        self.ray = SimulatedRay(self.chance, nodes)
        self.ray.doubled = {int(e.at) for e in self.events if e.kind == "doubled item"}
        self.ray.lost_objects = {int(e.at) for e in self.events if e.kind == "lost object"}
        self.ray.late = {int(e.at): e.value for e in self.events if e.kind == "late item"}

    def begin_events(self, driver: ObservedDriver) -> None:
        """Set the timers of an attempt's timed faults; the driver calls this when it begins to play."""
        self.driver, self.began = driver, self.clock.now
        owed, self.owed = self.owed, []
        for verb, target in owed:
            self._owe(verb, target, 0.0)
        for event in self.events:
            self.ray.later(event.at, lambda e=event: self._happen(e, driver))  # type: ignore[misc]

    def _happen(self, event: Event, driver: ObservedDriver) -> None:
        if self._hit_cluster(event) or self._command(event) or self._hit_driver(event, driver):
            self._note(f"{event.kind} ({event.value:g})")

    def _hit_cluster(self, event: Event) -> bool:
        """Let workers or nodes fail; return False if the event is another one, or there is nothing to hit."""
        ray, alive = self.ray, [node for node in self.ray.all_nodes if node.alive]
        match event.kind:
            case "kill actor" if ray.running:
                self._chosen(ray.running, event).end()
            case "hang actor" if ray.running:
                self._chosen(ray.running, event).hung = True
            case "kill node" if len(alive) > 1:
                node = self._chosen(alive[1:], event)  # the driver is on the first
                ray.kill_node(node)
                ray.later(30.0 + 60.0 * event.value, lambda: ray.join_node(node))
            case "poison":
                self.poisoned.add(self._chosen(self.keys, event))
            case _:
                return False
        return True

    def _command(self, event: Event) -> bool:
        """Send a person's command; return False if the event is another one."""
        nodes = [node.name for node in self.ray.all_nodes if node.alive]
        match event.kind:
            case "pause":
                self._owe("resume", "all", 1.0 + 30.0 * event.value)
                self._send("pause", "all")
            case "limit":
                self._send("set", "cluster.gpus", "2" if event.value < 0.5 else "all")
            case "drain" if len(nodes) > 1:
                name = self._chosen(nodes, event)
                self._owe("undrain", name, 10.0 + 30.0 * event.value)
                self._send("drain", name)
            case _:
                return False
        return True

    def _hit_driver(self, event: Event, driver: ObservedDriver) -> bool:
        """Stop, kill or hold up the driver; return False if the event is another one."""
        match event.kind:
            case "stand still":
                self.ray.later(0.0, lambda: self.clock.advance(5.0 + 15.0 * event.value))
            case "fill disk":
                self.by_number["disk full"] = Event(event.attempt, "disk full", self.disk.operations + 1)
            case "kill driver":
                self._end_driver(event, is_power_loss=False)
            case "stop":
                driver.stop()
            case _:
                return False
        return True

    @staticmethod
    def _chosen(candidates: list[Any], event: Event) -> Any:
        return candidates[int(event.value * len(candidates)) % len(candidates)]

    def _owe(self, verb: str, target: str, seconds: float) -> None:
        """Send a command later, in the next attempt if this one ends before."""
        self.owed.append((verb, target))
        self.ray.later(seconds, lambda: self._send(verb, target))

    def _send(self, verb: Any, target: str, value: str = "") -> None:
        """Send a command as ``ctl`` does, in a file of the folder; again and again if the disk is full and it is owed."""
        command = Command(verb=verb, target=target, value=value, who="simulation", host="here", asked="")
        try:
            control_log.send_command(self.folder, command)
        except OSError:
            if (verb, target) in self.owed:
                self.ray.later(1.0, lambda: self._send(verb, target, value))

    # -- ends of the driver ------------------------------------------------------------------------------------------------
    def before_step(self) -> None:
        """Kill the driver between two awaits, if this is the step."""
        self.steps += 1
        for kind, is_power_loss in (("kill at step", False), ("power loss at step", True)):
            if (event := self.by_number.get(kind)) and event.at == self.steps:
                self._end_driver(event, is_power_loss)

    def _before_operation(self, number: int, kind: str) -> None:
        if self.image is not None:
            return
        for end, is_power_loss in (("kill at disk operation", False), ("power loss at disk operation", True)):
            if (event := self.by_number.get(end)) and event.at == number:
                self._end_driver(event, is_power_loss)
        full = self.by_number.get("disk full")
        if full and 0 <= number - full.at < DISK_FULL_OPERATIONS and kind != "unlink":
            raise disk_full(self.folder)
        if (slow := self.by_number.get("slow disk")) and slow.at <= number < slow.at + 10:
            self.clock.advance(slow.value)

    def _after_rename(self, path: Path) -> None:
        if self.image is None and not self.promises.suspended:
            self.ray.faults += self.published.find_faults(path)

    def _before_unlink(self, path: Path) -> None:
        if self.image is None and not self.promises.suspended:
            self.ray.faults += self.published.find_losses(path, self.promises.keys)

    def _end_driver(self, event: Event, is_power_loss: bool) -> None:
        """Save what the process leaves on the disk and end it; what its cleanup does afterwards is undone."""
        if self.image is None:
            chance = Random(f"{self.schedule.seed}/{event}")
            self.image = self.disk.image_after_power_loss(chance) if is_power_loss else self.disk.image()
            self._note(f"{event.kind} ({event.at:g})")
            raise DriverKilled

    def _note(self, line: str) -> None:
        self.trace.append(f"{self.clock.now:10.3f} {line}")
