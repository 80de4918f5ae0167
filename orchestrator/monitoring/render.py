"""A snapshot as a person reads it: a table on a terminal, plain lines elsewhere; both say the same."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.table import Table

from orchestrator.monitoring.snapshot import Row, Snapshot, counted, from_json
from sweeps.values import gpus_told

HEADINGS = ("model", "replicas", "GPUs", "at once", "", "episodes", "/s", "waiting", "playing", "errors", "left")
BAR_COLUMNS = 16
"""Columns of a bar, where the terminal is ``WIDE``."""
WIDE_ONLY = ("", "at once")
"""Headings of columns that only a wide terminal has."""
WIDE = 110


def table(snapshot: Snapshot, most: int = 100, width: int = WIDE) -> Table:
    """One row a model, those at work first, at most so many; what says nothing in any row has no column."""
    rows = sorted(snapshot.rows, key=_rank)
    cells = [_cells(row) for row in rows[:most]]
    more = f"{len(rows) - most} more models wait or are done\n" if rows[most:] else ""
    found = Table(caption=more + headline(snapshot), caption_justify="left", box=None, pad_edge=False)
    shown = [
        n
        for n, heading in enumerate(HEADINGS)
        if any(row[n] for row in cells) and (heading not in WIDE_ONLY or width >= WIDE)
    ]
    for number in shown:
        found.add_column(HEADINGS[number], justify="right" if number else "left", no_wrap=True)
    for row in cells:
        found.add_row(*(row[number] for number in shown))
    return found


def lines(snapshot: Snapshot) -> list[str]:
    """The whole in one line, then one for each model that workers stand for, where there are several."""
    active = [row for row in snapshot.rows if row.ready or row.starting]
    each = [sentence(row) for row in active] if len(snapshot.rows) > 1 else []
    return [headline(snapshot), *(f"  {line}" for line in each)]


def status_tables(status: Mapping[str, Any]) -> list[Table | str]:
    """What ``read_status`` found, model by model: as the running driver tells it, else as counted."""
    running, live = status.get("running"), from_json(status.get("live"))
    if running is None or live is None:
        rows = counted(status["cells"])
        done, planned = sum(row.done for row in rows), sum(row.planned for row in rows)
        return [table(Snapshot(0.0, done, planned, 0.0, None, 0, rows))]
    who = f"process {running.get('pid', '?')} on {running.get('host', '?')}"
    return [table(live), f"as {who} told {span(max(0.0, time.time() - live.at))} ago"]


def headline(snapshot: Snapshot) -> str:
    """``1,200 of 3,360 episodes (36%), 410/s, 12 min left``."""
    share = f"{snapshot.done / max(snapshot.planned, 1):.0%}"
    parts = [f"{snapshot.done:,} of {snapshot.planned:,} episodes ({share})"]
    parts += [f"{_rate(snapshot.rate)}/s"] if snapshot.at else []
    parts += [f"{span(snapshot.seconds_left)} left"] if snapshot.seconds_left is not None else []
    return ", ".join(parts)


def sentence(row: Row) -> str:
    """``qwen: 2 ready, 1 starting, 3 GPUs, 256 at once, 5.1/s, 340 in flight, 2,000 waiting, 3 errors, 12 min left``."""
    parts = [f"{row.ready} ready"]
    parts += [f"{row.starting} starting"] if row.starting else []
    parts += [gpus_told(row.gpus)] if row.gpus else []
    parts += [f"{row.at_once:,} at once"] if row.at_once > 1 else []
    parts += [f"{_rate(row.rate)}/s", f"{row.in_flight:,} in flight", f"{row.waiting:,} waiting"]
    parts += [f"{row.paused:,} paused"] if row.paused else []
    parts += [f"{row.cancelled:,} cancelled"] if row.cancelled else []
    parts += [f"{row.errors:,} errors"] if row.errors else []
    parts += [f"{span(row.seconds_left)} left"] if row.seconds_left is not None else []
    return f"{row.name}: {', '.join(parts)}"


def span(seconds: float | None) -> str:
    """A duration in the two units that matter: ``45 s``, ``12 min``, ``5 h 20 min``, ``3 d 4 h``."""
    if seconds is None:
        return ""
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    minutes = round(seconds / 60)
    if minutes < 120:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"


def _cells(row: Row) -> Sequence[str | ProgressBar]:
    """In the order of ``HEADINGS``; empty where there is nothing to say."""
    replicas = f"{row.ready}" + (f" +{row.starting}" if row.starting else "") if row.ready or row.starting else ""
    lost = row.reason and not replicas and row.done < row.planned
    return (
        escape(row.name),
        replicas,
        f"{row.gpus:g}" if row.gpus else "",
        f"{row.at_once:,}" if row.at_once > 1 else "",
        ProgressBar(total=max(row.planned, 1), completed=row.done, width=BAR_COLUMNS),
        f"{row.done:,}/{row.planned:,}",
        _rate(row.rate) if row.rate else "",
        f"{row.waiting:,}" if row.waiting else "",
        f"{row.in_flight:,}" if row.in_flight else "",
        f"{row.errors:,}" if row.errors else "",
        "lost" if lost else _left(row),
    )


def _left(row: Row) -> str:
    if row.in_flight or row.waiting:
        return span(row.seconds_left)
    if row.paused:
        return "paused"
    if row.done + row.cancelled >= row.planned:
        return "cancelled" if row.cancelled else "done"
    return span(row.seconds_left)


def _rate(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 10 or not rate else f"{rate:.2g}"


def _rank(row: Row) -> int:
    """At work, starting, waiting, done."""
    if row.ready or row.starting:
        return 0 if row.ready else 1
    return 3 if row.done >= row.planned else 2
