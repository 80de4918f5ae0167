"""The faults of one run, as data: drawn from a seed and printed."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

MOST_EVENTS = 20
"""Events of a storm at most."""
STORM_S = 9.0
"""Virtual seconds of an attempt in which faults begin; an undisturbed run takes about as long."""
STEPS, OPERATIONS, ITEMS = 850, 100, 20
"""Steps of the event loop, disk operations and items of streams of an undisturbed attempt, about; twice as many with a judge."""


@dataclass(frozen=True, order=True)
class Event:
    """A fault in an attempt."""

    attempt: int
    kind: str
    at: float
    """Virtual seconds, or the number of a step, disk operation or item."""
    value: float = 0.0


TIMED = ("kill actor", "hang actor", "kill node", "stop", "pause", "drain", "move folder", "second process")
"""Faults and commands at a virtual time; ``value`` chooses the actor or node, as a part of those there are."""
FLIP, FLIP_SHARE = "flip", 0.3
"""A flipped bit in a part before an attempt, and the share of later attempts on a local disk that have one."""
POISON, POISON_SHARE, POISON_S = "poison", 0.25, 2.0
"""An episode, chosen by ``value``, that ends every process which plays it, as one that takes all memory does; the share of
attempts that have one, and the virtual seconds before which it comes: once played, it ends nothing."""
NUMBERED = {
    "kill at step": STEPS,
    "kill at disk operation": OPERATIONS,
    "power loss at disk operation": OPERATIONS,
    "power loss at step": STEPS,
    "disk full": OPERATIONS,
    "disk fails": OPERATIONS,
    "rename fails": OPERATIONS,
    "slow disk": OPERATIONS,
    "lying flush": OPERATIONS,
    "doubled item": ITEMS,
    "late item": ITEMS,
    "lost object": ITEMS,
}
"""Faults at a number -> the largest one."""
IN_BUCKET = ("bucket away", "bucket throttles", "second driver")
"""Faults of a bucket at a virtual time."""
BUCKET_WRITES = {"unanswered write": 60}
"""Faults of the write with a number, counted from the attempt's begin -> the largest one."""
OTHER_MACHINE_SHARE = 0.4
"""Share of the attempts in a bucket that begin on another machine than the last one."""
OTHER_MACHINE = "other machine"
"""The attempt is on another machine than the last one, a former one if ``value`` is below ``FORMER``."""
FORMER = 0.3
ENDS = ("kill at step", "kill at disk operation", "power loss at disk operation", "power loss at step")
"""Faults that end the driver."""


@dataclass(frozen=True)
class Schedule:
    """Everything that a simulated run depends on."""

    seed: int
    events: tuple[Event, ...] = ()

    @property
    def attempts(self) -> int:
        """Attempts that are disturbed; one without faults follows."""
        return 1 + max((event.attempt for event in self.events), default=-1)

    def __str__(self) -> str:
        """Return the schedule as the source of a test."""
        lines = [f"        Event({e.attempt}, {e.kind!r}, {e.at:g}, {e.value:g})," for e in self.events]
        name = f"test_seed_{self.seed}"
        events = "\n".join(["    events = (", *lines, "    )"]) if lines else "    events = ()"
        return f"def {name}(world):\n{events}\n    world.play(Schedule({self.seed}, events))"


def is_judged(seed: int) -> bool:
    """Return True if the sweep of a seed has a judge: every third has."""
    return seed % 3 == 1


def is_in_bucket(seed: int) -> bool:
    """Return True if the run folder of a seed is in a bucket: of every 18 seeds the last nine are."""
    return seed // 9 % 2 == 1


def is_wandering(seed: int) -> bool:
    """Return True if a seed's driver goes to another machine and back: every ninth, half of them in a judged sweep.

    Few storms do so by chance.
    """
    return seed % 18 in (15, 16)


def uses_parquet(seed: int) -> bool:
    """Return True if the tables of a seed are Parquet files, and not simulated ones: every tenth seed's are."""
    return seed % 10 == 0


def draw(seed: int) -> Schedule:
    """Draw a storm of one to four disturbed attempts, each ended in its middle or not."""
    chance, size = Random(f"storm {seed}"), 2 if is_judged(seed) else 1
    events: list[Event] = []
    attempts = chance.randint(1, 3)
    for attempt in range(3 if is_wandering(seed) else attempts):
        for _ in range(chance.randint(0, 4)):
            if chance.random() < 0.6:
                kind = chance.choice(TIMED)
                events.append(Event(attempt, kind, round(chance.uniform(0, STORM_S), 2), round(chance.random(), 3)))
            else:
                kind = chance.choice([name for name in NUMBERED if name not in ENDS])
                events.append(_numbered(attempt, kind, chance, size))
        if chance.random() < POISON_SHARE:
            events.append(Event(attempt, POISON, round(chance.uniform(0, POISON_S), 2), round(chance.random(), 3)))
        if attempt and not is_in_bucket(seed) and chance.random() < FLIP_SHARE:
            events.append(Event(attempt, FLIP, 0.0, round(chance.random(), 3)))
        if chance.random() < 0.8:
            events.append(_numbered(attempt, chance.choice(ENDS), chance, size))
        if is_in_bucket(seed):
            events += _bucket_events(attempt, chance)
    if is_wandering(seed):
        events = [event for event in events if event.kind != OTHER_MACHINE]
        events += [Event(1, OTHER_MACHINE, 0.0, FORMER), Event(2, OTHER_MACHINE, 0.0)]
    return Schedule(seed, tuple(sorted(events))[:MOST_EVENTS])


def _bucket_events(attempt: int, chance: Random) -> list[Event]:
    """Draw up to two faults of the bucket in an attempt, and whether it is on another machine than the last one."""
    events = []
    for _ in range(chance.randint(0, 2)):
        kind = chance.choice([*IN_BUCKET, *BUCKET_WRITES])
        at = chance.randint(1, BUCKET_WRITES[kind]) if kind in BUCKET_WRITES else round(chance.uniform(0, STORM_S), 2)
        events.append(Event(attempt, kind, at, round(chance.random(), 3)))
    if attempt and chance.random() < OTHER_MACHINE_SHARE:
        events.append(Event(attempt, OTHER_MACHINE, 0.0, round(chance.random(), 3)))
    return events


def _numbered(attempt: int, kind: str, chance: Random, size: int) -> Event:
    return Event(attempt, kind, chance.randint(1, size * NUMBERED[kind]), round(chance.uniform(0.1, 20), 2))
