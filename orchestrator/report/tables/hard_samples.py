"""The hardest samples of each scenario (``measures.sample_accuracy``)."""

from __future__ import annotations

from urllib.parse import quote

import polars as pl

from orchestrator.report.measures.sample_accuracy import hardest_samples, sample_accuracy
from orchestrator.report.run_data import RunData
from orchestrator.report.tables.parts import Row
from orchestrator.report.tables.table import Line, Table, TableCell, columns, line
from orchestrator.report.wording import pluralize

HARDEST = 5
"""Samples of each scenario that are shown."""


def hard_samples_table(run_data: RunData) -> Table:
    """Return the hardest samples of each scenario, over all models and conditions but the reference."""
    rows = hardest_samples(run_data, HARDEST)
    lines = tuple(map(_hard_sample, rows.iter_rows(named=True)))
    title = (
        "hardest samples: right answers over all models and conditions, their percentage (95% interval, answers of one model as "
        "one cluster), and one episode to look at"
    )
    notes = tuple(map(_count_extremes, sample_accuracy(run_data).partition_by("scenario", maintain_order=True)))
    heads = columns("sample", ("right", "percent", "episode"))
    return Table("hard-samples", title, heads, lines, rows, len(lines), notes)


def _hard_sample(row: Row) -> Line:
    cells = (
        TableCell(f"{row['right']} of {row['answers']}", row["right"] / row["answers"]),
        TableCell(f"{row['share']:.1f} ({row['share_low']:.1f} to {row['share_high']:.1f})", row["share"]),
        TableCell(row["example"], link=f"#episode={quote(row['example'])}"),
    )
    return line(f"{row['scenario']} {row['sample_id']:04d}", cells)


def _count_extremes(samples: pl.DataFrame) -> str:
    """Return a sentence on the samples of one scenario that all models answer alike."""
    wrong, right = (int(samples[name].sum()) for name in ("all_wrong", "all_right"))
    return (
        f"{samples['scenario'][0]}: of {pluralize(samples.height, 'sample')}, {wrong:,} have no right answer and {right:,} have "
        "no wrong answer; samples with equal intervals are in the order of their ids"
    )
