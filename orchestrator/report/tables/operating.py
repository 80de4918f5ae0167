"""Tables on asking: what option probabilities say about a model's will to ask and its knowledge of when to ask."""

from __future__ import annotations

import polars as pl

from envs import in_paper_order
from orchestrator.report.measures.operating_differences import explain_difference
from orchestrator.report.measures.operating_points import BOUNDS, exact_and_played, operating_points, operating_splits
from orchestrator.report.run_data import RunData
from orchestrator.report.tables.parts import Row, average_heading, by_column, model_conditions
from orchestrator.report.tables.table import MISSING, Table, TableCell, columns, line
from orchestrator.report.wording import format_signed, pluralize

SURPRISING_Z = 3.0
"""Distance of a played accuracy from the exact one, in standard deviations, that the report warns of."""
HEADS = {
    "acc": "own point", "greedy": "greedy", "unbiased": "any bias ≤", "persistent": "never giving up ≤",
    "well_timed": "timed ≤", "right_suggestion": "right suggestion ≤", "recognition": "recognition ≤", "position_sd": "order sd",
    "auc_own": "AUC, own map", "auc_others": "AUC, others' map", "neutral_own": "neutral b",
}  # fmt: skip


def operating_table(run_data: RunData) -> Table:
    """Return a line per model and condition with the means over scenarios of exact points, bounds and detection."""
    rows = operating_points(run_data)
    lines, ranked = [], 0
    for model, condition, part in model_conditions(run_data, rows) if rows.height else ():
        scenarios = in_paper_order(part["scenario"])
        heading = f"{model}, {condition} ({average_heading(scenarios)})"
        means = part.select(pl.col(pl.Float64).mean()).row(0, named=True)
        lines.append(line(heading, _cells(means, bool(part["exact"].all()))))
        ranked += model not in run_data.baselines
    title = (
        "unwilling or unable: exact acc % / ps of the model's own probabilities (temperature 1) and of greedy decoding; upper "
        "bounds on acc, each with one weakness less; how well its odds of asking detect what cannot be known"
    )
    return Table(
        "operating", title, columns("model", HEADS.values()), tuple(lines), rows, ranked, _notes(run_data, rows)
    )


def _cells(means: Row, exact: bool) -> list[TableCell]:
    greedy = None if means["greedy_acc"] is None or not exact else (means["greedy_acc"], means["greedy_ps"])
    cells = [
        TableCell(f"{means['acc']:.1f} / {means['ps']:.2f}", means["acc"]),
        MISSING if greedy is None else TableCell(f"{greedy[0]:.1f} / {greedy[1]:.2f}", greedy[0]),
        *(_number(means[name], 1) for name in (*BOUNDS, "position_sd")),
        *(_number(means[name], 3) for name in ("auc_own", "auc_others")),
    ]
    neutral = means["neutral_own"]
    return [*cells, MISSING if neutral is None else TableCell(format_signed(neutral, 2), neutral)]


def _number(value: float | None, digits: int) -> TableCell:
    return MISSING if value is None else TableCell(f"{value:.{digits}f}", value)


def _notes(run_data: RunData, rows: pl.DataFrame) -> tuple[str, ...]:
    """Return three sentences per model, and the warnings about sampled and differing cells."""
    notes = [sentence for row in _mean_rows(run_data, rows) for sentence in sentences(row)]
    sampled = rows.filter(~pl.col("exact"))["model"].unique().sort().to_list() if rows.height else []
    if sampled:
        notes.append(
            f"{', '.join(sampled)}: the engine gives no probabilities, so shares of sampled replies estimate the own point alone"
        )
    for row in exact_and_played(run_data).iter_rows(named=True):
        far = abs(row["z"]) > SURPRISING_Z if row["z"] is not None else abs(row["exact_acc"] - row["played_acc"]) > 1e-6
        if far:
            kinds = explain_difference(run_data, row["model"], row["scenario"], row["condition"])
            notes.append(
                f"{row['model']}, {row['scenario']}: played acc {row['played_acc']:.1f} differs from the exact "
                f"{row['exact_acc']:.1f}; replies that name no option have {row['unreadable']:.1f}% of the probability; {kinds}"
            )
    return tuple(notes)


def _mean_rows(run_data: RunData, rows: pl.DataFrame) -> list[Row]:
    exact = rows.filter("exact") if rows.height else rows
    models = [] if exact.is_empty() else list(model_conditions(run_data, exact))
    return [
        {"model": model, "condition": condition, **part.select(pl.col(pl.Float64).mean()).row(0, named=True)}
        for model, condition, part in models
        if model not in run_data.baselines
    ]


def sentences(row: Row) -> list[str]:
    """Return three sentences on a model: its point, its will to ask, its knowledge of when to ask."""
    name = f"{row['model']} ({row['condition']})"
    gain = row["unbiased"] - row["acc"]
    point = (
        f"{name} ends right in {row['acc']:.1f}% of episodes with {row['ps']:.2f} suggestions by its own probabilities; "
        f"chance is {row['chance_acc']:.1f}% with {row['chance_ps']:.2f}."
    )
    if row["neutral_own"] is None:
        return [point]
    way = "too rarely" if row["neutral_own"] > 0 else "too readily"
    will = (
        f"{name} asks {way}: its odds of asking times {_factor(row['neutral_own'])} would be even between what it can and "
        f"cannot know; any bias at all would gain at most {gain:.1f} points."
    )
    knowledge = (
        f"{name} has higher odds of asking where it cannot know than where it can in {100 * row['auc_own']:.0f}% of pairs (50% "
        f"is blind); perfect timing of its questions would bring acc to {row['well_timed']:.1f}% at most, the right suggestions "
        f"to {row['right_suggestion']:.1f}%; the rest is what it does not recognize."
    )
    return [point, will, knowledge]


def _factor(bias: float) -> str:
    factor = float(2.718281828459045**bias)
    return f"{factor:.2g}" if factor < 1000 else f"{factor:.0e}"


def splits_table(run_data: RunData) -> Table:
    """Return how much of each difference between two models is asking more and how much asking better."""
    return splits_table_of(operating_splits(run_data), "operating-splits")


def splits_table_of(rows: pl.DataFrame, table_name: str) -> Table:
    """Return rows of splits (``SPLIT_SCHEMA``) as a table, a line per pair and family."""
    scenarios, lines = in_paper_order(rows["scenario"].drop_nulls()), []
    for (before, after, family), part in rows.group_by(["before", "after", "family"], maintain_order=True):
        cells = by_column(part.filter(pl.col("scenario").is_not_null()))
        mean = part.filter(pl.col("scenario").is_null()).row(0, named=True)
        shown = [_split_cell(cells[name]) if name in cells else MISSING for name in scenarios]
        label = f"{before} → {after}{', never giving up' if family == 'persistent' else ''}"
        lines.append(line(label, [*shown, _split_cell(mean, len(part) - 1)]))
    title = (
        "asking more / asking better: points of accuracy from moving along a curve, and from moving to another at equal "
        "numbers of suggestions; 95% intervals by paired bootstrap over samples, or their clusters where these count"
    )
    heads = columns("models", [*scenarios, f"mean of {pluralize(len(scenarios), 'scenario')}"])
    return Table(table_name, title, heads, tuple(lines), rows)


def _split_cell(row: Row, planned: int = 1) -> TableCell:
    if row["more"] is None:
        return TableCell("no overlap")
    text = " / ".join(format_signed(row[part]) for part in ("more", "better"))
    limits = "; ".join(interval_text(row, part) for part in ("more", "better"))
    few = "" if row["scenarios"] == planned else f" ({row['scenarios']} of {planned})"
    return TableCell(f"{text}{few}", row["better"], limits)


def interval_text(row: Row, part: str) -> str:
    """Return the limits of a part of a split, ``-`` without an interval."""
    if row[f"{part}_low"] is None:
        return "-"
    return f"{format_signed(row[f'{part}_low'])} to {format_signed(row[f'{part}_high'])}"


def exact_table(run_data: RunData) -> Table:
    """Return the exact values beside the played ones."""
    rows = exact_and_played(run_data)
    scenarios, lines = in_paper_order(rows["scenario"]), []
    for model, condition, part in model_conditions(run_data, rows):
        cells = by_column(part)
        lines.append(
            line(f"{model}, {condition}", [_exact_cell(cells[n]) if n in cells else MISSING for n in scenarios])
        )
    title = (
        "exact / played acc %; exact / played ps, for the published order of options and the decoding that was played"
    )
    return Table("operating-played", title, columns("model", scenarios), tuple(lines), rows)


def _exact_cell(row: Row) -> TableCell:
    text = f"{row['exact_acc']:.1f} / {row['played_acc']:.1f}; {row['exact_ps']:.2f} / {row['played_ps']:.2f}"
    return TableCell(text, row["exact_acc"], "" if row["z"] is None else f"z {format_signed(row['z'], 1)}")
