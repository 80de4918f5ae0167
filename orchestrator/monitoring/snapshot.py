"""How a running sweep does, as values: the driver leaves them in ``live.json``, and any terminal can read them there.

The file says nothing that the store does not say better once the driver has ended; then it is removed, or out of date.
"""

from __future__ import annotations

import json
import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.scheduling.commands import JUDGES
from orchestrator.storage import atomic_write
from orchestrator.storage.run_folder import LIVE

if TYPE_CHECKING:
    from orchestrator.scheduling.scheduler import Scheduler

WRITE_INTERVAL_S = 5.0
"""Seconds between two versions of the file."""
RATE_WINDOW_S = 60.0
"""Seconds over which episodes/s are counted."""


@dataclass(frozen=True, slots=True)
class Row:
    """One group of workers: a model, the built-in policies together, or the judge."""

    name: str
    judges: bool = False
    ready: int = 0
    """Replicas that play."""
    starting: int = 0
    gpus: float = 0
    """GPUs that its replicas hold, parts of shared ones included."""
    done: int = 0
    planned: int = 0
    """Episodes, or answers to read; of a judge those that are there by now."""
    rate: float = 0.0
    """Episodes/s over the last ``RATE_WINDOW_S``."""
    waiting: int = 0
    """Episodes that no worker has."""
    in_flight: int = 0
    """Episodes that a worker has and did not deliver yet."""
    errors: int = 0
    seconds_left: float | None = None
    """None where nothing can be said yet."""
    reason: str = ""
    """Why a worker of it was lost last."""
    at_once: int = 0
    """Episodes that one of its replicas plays at once; 0 without a replica."""
    paused: int = 0
    """Episodes that somebody has paused (``proactive-sweep ctl``)."""
    cancelled: int = 0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The whole sweep at one moment."""

    at: float
    """Unix time."""
    done: int
    planned: int
    rate: float
    seconds_left: float | None
    gpus: int
    """GPUs of the cluster."""
    rows: tuple[Row, ...] = ()


@dataclass
class RateMeter:
    """Turns counts into rates over the last minute."""

    planned: Mapping[str, int]
    """Group -> planned episodes."""
    before: Mapping[str, int]
    """Group -> those that earlier attempts stored."""
    errors: Mapping[str, int] = field(default_factory=dict)
    """Group -> errors among those."""
    _seen: deque[tuple[float, Counter[str]]] = field(default_factory=deque)

    def snapshot(
        self,
        schedule: Scheduler,
        stored: Mapping[str, int],
        errors: Mapping[str, int],
        reasons: Mapping[str, str],
        now: float,
    ) -> Snapshot:
        """The snapshot of this moment: ``stored`` and ``errors`` count this attempt's episodes by group."""
        judges = {name for name, group in schedule.groups.items() if group.demand.pool == JUDGES}
        counts = Counter(stored)  # less than nothing where failed ones of an earlier attempt are played again
        counts.update({name: schedule.groups[name].played + schedule.groups[name].answered for name in judges})
        rates = self._rates(counts, now)
        names = dict.fromkeys((*self.planned, *schedule.groups))
        rows = [self._row(name, schedule, counts[name], rates.get(name, 0.0), name in judges) for name in names]
        rows = [_with(row, errors.get(row.name, 0) + self.errors.get(row.name, 0), reasons) for row in rows]
        models = [row for row in rows if not row.judges]
        return Snapshot(
            at=time.time(),
            done=sum(row.done for row in models),
            planned=sum(row.planned for row in models),
            rate=sum(row.rate for row in models),
            seconds_left=_left(rows, schedule),
            gpus=schedule.nodes.total,
            rows=tuple(rows),
        )

    def _rates(self, counts: Counter[str], now: float) -> dict[str, float]:
        self._seen.append((now, Counter(counts)))
        while len(self._seen) > 2 and now - self._seen[1][0] >= RATE_WINDOW_S:
            self._seen.popleft()
        began, first = self._seen[0]
        seconds = now - began
        return {name: (counts[name] - first[name]) / seconds for name in counts} if seconds > 0 else {}

    def _row(self, name: str, schedule: Scheduler, stored: int, rate: float, judges: bool) -> Row:
        group, slots = schedule.groups.get(name), [s for s in schedule.slots.values() if s.group.name == name]
        waiting = group.left if group else 0
        in_flight = sum(len(lease) for slot in slots for lease in slot.leases.values())
        done = self.before.get(name, 0) + stored
        planned = stored + waiting + in_flight if judges else max(self.planned.get(name, 0), done)
        left = planned - done
        return Row(
            name=name,
            judges=judges,
            ready=sum(slot.ready for slot in slots),
            starting=sum(not slot.ready for slot in slots),
            gpus=sum(slot.group.demand.gpus for slot in slots),
            done=done,
            planned=planned,
            rate=rate,
            waiting=waiting,
            in_flight=in_flight,
            at_once=group.demand.at_once if group and slots else 0,
            paused=len(group.parked) if group else 0,
            cancelled=len(group.dropped) if group else 0,
            seconds_left=0.0 if left <= 0 else left / rate if rate > 0 else None,
        )


def _with(row: Row, errors: int, reasons: Mapping[str, str]) -> Row:
    return Row(**{**asdict(row), "errors": errors, "reason": reasons.get(row.name, "")})


def _left(rows: Sequence[Row], schedule: Scheduler) -> float | None:
    """Seconds to the end: the slowest group's, but never less than all GPUs together need for what is pending."""
    playing = [row.seconds_left for row in rows if row.seconds_left is not None]
    unseen = [row.name for row in rows if row.seconds_left is None and row.waiting + row.in_flight]
    groups = schedule.groups
    if any(not groups[name].known for name in unseen) or not playing:
        return None
    work = sum(g.demand.gpus * schedule.remaining(g) / g.rate for g in groups.values() if g.demand.gpus and g.known)
    return max([*playing, work / max(1, schedule.nodes.total)])


def counted(cells: Sequence[Mapping[str, Any]]) -> tuple[Row, ...]:
    """Rows of what a status counts where no driver runs: by model, without workers."""
    found: dict[str, Counter[str]] = {}
    for cell in cells:
        numbers = found.setdefault(str(cell["cell"]).partition("/")[0], Counter())
        numbers.update({name: int(cell[name]) for name in ("finished", "planned", "errors")})
    return tuple(Row(name, done=n["finished"], planned=n["planned"], errors=n["errors"]) for name, n in found.items())


# -- the file ---------------------------------------------------------------------------------------------------------
def write(folder: Path, snapshot: Snapshot) -> None:
    """Leave the snapshot in a run folder; a full disk costs the file, never the run."""
    with suppress(OSError):
        atomic_write.write(folder / LIVE, json.dumps(asdict(snapshot), indent=1).encode())


def remove(folder: Path) -> None:
    """The driver has ended: what it did stands in the store."""
    with suppress(OSError):
        (folder / LIVE).unlink(missing_ok=True)


def from_json(found: Any) -> Snapshot | None:
    """The snapshot of a file's content; None where this version cannot read it."""
    try:
        return Snapshot(**{**found, "rows": tuple(Row(**row) for row in found["rows"])})
    except (TypeError, KeyError):
        return None
