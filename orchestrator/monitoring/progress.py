"""Progress for a person: one live table on a terminal or under a notebook's cell, else lines with ETA; and a file."""

from __future__ import annotations

import logging
import sys
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

import polars as pl
from rich.console import Console
from rich.live import Live
from rich.table import Table

from orchestrator.monitoring import render, snapshot
from orchestrator.monitoring.console import Visible
from orchestrator.monitoring.notebook import NotebookTable
from orchestrator.scheduling.scheduler import Scheduler
from orchestrator.tracking.cell_metrics import CellMetricsPublisher, interval
from orchestrator.tracking.tracker import Tracker

LINE_INTERVAL_S, MAX_LINE_INTERVAL_S = 10.0, 60.0
"""Seconds between plain lines: at first, and once a tenth of the time that has passed is more."""
TRACK_INTERVAL_S = 2.0
"""Seconds between progress points in MLflow at first."""

log = logging.getLogger(__name__)


class Progress:
    """Shows how far a sweep is, per model and in all."""

    def __init__(
        self,
        folder: Path,
        planned: pl.DataFrame,
        before: Mapping[str, int],
        errors: Mapping[str, int],
        groups: Mapping[str, str],
        tracker: Tracker,
        cell_metrics: CellMetricsPublisher | None = None,
    ) -> None:
        """``before`` and ``errors``: cell -> what earlier attempts stored; ``groups``: model -> its pool of workers."""
        self.folder, self.before, self.tracker, self.cell_metrics = folder, before, tracker, cell_metrics
        self.rows = {row["cell"]: row for row in planned.iter_rows(named=True)}
        self.planned = int(planned["planned"].sum())
        self.finished = sum(before.values())
        self.group_of = {cell: groups[row["model"]] for cell, row in self.rows.items()}
        totals = {cell: row["planned"] for cell, row in self.rows.items()}
        self.rate_meter = snapshot.RateMeter(self._grouped(totals), self._grouped(before), self._grouped(errors))
        self.console = Console(stderr=True)
        self.table: Live | NotebookTable | None = None
        self.began = time.monotonic()
        self._printed, self._tracked, self._written = self.began, 0.0, 0.0
        self._done = 0
        """Episodes of this attempt at the last point in MLflow."""

    def __enter__(self) -> Progress:
        self.began = self._printed = time.monotonic()
        for cell, row in self.rows.items():  # at first all of them, so that their runs are made while the sweep plays
            self.tracker.cell({**row, "finished": min(self.before.get(cell, 0), row["planned"] - 1)})
        if self.console.is_terminal:
            self.table = Live(console=self.console, auto_refresh=False, transient=True)
        elif self.console.is_jupyter:
            self.table = NotebookTable()
        if self.table is not None:
            self.table.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.table is not None:
            self.table.stop()
        if self.cell_metrics is not None:
            self.cell_metrics.close()
        snapshot.remove(self.folder)

    def show(
        self, per_cell: Mapping[str, int], errors: Mapping[str, int], schedule: Scheduler, reasons: Mapping[str, str]
    ) -> None:
        """Take the counts of this attempt; called about twice a second."""
        now, done = time.monotonic(), sum(per_cell.values())
        if now - self._tracked >= interval(TRACK_INTERVAL_S, now - self.began):
            last, before = self._tracked or self.began, self._done
            self._tracked, self._done = now, done
            self.tracker.progress(self.finished + done, self.planned, (done - before) / max(now - last, 1e-9))
        if self.cell_metrics is not None:
            self.cell_metrics.publish_if_due()
        file, line = now - self._written >= snapshot.WRITE_INTERVAL_S, self._line_due(now)
        if self.table is None and not file and not line:
            return
        current = self.rate_meter.snapshot(schedule, self._grouped(per_cell), self._grouped(errors), reasons, now)
        if file:
            self._written = now
            snapshot.write(self.folder, current)
        if line:
            self._printed = now
            self._print_lines(current)
        if self.table is not None:
            self.table.update(Visible(self._table(current)), refresh=True)

    def replanned(self, planned: pl.DataFrame) -> None:
        """Take how many episodes each cell has now: the precision rule has stopped some."""
        self.rows = {row["cell"]: row for row in planned.iter_rows(named=True)}
        self.planned = int(planned["planned"].sum())
        self.rate_meter.planned = self._grouped({cell: row["planned"] for cell, row in self.rows.items()})

    def played(self, done: int, seconds: float) -> None:
        """Print how many episodes an attempt played, and how fast."""
        self.tracker.progress(self.finished + done, self.planned, done / seconds)
        sentence = f"played {done:,} episodes in {seconds:.1f} s ({done / seconds:,.0f}/s)"
        log.info(sentence)
        print(sentence, file=sys.stderr, flush=True)

    def _table(self, current: snapshot.Snapshot) -> Table:
        return render.table(current, max(3, self.console.height - 5), self.console.width)

    def _line_due(self, now: float) -> bool:
        return now - self._printed >= min(MAX_LINE_INTERVAL_S, max(LINE_INTERVAL_S, (now - self.began) / 10))

    def _print_lines(self, current: snapshot.Snapshot) -> None:
        """Lines for who has no terminal, and for the attempt's log."""
        for line in render.lines(current):
            log.info(line)
            if self.table is None:
                print(line, file=sys.stderr, flush=True)

    def _grouped(self, per_cell: Mapping[str, int]) -> dict[str, int]:
        counts = Counter[str]()
        for cell, count in per_cell.items():
            counts[self.group_of[cell]] += count
        return counts
