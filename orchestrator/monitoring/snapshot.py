"""The state of a running sweep at one moment, which the driver writes to ``live.json`` for other terminals.

The driver removes the file when it ends; the episode store is then the better source.
"""

import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import FiniteFloat, TypeAdapter, ValidationError

from orchestrator.scheduling.commands import JUDGES
from orchestrator.scheduling.scheduler import Scheduler
from orchestrator.scheduling.state import WorkerSlot
from orchestrator.storage import safe_write
from orchestrator.storage.status import LIVE

WRITE_INTERVAL_S = 5.0
"""Seconds between two versions of the file."""
RATE_WINDOW_S = 60.0
"""Seconds over which episodes/s are averaged."""


@dataclass(slots=True)
class GroupRow:
    """A group of workers: a model, all built-in policies together, or the judge."""

    name: str
    judges: bool = False
    ready: int = 0
    """Replicas that play."""
    starting: int = 0
    gpus: FiniteFloat = 0
    """GPUs of its replicas, including parts of shared ones."""
    done: int = 0
    planned: int = 0
    """Episodes; for a judge, the answers that exist so far."""
    rate: FiniteFloat = 0.0
    """Episodes/s over the last ``RATE_WINDOW_S``."""
    waiting: int = 0
    """Episodes that no worker has received yet."""
    in_flight: int = 0
    """Episodes that a worker has received and not delivered yet."""
    errors: int = 0
    seconds_left: FiniteFloat | None = None
    """None while there is no estimate."""
    reason: str = ""
    """Why it last lost a worker."""
    paused: int = 0
    """Episodes that the user has paused (``proactive-sweep ctl``)."""
    cancelled: int = 0
    waits: str = ""
    """Why no episode ends now; empty if some do, or if nothing plays."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The whole sweep at one moment."""

    at: FiniteFloat
    """Unix time."""
    done: int
    planned: int
    rate: FiniteFloat
    seconds_left: FiniteFloat | None
    gpus: int
    """GPUs of the cluster."""
    rows: tuple[GroupRow, ...] = ()
    held: int = 0
    """GPUs of the cluster that other jobs hold."""


SNAPSHOT = TypeAdapter(Snapshot)
"""Reads and writes ``live.json``."""


@dataclass
class RateMeter:
    """Turns counts into snapshots with rates over the last minute."""

    planned: Mapping[str, int]
    """Group -> planned episodes."""
    before: Mapping[str, int]
    """Group -> episodes that earlier attempts stored."""
    errors: Mapping[str, int] = field(default_factory=dict)
    """Group -> errors among ``before``."""
    _history: deque[tuple[float, Counter[str]]] = field(default_factory=deque)

    def snapshot(
        self,
        schedule: Scheduler,
        stored: Mapping[str, int],
        errors: Mapping[str, int],
        now: float,
        troubles: Mapping[str, str],
    ) -> Snapshot:
        """Return the snapshot of this moment; ``stored`` and ``errors`` count this attempt's episodes by group.

        ``troubles``: group -> why its service answers nothing now.
        """
        judges = {name for name, group in schedule.groups.items() if group.demand.pool == JUDGES}
        counts = Counter(stored)  # negative if failed episodes of an earlier attempt are played again
        counts.update({name: schedule.groups[name].played + schedule.groups[name].answered for name in judges})
        rates, rows = self._rates(counts, now), list[GroupRow]()
        for name in dict.fromkeys((*self.planned, *schedule.groups)):
            rows.append(row := self._row(name, schedule, counts[name], rates.get(name, 0.0), troubles.get(name, "")))
            row.errors = errors.get(name, 0) + self.errors.get(name, 0)
        models = [row for row in rows if not row.judges]
        return Snapshot(
            at=time.time(),
            done=sum(row.done for row in models),
            planned=sum(row.planned for row in models),
            rate=sum(row.rate for row in models),
            seconds_left=_seconds_left(rows, schedule),
            gpus=schedule.nodes.total,
            rows=tuple(rows),
            held=schedule.nodes.held,
        )

    def _rates(self, counts: Counter[str], now: float) -> dict[str, float]:
        self._history.append((now, Counter(counts)))
        while len(self._history) > 2 and now - self._history[1][0] >= RATE_WINDOW_S:
            self._history.popleft()
        began, first = self._history[0]
        seconds = now - began
        return {name: (counts[name] - first[name]) / seconds for name in counts} if seconds > 0 else {}

    def _row(self, name: str, schedule: Scheduler, stored: int, rate: float, trouble: str) -> GroupRow:
        group, slots = schedule.groups.get(name), [s for s in schedule.slots.values() if s.group.name == name]
        row = GroupRow(name, done=self.before.get(name, 0) + stored, rate=rate)
        if group:
            row.judges, row.waits = group.demand.pool == JUDGES, schedule.describe_wait(group)
            row.reason = group.reason
            row.waiting, row.paused, row.cancelled = group.queued_count, len(group.parked), len(group.dropped)
        row.ready, row.in_flight = sum(slot.ready for slot in slots), sum(slot.leased_count for slot in slots)
        row.starting, row.gpus = len(slots) - row.ready, sum(slot.group.demand.gpus for slot in slots)
        row.waits = row.waits or ("" if rate else describe_silence(slots, schedule.now, trouble))
        played = stored + row.waiting + row.in_flight
        row.planned = played if row.judges else max(self.planned.get(name, 0), row.done)
        left = row.planned - row.done
        row.seconds_left = 0.0 if left <= 0 else left / rate if rate > 0 else None
        return row


def describe_silence(slots: Sequence[WorkerSlot], now: float, trouble: str) -> str:
    """Return why these workers deliver nothing: they wait for a place, load, or get no reply; empty without work."""
    if slots and not any(slot.ready for slot in slots):
        what = "loading" if any(slot.placed for slot in slots) else "waiting for a place in Ray"
        return f"{what}, {now - min(slot.started_at for slot in slots):.0f} s so far"
    playing = [slot for slot in slots if slot.leases]
    if not playing:
        return ""
    if trouble:
        return f"{trouble}, {sum(slot.leased_count for slot in playing):,} episodes wait"
    silence = now - max(slot.last_heard for slot in playing)
    return f"no episode for {silence:.0f} s" if silence >= WRITE_INTERVAL_S else ""


def _seconds_left(rows: Sequence[GroupRow], schedule: Scheduler) -> float | None:
    """Return the estimate of the slowest group, or the time that all GPUs together need for the pending work if longer."""
    estimates = [row.seconds_left for row in rows if row.seconds_left is not None]
    unknown = [row.name for row in rows if row.seconds_left is None and row.waiting + row.in_flight]
    groups = schedule.groups
    if any(not groups[name].has_rate for name in unknown) or not estimates:
        return None
    work = sum(g.demand.gpus * schedule.remaining(g) / g.rate for g in groups.values() if g.demand.gpus and g.has_rate)
    return max([*estimates, work / max(1, schedule.nodes.usable)])


def count_by_model(cells: Sequence[Mapping[str, Any]]) -> Snapshot:
    """Return the snapshot of a run folder without a driver: a row per model, without workers."""
    counts: dict[str, Counter[str]] = {}
    for cell in cells:
        numbers = counts.setdefault(str(cell["cell"]).partition("/")[0], Counter())
        numbers.update({name: int(cell[name]) for name in ("finished", "planned", "errors")})
    rows = tuple(
        GroupRow(name, done=count["finished"], planned=count["planned"], errors=count["errors"])
        for name, count in counts.items()
    )
    return Snapshot(0.0, sum(row.done for row in rows), sum(row.planned for row in rows), 0.0, None, 0, rows)


# -- the file ---------------------------------------------------------------------------------------------------------
def write(folder: Path, snapshot: Snapshot) -> None:
    """Write the snapshot to a run folder; on a full disk the file is missing and the run goes on."""
    with suppress(OSError):
        safe_write.write(folder / LIVE, SNAPSHOT.dump_json(snapshot, indent=1))


def remove(folder: Path) -> None:
    with suppress(OSError):
        (folder / LIVE).unlink(missing_ok=True)


def parse_snapshot(live: Any) -> Snapshot | None:
    """Return the snapshot in the file's JSON; None if this version cannot read it."""
    try:
        return SNAPSHOT.validate_python(live)
    except ValidationError:
        return None
