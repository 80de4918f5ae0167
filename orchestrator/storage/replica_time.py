"""The time that replicas held GPUs (``replica_time.json``): per attempt and group of workers, by use (``HELD``).

The driver rewrites the file while it plays, so a killed attempt lacks its last ``WRITE_INTERVAL_S`` seconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, PlainSerializer, TypeAdapter

from orchestrator.storage import checksums

FILE = "replica_time.json"
WRITE_INTERVAL_S = 120.0
HELD = ("loading", "playing", "judging", "idle", "lost")
"""The parts of held time, which add up to it."""

Seconds = Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False), PlainSerializer(lambda value: round(value, 3))]


@dataclass(slots=True)
class ReplicaTime:
    """Seconds of all replicas of a group, summed."""

    gpus: Seconds = 0.0
    """GPUs of one replica; 0 for one on CPUs."""
    waiting: Seconds = 0.0
    """Waiting for Ray to place the replica and start its process; not held."""
    loading: Seconds = 0.0
    playing: Seconds = 0.0
    judging: Seconds = 0.0
    idle: Seconds = 0.0
    """Ready, without work."""
    lost: Seconds = 0.0
    """Failed starts, and work that a lost worker had not delivered."""

    @property
    def held(self) -> float:
        total: float = sum(getattr(self, part) for part in HELD)
        return total

    def __add__(self, other: ReplicaTime) -> ReplicaTime:
        sums = (getattr(self, name) + getattr(other, name) for name in (field.name for field in fields(self)[1:]))
        return ReplicaTime(max(self.gpus, other.gpus), *sums)


ATTEMPTS = TypeAdapter(dict[str, dict[str, ReplicaTime]])


def read_attempts(folder: Path) -> dict[str, dict[str, ReplicaTime]]:
    """Return attempt -> group -> its time; empty where the file is missing or damaged."""
    try:
        return ATTEMPTS.validate_json(checksums.read_verified(folder / FILE))
    except (OSError, ValueError):
        return {}


def write_attempts(folder: Path, attempts: dict[str, dict[str, ReplicaTime]]) -> None:
    """Write the file; on a full disk it stays as it was and the run goes on."""
    with suppress(OSError):
        checksums.write(folder / FILE, ATTEMPTS.dump_json(attempts, indent=1))


def time_by_group(folder: Path) -> dict[str, ReplicaTime]:
    """Return group -> its time over all attempts."""
    totals: dict[str, ReplicaTime] = {}
    for groups in read_attempts(folder).values():
        for name, row in groups.items():
            totals[name] = totals.get(name, ReplicaTime()) + row
    return totals


def _sum_hours(folder: Path) -> tuple[bool, dict[str, float]]:
    """Return True if a replica had a GPU, and the hours of waiting and each part of held time, weighted by the GPUs."""
    groups = [*time_by_group(folder).values()]
    on_gpus = any(group.gpus for group in groups)
    weights = [group.gpus if on_gpus else 1 for group in groups]
    parts = ("waiting", *HELD)
    hours = {p: sum(getattr(g, p) * w for g, w in zip(groups, weights, strict=True)) / 3600 for p in parts}
    return on_gpus, hours


def describe(folder: Path) -> Iterator[str]:
    """Yield ``3.2 GPU-hours held: 60% playing, 40% loading; 0.2 waiting in Ray``; nothing if no time was held."""
    on_gpus, hours = _sum_hours(folder)
    waiting, total = hours.pop("waiting"), sum(hours.values())
    if total:
        parts = ", ".join(f"{100 * value / total:.0f}% {part}" for part, value in hours.items() if value)
        unit = "GPU-hours" if on_gpus else "worker-hours"
        yield f"{total:,.2f} {unit} held: {parts}; {waiting:,.2f} waiting in Ray"


def held_metrics(folder: Path) -> dict[str, float]:
    """Return ``gpu_hours/playing`` and so on over all attempts, for a tracker; empty if no replica had a GPU."""
    on_gpus, hours = _sum_hours(folder)
    return {f"gpu_hours/{part}": value for part, value in hours.items()} if on_gpus else {}


def as_rows(folder: Path) -> list[dict[str, Any]]:
    """Return one row per group: its name, gpus, and seconds of each part."""
    return [{"group": name, **asdict(row)} for name, row in time_by_group(folder).items()]
