"""Progress and load of a sweep over time (``progress.jsonl``): the episode store keeps no times, and charts need them.

Each line is one point. Torn and foreign lines are skipped.
"""

from contextlib import suppress
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, Field, ValidationError

from envs import regular
from orchestrator.storage import safe_write

FILE = "progress.jsonl"
MAX_BYTES = 64 << 20
"""Most bytes of the file that are read."""

Count = Annotated[int, Field(strict=True, ge=0, lt=2**53)]


class Point(BaseModel, frozen=True):
    """The state of a sweep at one moment."""

    done: Count
    """Finished episodes."""
    at: Annotated[int, Field(strict=True, ge=0, lt=253_402_300_800_000)]
    """Milliseconds since 1970, before the year 10000."""
    episodes_per_second: Annotated[float, Field(allow_inf_nan=False)] | None = None


def append_point(folder: Path, point: Point) -> None:
    """Append a point; on a full disk the point is dropped and the run goes on."""
    with suppress(OSError):
        safe_write.append(folder / FILE, (point.model_dump_json(exclude_none=True) + "\n").encode())


def stored_points(folder: Path) -> list[Point]:
    """Return the points of all attempts, oldest first; empty where the file is missing or unreadable."""
    points: list[Point] = []
    with suppress(OSError):
        for line in regular.read_bytes(folder / FILE, MAX_BYTES).splitlines():
            with suppress(ValidationError):
                points.append(Point.model_validate_json(line))
    return points


def playing_times(folder: Path) -> tuple[datetime, datetime] | None:
    """Return when the first attempt began and when the last episode was counted; None if the folder has no points."""
    if not (points := stored_points(folder)):
        return None
    counted = [after.at for before, after in pairwise(points) if after.done != before.done]
    began, ended = (datetime.fromtimestamp(at // 1000, UTC) for at in (points[0].at, [points[0].at, *counted][-1]))
    return began, ended
