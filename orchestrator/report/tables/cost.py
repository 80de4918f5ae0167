"""The table of what each model took and received: tokens, money, GPU time, and the certificate of its input."""

import polars as pl

from orchestrator.report.measures.resources import resources
from orchestrator.report.run_data import RunData
from orchestrator.report.tables.model_input import certificate_rows
from orchestrator.report.tables.parts import by_column
from orchestrator.report.tables.table import MISSING, Column, Line, Table, TableCell, line
from orchestrator.storage.replica_time import HELD, time_by_group


def cost_table(run_data: RunData) -> Table:
    """Return what each model took, and what it received: tokens, money, GPU time and its certificate."""
    numbers = resources(run_data)
    sums = numbers.group_by("model").agg(
        pl.col("played", "reused", "prompt_tokens", "reply_tokens", "cost").sum(),
        *(pl.when(pl.col(name).count() > 0).then(pl.col(name).sum()).alias(name) for name in ("gpu_hours", "kwh")),
    )
    times, lines = time_by_group(run_data.folder), list[Line]()
    inputs = by_column(certificate_rows(run_data), "model")
    for row in sums.filter(pl.col("prompt_tokens") + pl.col("reply_tokens") > 0).sort("model").iter_rows(named=True):
        held = [getattr(times[row["model"]], part) for part in HELD] if row["model"] in times else []
        busy = f"{100 * held[HELD.index('playing')] / sum(held):.0f}%" if sum(held) else "-"
        certificate = inputs.get(row["model"])
        lines.append(
            line(
                row["model"],
                [
                    TableCell(f"{row['played']:,}", row["played"]),
                    TableCell(f"{row['prompt_tokens'] + row['reply_tokens']:,}"),
                    TableCell(f"{row['cost']:,.4f}", row["cost"]) if row["cost"] else MISSING,
                    *(TableCell(f"{row[name]:,.3f}") if row[name] else MISSING for name in ("gpu_hours", "kwh")),
                    TableCell(busy),
                    MISSING if certificate is None else TableCell(certificate["certificate"]),
                ],
            )
        )
    heads = (
        Column("model", number=False),
        Column("played", "episodes that were played here; those taken over from other runs cost nothing"),
        Column("tokens", "prompts and replies, as the engine counts them"),
        Column("cost", "paid to the service, in the currency of its prices"),
        Column("GPU-hours", "time in which replicas played, times their GPUs; loading is not included"),
        Column("kWh", "of the cluster's GPUs by the drivers' power readings, shared by GPU-hours"),
        Column("playing", "share of the time that its replicas held in which they played"),
        Column("input", "whether the model's input is certified to equal the package's", number=False),
    )
    return Table("cost", "Cost, time and model input", heads, tuple(lines), numbers)
