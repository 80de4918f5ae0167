"""Tables on asking: what option probabilities say about a model's will to ask and its knowledge of when to ask."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from math import exp

import polars as pl

from envs import in_paper_order
from envs.plural import pluralize
from orchestrator.report.run_data import RunData
from orchestrator.report.tables.parts import Row, average_heading, model_conditions, scenario_cells, signed_cell
from orchestrator.report.tables.table import MISSING, Table, TableCell, columns, format_signed, line
from proactive_operating.decisions import knowledge_table, regret_table
from proactive_operating.figure import operating_figure, value_figure
from proactive_operating.points import exact_and_played, operating_points, operating_values
from proactive_operating.splits import COLUMNS, operating_splits

MOST_UNREADABLE = 20
"""Percent of the probability above which no verdict on willingness is given."""
FEW_CLUSTERS = 30
"""With fewer samples (or clusters) in a scenario, its 95% intervals cover the true value in less than 95% of cases."""
POINTS = {
    "acc": "own point", "greedy_acc": "greedy", "auc": "AUC", "neutral": "neutral b", "position_sd": "order sd",
    "unbiased": "any bias ≤", "well_timed": "timed ≤",
}  # fmt: skip
WITH_PS = {"acc": "ps", "greedy_acc": "greedy_ps"}
VERDICTS = ("auc", "neutral")
"""Measures of the will to ask."""
SHOWN_PRICES = (0.0, 1.0, 2.0, 5.0, 10.0, 20.0)


def operating_tables(run_data: RunData) -> list[Table]:
    """Return the tables of decision maps and operating curves; those without rows are empty."""
    points, values = operating_points(run_data), operating_values(run_data)
    draw, draw_values = partial(operating_figure, points), partial(value_figure, values)
    return [
        replace(operating_table(run_data), figure=draw if values.height else None),
        replace(values_table(run_data), figure=draw_values if values.height else None),
        *splits_tables(run_data), exact_table(run_data), knowledge_table(run_data), regret_table(run_data),
    ]  # fmt: skip


def operating_table(run_data: RunData) -> Table:
    """Return a line per model and condition with the means over scenarios of points, detection, order effects and bounds."""
    title = (
        "unwilling or unable: exact acc % / ps of the model's own probabilities (temperature 1) and of greedy decoding; how well "
        "its odds of asking detect what the models together cannot know; acc by which orders of the options differ; acc at most "
        "with another bias, and with perfect timing"
    )
    rows = operating_points(run_data)
    lines, ranked = [], 0
    for model, condition, part in model_conditions(run_data, rows) if rows.height else ():
        mean = part.filter(pl.col("scenario").is_null()).row(0, named=True)
        heading = f"{model}, {condition} ({average_heading(part['scenario'].drop_nulls().to_list())})"
        lines.append(line(heading, [_mean_cell(mean, measure) for measure in POINTS]))
        ranked += model not in run_data.baselines
    return Table("operating", title, columns("model", POINTS.values()), tuple(lines), rows, ranked, _notes(run_data))


def _mean_cell(row: Row, measure: str) -> TableCell:
    value = row[measure]
    if value is None or (measure in VERDICTS and row["unreadable"] > MOST_UNREADABLE):
        return MISSING
    text = f"{value:.1f} / {row[WITH_PS[measure]]:.2f}" if measure in WITH_PS else _number(measure, value)
    return TableCell(text, _limits(row, measure))


def _number(measure: str, value: float) -> str:
    if measure == "neutral":
        return format_signed(value, 2)
    return f"{value:.3f}" if measure == "auc" else f"{value:.1f}"


def _limits(row: Row, measure: str) -> str:
    """Return the 95% interval of a measure, empty without one."""
    limits = [row.get(f"{measure}{end}") for end in ("_low", "_high")]
    return " to ".join(_number(measure, limit) for limit in limits if limit is not None)


def values_table(run_data: RunData) -> Table:
    """Return accuracy less a price per question, and the price at which asking stops paying, by model and condition."""
    rows = operating_values(run_data)
    means, points = rows.filter(pl.col("scenario").is_null()), operating_points(run_data)
    lines = []
    for model, condition, part in model_conditions(run_data, means):
        by_price = {row["price"]: row for row in part.iter_rows(named=True)}
        shown = [by_price[price] for price in SHOWN_PRICES]
        cells = [TableCell(f"{row['own']:.1f} / {row['best']:.1f}", _limits(row, "own")) for row in shown]
        point = points.filter(pl.col("scenario").is_null(), model=model, condition=condition).row(0, named=True)
        lines.append(line(f"{model}, {condition}", [*cells, _mean_cell(point, "stops_paying")]))
    title = (
        "acc % less a price per question, in points: at the own point / with the will to ask that is best at this price"
    )
    heads = columns("model", [*(f"{price:g}" for price in SHOWN_PRICES), "asking stops paying at"])
    return Table("operating-values", title, heads, tuple(lines), rows)


def _notes(run_data: RunData) -> tuple[str, ...]:
    """Return the sentences on each model, and the warnings about sampled, small and differing cells."""
    rows = operating_points(run_data)
    is_scored = pl.col("exact") | (pl.col("thoughts") > 0)
    scored = rows.filter(pl.col("scenario").is_null(), ~pl.col("model").is_in(list(run_data.baselines)), is_scored)
    notes = [sentence for row in scored.iter_rows(named=True) for sentence in sentences(row)]
    if sampled := rows.filter(~is_scored)["model"].unique().sort().to_list():
        notes.append(
            f"{', '.join(sampled)}: the engine gives no probabilities, so shares of sampled replies estimate the own point alone"
        )
    notes += [
        f"{row['model']} ({row['condition']}) is not exact: its probabilities are means over "
        f"{pluralize(row['thoughts'], 'sampled thought')} per question, which also blur when it asks"
        for row in scored.filter(~pl.col("exact")).iter_rows(named=True)
    ]
    few = rows.filter(pl.col("scenario").is_not_null(), pl.col("clusters") < FEW_CLUSTERS)["scenario"].unique()
    if len(few):
        notes.append(
            f"fewer than {FEW_CLUSTERS} samples, or clusters of them, in {', '.join(in_paper_order(few))}: intervals there hold "
            "the true value less often than in 95% of cases (docs/operating-curves.md)"
        )
    return (*notes, *_difference_notes(run_data))


def _difference_notes(run_data: RunData) -> Iterator[str]:
    """Yield a note per cell whose played values differ from the exact ones, with the share of unreadable replies."""
    for row in exact_and_played(run_data).iter_rows(named=True):
        if any(abs(row[f"exact_{name}"] - row[f"played_{name}"]) > 1e-6 for name in ("acc", "ps")):
            yield (
                f"{row['model']}, {row['scenario']}: played acc {row['played_acc']:.1f} with {row['played_ps']:.2f} suggestions "
                f"differs from the exact {row['exact_acc']:.1f} with {row['exact_ps']:.2f}; replies that name no option have "
                f"{row['unreadable']:.1f}% of the probability"
            )


def sentences(row: Row) -> list[str]:
    """Return up to three sentences on a model: its point, its will to ask, its knowledge of when to ask."""
    name = f"{row['model']} ({row['condition']})"
    point = (
        f"{name} ends right in {row['acc']:.1f}% of episodes [{_limits(row, 'acc') or 'no interval'}] with {row['ps']:.2f} "
        f"suggestions by its own probabilities (chance: {row['chance_acc']:.1f}% with {row['chance_ps']:.2f}); "
        f"{row['answered']:.0f}% end with a category, {row['abstained']:.0f}% with an abstention, {row['limited']:.0f}% at the "
        "turn limit."
    )
    if row["unreadable"] > MOST_UNREADABLE:
        share = f"{row['unreadable']:.0f}% of the probability"
        return [f"{name}: replies that name no option have {share}, so nothing is said of its will to ask.", point]
    if row["neutral"] is None:
        return [point]
    will = (
        f"{name} asks {'too rarely' if row['neutral'] > 0 else 'too readily'}: its odds of asking times "
        f"{exp(row['neutral']):.2g} would be even between what can and cannot be known; any bias at all would gain at most "
        f"{row['unbiased'] - row['acc']:.1f} points."
    )
    knowledge = (
        f"{name}: asking stops paying at a price of {row['stops_paying']:.1f} points a question "
        f"[{_limits(row, 'stops_paying') or 'no interval'}]; perfect timing of its questions would bring acc to "
        f"{row['well_timed']:.1f}% at most; the rest is what it does not recognize."
    )
    return [point, will, knowledge]


def splits_tables(run_data: RunData) -> list[Table]:
    """Return the splits of pairs of models or conditions, and those that say what asked-for pictures are worth."""
    rows = operating_splits(run_data)
    titles = {
        "operating-splits": "points of acc by which two models differ, split by swapping one part of the policy at a time",
        "operating-pictures": "points of acc that asked-for pictures are worth: later pictures blank, then as they are",
    }
    notes = ("willingness: mean odds of asking; timing: where and what it asks; shares are Shapley values and add up",)
    tables = []
    for is_picture, (name, title) in enumerate(titles.items()):
        part = rows.filter(picture=bool(is_picture))
        lines = [
            line(f"{row['before']} → {row['after']}", [signed_cell(row, column) for column in COLUMNS])
            for row in part.filter(pl.col("scenario").is_null()).iter_rows(named=True)
        ]
        tables.append(Table(name, title, columns("models", COLUMNS), tuple(lines), part, notes=notes))
    return tables


def exact_table(run_data: RunData) -> Table:
    """Return the exact values beside the played ones."""
    rows = exact_and_played(run_data)
    scenarios, lines = in_paper_order(rows["scenario"]), []
    for model, condition, part in model_conditions(run_data, rows):
        lines.append(line(f"{model}, {condition}", scenario_cells(part, scenarios, _exact_cell)))
    title = "exact / played acc %; exact / played ps, for greedy decoding and the published order of options"
    return Table("operating-played", title, columns("model", scenarios), tuple(lines), rows)


def _exact_cell(row: Row) -> TableCell:
    return TableCell(
        f"{row['exact_acc']:.1f} / {row['played_acc']:.1f}; {row['exact_ps']:.2f} / {row['played_ps']:.2f}"
    )
