"""Renders a snapshot as a table for terminals and as lines elsewhere, with the same content."""

import time
from collections.abc import Mapping
from typing import Any

from orchestrator.monitoring.snapshot import GroupRow, Snapshot, count_by_model, parse_snapshot
from orchestrator.report.tables.table import Table, drop_empty_columns, text_table


def table(snapshot: Snapshot, max_rows: int = 100) -> list[Table | str]:
    """Return a table with a row per model (playing, starting, waiting, done), without empty columns; and the headline."""
    rows = sorted(snapshot.rows, key=lambda row: (not row.ready, not row.starting, row.done >= row.planned))
    cells = [format_row(row) for row in rows[:max_rows]]
    headings = list(format_row(GroupRow("")))
    hidden = [f"{len(rows) - max_rows} more models are waiting or done"] if rows[max_rows:] else []
    models = text_table(headings, (row.values() for row in cells), numbers=len(headings) - 1)
    return [drop_empty_columns(models), *hidden, headline(snapshot)]


def lines(snapshot: Snapshot) -> list[str]:
    """Return one line for the sweep and, if it has several models, one for each model that has workers or waits for GPUs."""
    active = [row for row in snapshot.rows if row.ready or row.starting or row.waits]
    details = [sentence(row) for row in active if len(snapshot.rows) > 1 or row.waits]
    return [headline(snapshot), *(f"  {line}" for line in details)]


def status_tables(status: Mapping[str, Any]) -> list[Table | str]:
    """Return the table for a result of ``read_status``: the running driver's snapshot, or stored counts without a driver."""
    running, live = status.get("running"), parse_snapshot(status.get("live"))
    if running is None or live is None:
        return table(count_by_model(status["cells"]))
    driver = f"process {running.get('pid', '?')} on {running.get('host', '?')}"
    return [*table(live), f"reported by {driver} {format_duration(max(0.0, time.time() - live.at))} ago"]


def headline(snapshot: Snapshot) -> str:
    """Return ``1,200 of 3,360 episodes (35%), 410/s, 12 min left``, and how many GPUs other jobs hold."""
    percent = 100 * snapshot.done // max(snapshot.planned, 1)  # rounded down: 100% is the end
    parts = [f"{snapshot.done:,} of {snapshot.planned:,} episodes ({percent}%)"]
    parts += [format_rate(snapshot.rate)] if snapshot.at else []
    parts += [f"{format_duration(snapshot.seconds_left)} left"] if snapshot.seconds_left is not None else []
    parts += [f"{snapshot.held} of {snapshot.gpus} GPUs are held by others"] if snapshot.held else []
    return ", ".join(parts)


def sentence(row: GroupRow) -> str:
    """Return ``qwen: replicas 2 +1, GPUs 3, episodes 340/2,000, 5.1/s, waiting 1,400, playing 256, left 12 min``."""
    if row.waits:
        return f"{row.name}: {row.waits}"
    texts = [(heading, text) for heading, text in format_row(row).items() if text]
    parts = (f"{text}/s" if heading == "/s" else f"{heading} {text}" for heading, text in texts[1:])
    return f"{row.name}: {', '.join(parts)}"


def format_duration(seconds: float | None) -> str:
    """Return a duration in at most two units: ``45 s``, ``12 min``, ``5 h 20 min``, ``3 d 4 h``."""
    if seconds is None:
        return ""
    rounded = round(seconds)
    if rounded < 120:
        return f"{rounded} s"
    minutes = round(seconds / 60)
    if minutes < 120:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"


def format_row(row: GroupRow) -> dict[str, str]:
    """Return heading -> text, "" for a zero or an unknown number."""
    counts = {"waiting": row.waiting, "playing": row.in_flight, "paused": row.paused, "errors": row.errors}
    return {
        "model": row.name,
        "replicas": f"{row.ready} +{row.starting}" if row.starting else f"{row.ready or ''}",
        "GPUs": f"{row.gpus:g}" if row.gpus else "",
        "episodes": f"{row.done:,}/{row.planned:,}",
        "/s": _rate(row.rate) if row.rate else "",
        **{heading: f"{count:,}" if count else "" for heading, count in counts.items()},
        "left": _left(row),
    }


def _left(row: GroupRow) -> str:
    if row.waits:
        return row.waits
    if row.reason and not row.ready and not row.starting and row.done < row.planned:
        return "lost"
    if not row.in_flight and not row.waiting:
        if row.paused:
            return "paused"
        if row.done + row.cancelled >= row.planned:
            return "cancelled" if row.cancelled else "done"
    return format_duration(row.seconds_left)


def format_rate(rate: float) -> str:
    """Return episodes per second, per minute below 1/s: ``410/s``, ``5.1/s``, ``10/min``."""
    return f"{_rate(60 * rate)}/min" if 0 < rate < 1 else f"{_rate(rate)}/s"


def _rate(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 10 or not rate else f"{rate:.2g}"
