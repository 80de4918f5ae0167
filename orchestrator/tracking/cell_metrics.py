"""Publishes the metrics of every cell while a sweep plays, scored from the run folder in a thread.

The sweep never waits for the scoring, which takes at most one percent of the time.
"""

import logging
from collections.abc import Callable, Mapping
from threading import Lock, Thread
from time import monotonic
from typing import Any

import polars as pl

SCORE_INTERVAL_S = 30.0
"""Seconds between two scorings at the start of a sweep."""
POINTS = 20
"""Number of scorings after which the interval between two grows."""
REST_FACTOR = 100
"""Least pause after a scoring, in multiples of its duration."""

log = logging.getLogger(__name__)


def interval(shortest: float, age: float, points: int = 500) -> float:
    """Return the seconds until a sweep's next point; they grow with its age, so the chart of a sweep of days stays small."""
    return max(shortest, age / points)


class CellMetricsPublisher:
    """Publishes rows of cells that changed since they were last scored."""

    def __init__(self, score: Callable[[], pl.DataFrame], publish: Callable[[Mapping[str, Any]], None]) -> None:
        """``score`` returns a row per cell from the stored episodes; it is called in a thread, one call at a time."""
        self._score, self._publish = score, publish
        self._published: dict[str, dict[str, Any]] = {}
        self._publishing, self._closed = Lock(), False
        self._began = monotonic()
        self._due = self._began + SCORE_INTERVAL_S
        self._thread: Thread | None = None

    def publish_if_due(self) -> None:
        """Score and publish in a thread if it is time; return at once."""
        if monotonic() >= self._due and not (self._thread and self._thread.is_alive()):
            self._thread = Thread(target=self._score_and_publish, name="cell-metrics", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Publish nothing from now on: a late row must not overwrite the final one."""
        with self._publishing:
            self._closed = True

    def _score_and_publish(self) -> None:
        began = monotonic()
        try:
            rows = self._score().to_dicts()
        except (OSError, pl.exceptions.PolarsError) as error:  # a full disk, a damaged part: the driver reports it
            log.info("the cells are not scored this time: %s", error)
            rows = []
        with self._publishing:
            for row in rows if not self._closed else ():
                if self._published.get(row["cell"]) != row:
                    self._published[row["cell"]] = row
                    self._publish(row)
        now = monotonic()
        self._due = now + max(interval(SCORE_INTERVAL_S, now - self._began, POINTS), REST_FACTOR * (now - began))
