"""Progress and load over time (``progress.jsonl``), kept beside the episodes: the store has no clock, and ``track`` needs one.

A line is a point; a torn or foreign line is left out.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

from envs import regular
from orchestrator.tracking.mlflow_client import Point

POINTS = "progress.jsonl"
LARGEST = 64 << 20
"""Bytes of it that are read."""
MOST = 100_000
"""Points of it that are read: a sweep's points become rarer as it grows older."""
NAME = re.compile(r"[\w\-./ :]{1,200}")


def append_point(folder: Path, point: Point) -> None:
    """Keep a point; a full disk costs the point, never the run."""
    line = json.dumps({"done": point.done, "at": point.at, **point.measures})
    with suppress(OSError), (folder / POINTS).open("a", encoding="utf-8") as file:
        file.write(line + "\n")


def stored_points(folder: Path) -> list[Point]:
    """The points of all attempts, oldest first; none where none was kept."""
    try:
        lines = regular.content(folder / POINTS, LARGEST).decode("utf-8", "replace").splitlines()
    except OSError:
        return []
    return list(islice(_points(lines), MOST))


def _points(lines: list[str]) -> Iterator[Point]:
    for line in lines:
        try:
            found = json.loads(line)
            done, at = found.pop("done"), found.pop("at")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            continue
        if _count(done) and _count(at):
            yield Point(done, at, _measures(found))


def _measures(found: Mapping[str, Any]) -> dict[str, float]:
    return {
        name: float(value)
        for name, value in found.items()
        if NAME.fullmatch(name) and isinstance(value, int | float) and -1e300 < value < 1e300 and math.isfinite(value)
    }


def _count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53
