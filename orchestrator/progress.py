"""Progress for a person: one live table on a terminal, a plain line with ETA every few seconds when not."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Mapping
from types import TracebackType

import polars as pl
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from orchestrator.tracking import Tracker

LINE_EVERY = 10.0
"""Seconds between plain lines."""
TRACK_EVERY = 2.0
"""Seconds between progress points in MLflow."""
CELLS_EVERY = 30.0
"""Seconds between the rows of unfinished cells in MLflow; their measures come with the end."""


class Progress:
    """Shows how far a sweep is, per model and in all."""

    def __init__(self, planned: pl.DataFrame, before: Mapping[str, int], tracker: Tracker) -> None:
        self.rows = {row["cell"]: row for row in planned.iter_rows(named=True)}
        self.planned = int(planned["planned"].sum())
        self.before = before
        """Cell -> episodes that earlier attempts stored."""
        self.finished = sum(before.values())
        self.tracker = tracker
        self.models = dict(planned.group_by("model", maintain_order=True).agg(pl.col("planned").sum()).iter_rows())
        self.model_of = dict(zip(planned["cell"], planned["model"], strict=True))
        self.console = Console(stderr=True)
        self.bars: Bars | None = None
        self.began = time.monotonic()
        self._line, self._tracked, self._told = self.began, 0.0, 0.0

    def __enter__(self) -> Progress:
        self.began = self._line = time.monotonic()
        if self.console.is_terminal:
            self.bars = Bars(
                TextColumn("{task.description:<24}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[rate]:>10}"),
                TimeRemainingColumn(),
                console=self.console,
            )
            self.tasks = {
                model: self.bars.add_task(model, total=total, rate="") for model, total in self.models.items()
            }
            self.bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.bars is not None:
            self.bars.stop()

    def show(self, per_cell: Mapping[str, int]) -> None:
        """Take the counts of this attempt; called about twice a second."""
        now = time.monotonic()
        done = sum(per_cell.values())
        rate = done / max(now - self.began, 1e-9)
        if now - self._tracked >= TRACK_EVERY:
            self._tracked = now
            self.tracker.progress(self.finished + done, self.planned, rate)
        if now - self._told >= CELLS_EVERY:
            self._tell_cells(per_cell, everything=not self._told)
            self._told = now
        if self.bars is not None:
            self._move(per_cell, now - self.began)
        elif now - self._line >= LINE_EVERY:
            self._line = now
            print(self.line(done, rate), file=sys.stderr, flush=True)

    def line(self, done: int, rate: float) -> str:
        """``1,200 of 3,360 episodes (36%), 410/s, 5 s left``."""
        total = self.finished + done
        left = f"{(self.planned - total) / rate:,.0f} s left" if rate else "no episode finished yet"
        return f"{total:,} of {self.planned:,} episodes ({total / max(self.planned, 1):.0%}), {rate:,.0f}/s, {left}"

    def played(self, done: int, seconds: float) -> None:
        """The last word of an attempt."""
        self.tracker.progress(self.finished + done, self.planned, done / seconds)
        print(f"played {done:,} episodes in {seconds:.1f} s ({done / seconds:,.0f}/s)", file=sys.stderr, flush=True)

    def _tell_cells(self, per_cell: Mapping[str, int], everything: bool) -> None:
        """Put the cells that moved into MLflow, at first all of them, so that their runs are made while the sweep plays."""
        for cell, row in self.rows.items():
            finished = self.before.get(cell, 0) + per_cell.get(cell, 0)
            if everything or (per_cell.get(cell) and finished < row["planned"]):
                self.tracker.cell({**row, "finished": min(finished, row["planned"] - 1)})

    def _move(self, per_cell: Mapping[str, int], seconds: float) -> None:
        assert self.bars is not None
        new, old = Counter[str](), Counter[str]()
        for counts, cells in ((new, per_cell), (old, self.before)):
            for cell, count in cells.items():
                counts[self.model_of[cell]] += count
        for model, task in self.tasks.items():
            rate = f"{new[model] / max(seconds, 1e-9):,.0f}/s" if new[model] else ""
            self.bars.update(task, completed=old[model] + new[model], rate=rate)
