"""Shows and records the progress of a sweep: a table on a terminal, lines elsewhere, ``live.json``, points."""

import logging
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from rich.console import Console
from rich.live import Live

from actors.text.printable import say
from orchestrator.monitoring import render, snapshot
from orchestrator.report.tables.formats import rich_group
from orchestrator.scheduling.scheduler import Scheduler
from orchestrator.storage.progress_log import Point, append_point

LINE_INTERVAL_S, MAX_LINE_INTERVAL_S = 10.0, 60.0
"""Seconds between lines: a tenth of the elapsed time, within these bounds."""
POINT_INTERVAL_S, POINTS = 2.0, 500
"""Seconds between two points at the start of a sweep, later its age / POINTS, so that the chart of days stays small."""

log = logging.getLogger(__name__)


class Progress:
    """Shows and records the progress of one attempt, for each model and in total."""

    def __init__(
        self, folder: Path, planned: Mapping[str, int], before: Mapping[str, int], errors: Mapping[str, int]
    ) -> None:
        """``planned``: group -> episodes; ``before``, ``errors``: group -> episodes, errors of earlier attempts."""
        self.folder, self.finished = folder, sum(before.values())
        self.rate_meter = snapshot.RateMeter(planned, before, errors)
        self.console = Console(stderr=True, force_jupyter=False)
        self.table = Live(console=self.console, auto_refresh=False, transient=True)
        """Prints nothing unless standard error is a terminal."""
        self.began = time.monotonic()
        self._printed, self._recorded, self._written = self.began, 0.0, 0.0
        self._done = 0
        """Episodes of this attempt so far."""

    def __enter__(self) -> Self:
        self.began = self._printed = time.monotonic()
        self.table.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.table.stop()
        snapshot.remove(self.folder)

    def show(
        self, stored: Mapping[str, int], errors: Mapping[str, int], schedule: Scheduler, troubles: Mapping[str, str]
    ) -> None:
        """Show the counts of this attempt by group; the driver calls this about twice a second."""
        now, done = time.monotonic(), sum(stored.values())
        if now - self._recorded >= max(POINT_INTERVAL_S, (now - self.began) / POINTS):
            rate = (done - self._done) / max(now - (self._recorded or self.began), 1e-9)
            self._recorded, self._done = now, done
            self._record(done, rate)
        file_due = now - self._written >= snapshot.WRITE_INTERVAL_S
        line_due = now - self._printed >= min(MAX_LINE_INTERVAL_S, max(LINE_INTERVAL_S, (now - self.began) / 10))
        if not self.console.is_terminal and not file_due and not line_due:
            return
        current = self.rate_meter.snapshot(schedule, stored, errors, now, troubles)
        if file_due:
            self._written = now
            snapshot.write(self.folder, current)
        if line_due:
            self._printed = now
            self._print_lines(current)
        if self.console.is_terminal:
            self.table.update(rich_group(*render.table(current, max(3, self.console.height - 8))), refresh=True)

    def report_total(self, done: int, seconds: float) -> None:
        """Print and record how many episodes the attempt played, and how fast."""
        self._record(done, done / seconds)
        sentence = f"played {done:,} episodes in {seconds:.1f} s ({render.format_rate(done / seconds)})"
        log.info(sentence)
        say(sentence)

    def _record(self, done: int, rate: float) -> None:
        at = int(time.time() * 1000)
        append_point(self.folder, Point(done=self.finished + done, at=at, episodes_per_second=rate))

    def _print_lines(self, current: snapshot.Snapshot) -> None:
        """Write lines to the attempt's log, and print them if there is no table."""
        for line in render.lines(current):
            log.info(line)
            if not self.console.is_terminal:
                say(line)
