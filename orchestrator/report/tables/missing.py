"""The table of missing and unreadable replies: how far they could move the figures."""

from collections.abc import Iterable

import polars as pl

from envs.plural import pluralize
from envs.reply_kinds import KINDS
from orchestrator.report.measures.lenient import READINGS, leniency
from orchestrator.report.measures.mean_bounds import average_bounds
from orchestrator.report.measures.missingness import missing_bounds
from orchestrator.report.measures.reply_kinds import SAME_LETTER, reply_kinds
from orchestrator.report.paper.published import AVERAGE
from orchestrator.report.run_data import RunData
from orchestrator.report.tables.parts import Row, by_column, format_range, order_models
from orchestrator.report.tables.table import MISSING, Column, Line, Table, TableCell
from orchestrator.report.wording import format_signed
from sweeps.protocol import ZERO_SHOT

MOST_ROWS = 40
"""Number of rows shown; ``missing.csv`` has all."""


def missing_table(run_data: RunData) -> Table:
    """Return the bounds of accuracy where more than 1% is missing, and accuracy under another reading of unreadable replies."""
    numbers = missing_bounds(run_data)
    rows = numbers.filter(measure="acc").sort(
        pl.col("scenario") != AVERAGE, -pl.col("missing") / pl.col("n"), "model", maintain_order=True
    )
    lines = [_bounds_line(row) for row in rows.head(MOST_ROWS).iter_rows(named=True)]
    notes = [f"{pluralize(rows.height - MOST_ROWS, 'more row')} in missing.csv"] if rows.height > MOST_ROWS else []
    lines += _reading_lines(run_data)
    heads = (
        Column("model", number=False),
        Column("scenario", number=False),
        Column("what", "whose figures vary", number=False),
        Column("episodes", "missing, cut short by a limit, or unreadable"),
        Column("shown", "accuracy or change of accuracy, as in the other tables"),
        Column("least to most", "in brackets the 95% intervals of both"),
    )
    notes += _kind_notes(run_data)
    return Table("missing", "Missing and unreadable replies", heads, tuple(lines), numbers, notes=tuple(notes))


def _bounds_line(row: Row) -> Line:
    def text(value: float | None) -> str:
        return "-" if value is None else format_signed(value) if row["against"] else f"{value:.1f}"

    what = f"missing, against {row['against']}" if row["against"] else "missing"
    share = 100 * row["missing"] / row["n"]
    return (
        TableCell(f"{row['model']}, {row['condition']}"),
        TableCell(row["scenario"]),
        TableCell(what),
        TableCell(f"{row['missing']:,} of {row['n']:,}", share, f"{share:.1f}%"),
        TableCell(text(row["value"]), row["value"]),
        TableCell(
            f"{text(row['least'])} to {text(row['most'])}",
            row["least"],
            f"{text(row['least_low'])} to {text(row['most_high'])}",
        ),
    )


def _reading_lines(run_data: RunData) -> Iterable[Line]:
    """Yield a line per model with unreadable replies: zero-shot accuracy if a tolerant rule reads them."""
    numbers = run_data.models_or_baselines(leniency(run_data).filter(condition=ZERO_SHOT, protocol="mcqa"))
    means = by_column(average_bounds(numbers, ["model"], READINGS), "model")
    for model in order_models(numbers.filter(pl.col("unparsable") > 0)["model"], run_data.baselines):
        part, mean = numbers.filter(model=model), means[model]
        disagree = int(part["disagrees"].sum())
        what = "unreadable, read leniently" + (f"; {disagree:,} disagree with themselves" if disagree else "")
        unknown = part["acc_lenient"].null_count() > 0
        reading = f"{mean['acc_lenient'] or 0:.1f} to {mean['acc_lenient_most'] or 0:.1f}"
        yield (
            TableCell(f"{model}, {ZERO_SHOT}"),
            TableCell(AVERAGE),
            TableCell(what),
            TableCell(f"{int(part['unparsable'].sum()):,} of {int(part['scored'].sum()):,}"),
            TableCell(f"{mean['acc']:.1f}", mean["acc"], format_range(mean, "acc")),
            MISSING if unknown else TableCell(reading, mean["acc_lenient"]),
        )


def _kind_notes(run_data: RunData) -> Iterable[str]:
    """Yield one sentence per model with replies that the benchmark's reading hides, such as a repeated option list."""
    rows = reply_kinds(run_data)
    for (model,), part in rows.group_by(["model"], maintain_order=True) if rows.height else ():
        shares = {
            text: float((part[kind] * part["replies"]).sum()) / int(part["replies"].sum())
            for kind, text in (KINDS | {SAME_LETTER: "always the same letter"}).items()
        }
        named = [f"{share:.1f}% {text}" for text, share in shares.items() if share >= 1]
        if named:
            yield f"{model}, of all replies: {', '.join(named)}"
