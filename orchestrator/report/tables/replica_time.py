"""The table of what replicas did with the GPUs that they held."""

from __future__ import annotations

import polars as pl

from orchestrator.report.run_data import RunData
from orchestrator.report.tables.table import Column, Line, Table, TableCell, line
from orchestrator.storage.replica_time import HELD, ReplicaTime, describe, time_by_group, weigh

COLUMNS = (
    Column("model or judge", number=False),
    Column("GPUs", "of one replica"),
    Column("held", "hours of all replicas, over all attempts"),
    *(Column(f"{part} %", "share of the held time") for part in HELD),
    Column("waiting", "hours in which replicas waited in Ray for a place and a process; not in held"),
)
SCHEMA = {"group": pl.String, "gpus": pl.Float64, **dict.fromkeys(("waiting", *HELD), pl.Float64)}


def replica_time_table(run_data: RunData) -> Table:
    """Return a line per model or judge whose replicas held anything; numbers in seconds of replicas."""
    times = {name: time for name, time in sorted(time_by_group(run_data.folder).items()) if time.held}
    rows = [(name, time.gpus, time.waiting, *(getattr(time, part) for part in HELD)) for name, time in times.items()]
    numbers = pl.DataFrame(rows, schema=SCHEMA, orient="row")
    lines = tuple(_time_line(name, time) for name, time in times.items())
    return Table("replica-time", "".join(describe(run_data.folder)), COLUMNS, lines, numbers)


def _time_line(name: str, time: ReplicaTime) -> Line:
    hours = weigh([time])[1]
    shares = (TableCell(f"{100 * getattr(time, part) / time.held:.0f}", getattr(time, part)) for part in HELD)
    total = sum(hours[part] for part in HELD)
    cells = (TableCell(f"{time.gpus:g}", time.gpus), TableCell(f"{total:,.2f}", total), *shares)
    return line(name, (*cells, TableCell(f"{hours['waiting']:,.2f}", hours["waiting"])))
