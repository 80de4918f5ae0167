"""Replays in the simulation what a soak did to a real cluster, and compares how the driver reacted to each fault.

``python -m tests.simulation replay FILE`` takes the JSON file of ``make soak``. The faults keep their times within an
attempt, and the engines are slowed down until the small sweep lasts as long as the real one. What has no counterpart is listed.
"""

from __future__ import annotations

import json
import logging
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.simulation.schedule import Event, Schedule
from tests.simulation.world import World

SIMULATED = {
    "a worker is killed": "kill actor",
    "a worker hangs": "hang actor",
    "a node is removed and another one comes": "kill node",
    "a raylet is killed and another node comes": "kill node",
    "the driver stands still for 5 to 20 s": "stand still",
    "the driver is killed": "kill driver",
    "the driver is asked to stop": "stop",
    "the driver's disk takes no more": "fill disk",
    "a part is damaged between two drivers": "kill driver",
    "the driver's machine is lost": "kill driver",
}
"""Fault of a soak -> its event here; without a bucket, a lost machine is no more than its driver."""
DAMAGE = "a part is damaged between two drivers"
ENDS = ("kill driver", "stop", "fill disk")
"""Events after which the next attempt begins."""
REACTIONS = {
    "worker starts": r"worker \d+ of .* starts",
    "worker is ready": r"worker \d+ of .* is ready",
    "worker is lost": r"worker \d+ of .* is lost",
    "silent worker is dropped": r"worker \d+ of .* is dropped",
    "node is lost": r"node .* is lost",
    "node joins": r"node .* has joined",
    "episodes are given up": "episodes are given up",
    "standstill is noticed": "the driver was stopped for",
    "damage is noticed": r"moved to damaged/",
    "attempt begins": r"process \d+ on ",
}
"""What a driver does after a fault -> the line of its log."""
REACTION_S = 90.0
"""Seconds after a fault in which its reactions are counted, unless another fault comes before; a silent worker has 60."""
SPARE_S = 60.0
"""Seconds that the simulated sweep has left after the last fault."""
SEED = 0
"""The sweep and cluster of the simulation: two models on two nodes of two GPUs."""
Reactions = dict[str, Counter[str]]
"""Fault -> reaction -> how many times the fault had it."""


@dataclass(frozen=True)
class Moment:
    """A fault or a line of the driver's log."""

    at: float
    text: str


class Listener(logging.Handler):
    """Notes the driver's log lines of a simulated run with their virtual times."""

    def __init__(self, world: World) -> None:
        super().__init__(logging.INFO)
        self.world, self.moments = world, list[Moment]()

    def emit(self, record: logging.LogRecord) -> None:
        self.moments.append(Moment(self.world.clock.now, record.getMessage()))


def build_schedule(faults: Sequence[Moment], lines: Sequence[Moment]) -> tuple[Schedule, Counter[str], float]:
    """Return the faults as a schedule, those that are not simulated, and the seconds that all attempts played."""
    events, left_out, lasted = list[Event](), Counter[str](), Counter[int]()
    attempt, ended = 0, 0.0
    for number, fault in enumerate(faults):
        kind = SIMULATED.get(fault.text)
        if kind is None:
            left_out[fault.text] += 1
            continue
        starts = [line.at for line in lines if line.at >= ended and re.search(REACTIONS["worker starts"], line.text)]
        at = max(0.0, fault.at - min(starts, default=fault.at))
        lasted[attempt] = max(lasted[attempt], round(at))
        events.append(Event(attempt, kind, round(at, 1), number * 0.37 % 1))
        if kind in ENDS:
            attempt, ended = attempt + 1, fault.at
        if fault.text == DAMAGE:
            events.append(Event(attempt, "damage", 0.0, number * 0.37 % 1))
    return Schedule(SEED, tuple(sorted(events))), left_out, lasted.total() + SPARE_S


def count_reactions(faults: Sequence[Moment], lines: Sequence[Moment]) -> Reactions:
    """Return which reactions followed each fault before the next one."""
    counts: Reactions = {}
    for fault, following in zip(faults, [*faults[1:], Moment(float("inf"), "")], strict=True):
        until = min(following.at, fault.at + REACTION_S)
        texts = [line.text for line in lines if fault.at <= line.at < until]
        counts.setdefault(fault.text, Counter()).update(
            {name for name, pattern in REACTIONS.items() if any(re.search(pattern, text) for text in texts)}
        )
    return counts


def play_record(world: World, schedule: Schedule, seconds: float) -> tuple[list[Moment], list[Moment]]:
    """Play the schedule with engines slow enough for ``seconds``; return its faults and the lines of its driver's logs."""
    listener, logger = Listener(world), logging.getLogger("orchestrator")
    world.undisturbed(schedule.seed)
    world.pace, world.listens = max(1.0, seconds / world.benchmark.seconds[world.benchmark.sweep(SEED).name]), True
    logger.addHandler(listener)
    try:
        world.play(schedule)
    finally:
        logger.removeHandler(listener)
        world.pace, world.listens = 1.0, False
    kinds = {event.kind for event in schedule.events}
    noted = [Moment(float(line[:10]), re.sub(r" \(.*", "", line[11:])) for line in world.trace]
    return [moment for moment in noted if moment.text in kinds], listener.moments


def compare(real: Reactions, simulated: Reactions) -> list[str]:
    """Return a Markdown table: each simulated kind of fault, with the reactions of the real and of the simulated driver."""
    merged: Reactions = {}
    for fault, reactions in real.items():
        if fault in SIMULATED:
            merged.setdefault(SIMULATED[fault], Counter()).update(reactions)
    lines = ["| fault | real driver | simulated driver | only real |", "| --- | --- | --- | --- |"]
    for kind, reactions in merged.items():
        here = simulated.get(kind, Counter())
        only = ", ".join(sorted(reactions.keys() - here.keys())) or "-"
        lines.append(f"| {kind} | {_describe(reactions)} | {_describe(here)} | {only} |")
    return lines


def _describe(reactions: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(reactions.items())) or "-"


def read_record(path: Path) -> tuple[list[Moment], list[Moment]]:
    """Return the faults of a soak and the lines of its drivers' logs, in order of time."""
    record: dict[str, Any] = json.loads(path.read_bytes())
    faults, lines = ([Moment(at, text) for at, text in record[name]] for name in ("faults", "log"))
    return faults, sorted(lines, key=lambda line: line.at)


def replay(world: World, path: Path) -> list[str]:
    """Replay the record of a soak; return the schedule and the comparison. Raises AssertionError as ``World.play``."""
    faults, lines = read_record(path)
    schedule, left_out, seconds = build_schedule(faults, lines)
    played, simulated_lines = play_record(world, schedule, seconds)
    here = {fault for fault in faults if fault.text in SIMULATED}
    reactions = count_reactions([fault for fault in faults if fault in here], lines)
    missing = ", ".join(f"{name} ({count})" for name, count in left_out.items()) or "nothing"
    summary = (
        f"{len(here)} faults in {schedule.attempts} attempts replayed over {seconds:.0f} s; not simulated: {missing}"
    )
    return [summary, str(schedule), *compare(reactions, count_reactions(played, simulated_lines)), *world.trace]
