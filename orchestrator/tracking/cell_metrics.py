"""How every cell stands so far, scored from the run folder beside the sweep, which never waits for it and pays little."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from threading import Lock, Thread
from time import monotonic
from typing import Any

import polars as pl

SCORE_INTERVAL_S = 30.0
"""Seconds between two looks at first."""
LOOKS = 20
"""Looks over a sweep's life so far from which on they become rarer."""
SHARE = 100
"""A look is followed by this many times its own duration without one."""

log = logging.getLogger(__name__)


def paced(every: float, age: float, points: int = 500) -> float:
    """Seconds until the next point of a sweep that is ``age`` seconds old: days of it stay a chart, and cost what minutes do."""
    return max(every, age / points)


class CellMetricsPublisher:
    """Tells the rows of cells that changed since the last look."""

    def __init__(self, rows: Callable[[], pl.DataFrame], tell: Callable[[Mapping[str, Any]], None]) -> None:
        """``rows`` scores what is stored (``score``); it is called in a thread, one call at a time."""
        self._rows, self._tell = rows, tell
        self._told: dict[str, dict[str, Any]] = {}
        self._telling, self._over = Lock(), False
        self._began = self._due = monotonic()
        self._due += SCORE_INTERVAL_S
        self._thread: Thread | None = None

    def look(self) -> None:
        """Look, if it is time; returns at once."""
        if monotonic() >= self._due and not (self._thread and self._thread.is_alive()):
            self._thread = Thread(target=self._look, name="standing", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Tell nothing from now on: what comes next is the end, and a late look must not overwrite it."""
        with self._telling:
            self._over = True

    def _look(self) -> None:
        began = monotonic()
        try:
            rows = self._rows().to_dicts()
        except (
            OSError,
            pl.exceptions.PolarsError,
        ) as problem:  # a full disk, a part being damaged: the driver's to say
            log.info("no look at the cells this time: %s", problem)
            rows = []
        with self._telling:
            for row in rows if not self._over else ():
                if self._told.get(row["cell"]) != row:
                    self._told[row["cell"]] = row
                    self._tell(row)
        now = monotonic()
        self._due = now + max(paced(SCORE_INTERVAL_S, now - self._began, LOOKS), SHARE * (now - began))
