"""Publishes the metrics of every cell while a sweep runs, scored from the run folder in a thread.

The sweep never waits for it, and it takes at most a hundredth of the time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from threading import Lock, Thread
from time import monotonic
from typing import Any

import polars as pl

SCORE_INTERVAL_S = 30.0
"""Seconds between two scorings at first."""
POINTS = 20
"""Scorings of a sweep so far from which on they become rarer."""
REST_FACTOR = 100
"""A scoring is followed by this many times its own duration without one."""

log = logging.getLogger(__name__)


def interval(every: float, age: float, points: int = 500) -> float:
    """Seconds until the next point of a sweep that is ``age`` seconds old: days of it stay a chart, and cost what minutes do."""
    return max(every, age / points)


class CellMetricsPublisher:
    """Publishes the rows of cells that changed since they were last scored."""

    def __init__(self, rows: Callable[[], pl.DataFrame], publish: Callable[[Mapping[str, Any]], None]) -> None:
        """``rows`` scores what is stored (``score``); it is called in a thread, one call at a time."""
        self._rows, self._publish = rows, publish
        self._published: dict[str, dict[str, Any]] = {}
        self._publishing, self._closed = Lock(), False
        self._began = self._due = monotonic()
        self._due += SCORE_INTERVAL_S
        self._thread: Thread | None = None

    def publish_if_due(self) -> None:
        """Score and publish in a thread, if it is time; returns at once."""
        if monotonic() >= self._due and not (self._thread and self._thread.is_alive()):
            self._thread = Thread(target=self._score, name="cell-metrics", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Publish nothing from now on: what comes next is the end, and a late row must not overwrite it."""
        with self._publishing:
            self._closed = True

    def _score(self) -> None:
        began = monotonic()
        try:
            rows = self._rows().to_dicts()
        except (
            OSError,
            pl.exceptions.PolarsError,
        ) as problem:  # a full disk, a part being damaged: the driver's to say
            log.info("the cells are not scored this time: %s", problem)
            rows = []
        with self._publishing:
            for row in rows if not self._closed else ():
                if self._published.get(row["cell"]) != row:
                    self._published[row["cell"]] = row
                    self._publish(row)
        now = monotonic()
        self._due = now + max(interval(SCORE_INTERVAL_S, now - self._began, POINTS), REST_FACTOR * (now - began))
