"""Tables on asking: what option probabilities say about a model's will to ask and its knowledge of when to ask."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

import numpy as np
import polars as pl

from envs import in_paper_order
from envs.plural import pluralize
from orchestrator.report.run_data import RunData
from orchestrator.report.tables.parts import Row, average_heading, model_conditions, scenario_cells
from orchestrator.report.tables.table import MISSING, Table, TableCell, columns, line
from orchestrator.report.wording import format_signed
from proactive_operating.decisions import knowledge_table, regret_table
from proactive_operating.figure import operating_figure
from proactive_operating.played import exact_and_played
from proactive_operating.points import operating_curves, operating_points
from proactive_operating.splits import COLUMNS, operating_splits

SURPRISING_Z = 3.0
"""Distance of played acc or ps from the exact one, in standard deviations, that the report warns of."""
NORMAL_95 = 1.96
MOST_UNREADABLE = 20
"""Percent of the probability above which no verdict on willingness is given."""
FEW_CLUSTERS = 30
"""With fewer samples (or clusters) in a scenario, its 95% intervals cover the true value in less than 95% of cases."""
POINTS = {
    "acc": "own point", "greedy_acc": "greedy", "auc_own": "AUC, own map", "auc_others": "AUC, others' map",
    "neutral_own": "neutral b", "position_sd": "order sd", "position_effect": "published order",
}  # fmt: skip
CHAIN = {
    "acc": "own point", "unbiased": "any bias ≤", "persistent": "never giving up ≤", "well_timed": "timed ≤",
    "right_suggestion": "right suggestion ≤", "recognition": "recognition ≤", "worth": "a question pays up to",
}  # fmt: skip
WITH_PS = {"acc": "ps", "greedy_acc": "greedy_ps"}
SIGNED = ("neutral_own", "position_effect")


def operating_tables(run_data: RunData) -> list[Table]:
    """Return the tables of decision maps and operating curves; those without rows are empty."""
    curves, points = operating_curves(run_data), operating_points(run_data)
    draw = partial(operating_figure, curves, points)
    return [
        replace(operating_table(run_data), figure=draw if curves.height else None),
        bounds_table(run_data), splits_table(run_data), exact_table(run_data),
        knowledge_table(run_data), regret_table(run_data),
    ]  # fmt: skip


def operating_table(run_data: RunData) -> Table:
    """Return a line per model and condition with the means over scenarios of exact points, detection and position bias."""
    title = (
        "unwilling or unable: exact acc % / ps of the model's own probabilities (temperature 1) and of greedy decoding; how well "
        "its odds of asking detect what cannot be known; points of acc by which orders of the options differ"
    )
    return _means_table(run_data, "operating", title, POINTS, _notes(run_data))


def bounds_table(run_data: RunData) -> Table:
    """Return a line per model and condition with the chain of upper bounds on accuracy."""
    title = "what would raise acc %, at most: each column removes one weakness more, from the model's own point on"
    return _means_table(run_data, "operating-bounds", title, CHAIN)


def _means_table(
    run_data: RunData, name: str, title: str, heads: Mapping[str, str], notes: tuple[str, ...] = ()
) -> Table:
    rows = operating_points(run_data)
    lines, ranked = [], 0
    for model, condition, part in model_conditions(run_data, rows) if rows.height else ():
        mean = part.filter(pl.col("scenario").is_null()).row(0, named=True)
        heading = f"{model}, {condition} ({average_heading(part['scenario'].drop_nulls().to_list())})"
        lines.append(line(heading, [_mean_cell(mean, measure) for measure in heads]))
        ranked += model not in run_data.baselines
    return Table(name, title, columns("model", heads.values()), tuple(lines), rows, ranked, notes)


def _mean_cell(row: Row, measure: str) -> TableCell:
    value = row[measure]
    if value is None:
        return MISSING
    text = f"{value:.1f} / {row[WITH_PS[measure]]:.2f}" if measure in WITH_PS else _number(measure, value)
    return TableCell(text, value, _limits(row, measure))


def _number(measure: str, value: float) -> str:
    if measure in SIGNED:
        return format_signed(value, 2 if measure.startswith("neutral") else 1)
    return f"{value:.3f}" if measure.startswith("auc") else f"{value:.1f}"


def _limits(row: Row, measure: str) -> str:
    """Return the 95% interval of a measure, empty without one."""
    limits = [row.get(f"{measure}{end}") for end in ("_low", "_high")]
    return " to ".join(_number(measure, limit) for limit in limits if limit is not None)


def _notes(run_data: RunData) -> tuple[str, ...]:
    """Return three sentences per model, and the warnings about sampled, small and differing cells."""
    rows = operating_points(run_data)
    means = rows.filter(pl.col("scenario").is_null(), ~pl.col("model").is_in(list(run_data.baselines)))
    scored = means.filter(_scored())
    notes = [sentence for row in scored.iter_rows(named=True) for sentence in sentences(row)]
    return (*notes, *_sampling_notes(rows, scored), *_small_notes(rows), *_difference_notes(run_data))


def _scored() -> pl.Expr:
    """Return an expression for rows whose probabilities an engine computed."""
    return pl.col("exact") | (pl.col("thoughts") > 0)


def _sampling_notes(rows: pl.DataFrame, scored: pl.DataFrame) -> Iterator[str]:
    """Yield notes on the models whose replies or thoughts were sampled."""
    if sampled := rows.filter(~_scored())["model"].unique().sort().to_list():
        yield (
            f"{', '.join(sampled)}: the engine gives no probabilities, so shares of sampled replies estimate the own point alone"
        )
    for row in scored.filter(~pl.col("exact")).iter_rows(named=True):
        yield (
            f"{row['model']} ({row['condition']}) is not exact: its probabilities are means over "
            f"{pluralize(row['thoughts'], 'sampled thought')} per question, which also blur when it asks"
        )


def _small_notes(rows: pl.DataFrame) -> Iterator[str]:
    """Yield a note on the scenarios whose intervals are too narrow."""
    few = rows.filter(pl.col("scenario").is_not_null(), pl.col("clusters") < FEW_CLUSTERS)["scenario"].unique()
    if len(few):
        yield (
            f"fewer than {FEW_CLUSTERS} samples, or clusters of them, in {', '.join(in_paper_order(few))}: intervals there hold "
            "the true value less often than in 95% of cases (docs/operating-curves.md)"
        )


def _difference_notes(run_data: RunData) -> Iterator[str]:
    """Yield a note per cell whose played values differ from the exact ones, with the share of unreadable replies."""
    for row in filter(_differs, exact_and_played(run_data).iter_rows(named=True)):
        yield (
            f"{row['model']}, {row['scenario']}: played acc {row['played_acc']:.1f} with {row['played_ps']:.2f} suggestions "
            f"differs from the exact {row['exact_acc']:.1f} with {row['exact_ps']:.2f}; replies that name no option have "
            f"{row['unreadable']:.1f}% of the probability"
        )


def _differs(row: Row) -> bool:
    """Return True if played values differ from exact ones by more than chance allows; greedy decoding allows nothing."""
    if row["point"] == "greedy":
        return any(abs(row[f"exact_{name}"] - row[f"played_{name}"]) > 1e-6 for name in ("acc", "ps"))
    return any(abs(row[name] or 0.0) > SURPRISING_Z for name in ("z", "z_ps"))


def sentences(row: Row) -> list[str]:
    """Return three sentences on a model: its point, its will to ask, its knowledge of when to ask."""
    name = f"{row['model']} ({row['condition']})"
    point = (
        f"{name} ends right in {row['acc']:.1f}% of episodes [{_bounds(row, 'acc')}] with {row['ps']:.2f} suggestions by its own "
        f"probabilities (chance: {row['chance_acc']:.1f}% with {row['chance_ps']:.2f}); {row['answered']:.0f}% end with a "
        f"category, {row['abstained']:.0f}% with an abstention, {row['limited']:.0f}% at the turn limit."
    )
    if row["unreadable"] > MOST_UNREADABLE:
        share = f"{row['unreadable']:.0f}% of the probability"
        first = f"{name}: replies that name no option have {share}, so nothing is said of its will to ask."
        return [first, point]
    if row["neutral_own"] is None:
        return [point]
    direction = "too rarely" if row["neutral_own"] > 0 else "too readily"
    will = (
        f"{name} asks {direction}: its odds of asking times {_factor(row['neutral_own'])} would be even between what it can and "
        f"cannot know; any bias at all would gain at most {row['unbiased'] - row['acc']:.1f} points."
    )
    knowledge = (
        f"{name}: asking stops paying at a price of {row['worth']:.1f} points a question; perfect timing of its questions would "
        f"bring acc to {row['well_timed']:.1f}% at most, the right suggestions to {row['right_suggestion']:.1f}%; the rest is "
        f"what it does not recognize."
    )
    return [point, will, knowledge]


def _bounds(row: Row, measure: str) -> str:
    """Return the interval for a sentence, ``no interval`` without one."""
    return _limits(row, measure) or "no interval"


def _factor(bias: float) -> str:
    factor = float(2.718281828459045**bias)
    return f"{factor:.2g}" if factor < 1000 else f"{factor:.0e}"


def splits_table(run_data: RunData) -> Table:
    """Return a line per pair of models or conditions: the difference of the means over scenarios, and its parts."""
    rows = operating_splits(run_data)
    lines = [
        line(f"{row['before']} → {row['after']}", [_split_cell(row, part) for part in COLUMNS])
        for row in rows.filter(pl.col("scenario").is_null()).iter_rows(named=True)
    ]
    title = "points of acc by which two models differ, split by swapping one part of the policy at a time"
    notes = ("willingness: mean odds of asking; timing: where and what it asks; shares are Shapley values and add up",)
    return Table("operating-splits", title, columns("models", COLUMNS), tuple(lines), rows, notes=notes)


def _split_cell(row: Row, part: str) -> TableCell:
    if row[part] is None:
        return MISSING
    limits = [row[f"{part}{end}"] for end in ("_low", "_high")]
    note = "" if None in limits else " to ".join(map(format_signed, limits))
    return TableCell(format_signed(row[part]), row[part], note)


def exact_table(run_data: RunData) -> Table:
    """Return the exact values beside the played ones."""
    rows = exact_and_played(run_data)
    scenarios, lines = in_paper_order(rows["scenario"]), []
    for model, condition, part in model_conditions(run_data, rows):
        lines.append(line(f"{model}, {condition}", scenario_cells(part, scenarios, _exact_cell)))
    title = (
        "exact / played acc %; exact / played ps, for the published order of options and the decoding that was played"
    )
    return Table("operating-played", title, columns("model", scenarios), tuple(lines), rows, notes=_spread_notes(rows))


def _spread_notes(rows: pl.DataFrame) -> tuple[str, ...]:
    """Return a note on the distances of sampled values from exact ones; none if nothing was sampled."""
    z = rows["z"].drop_nulls()
    if z.is_empty():
        return ()
    inside = 100 * float(np.mean(np.abs(z.to_numpy()) < NORMAL_95))
    rms = float(np.sqrt(np.mean(z.to_numpy() ** 2)))
    return (
        f"z of acc in {pluralize(len(z), 'cell')}: root mean square {rms:.2f} (1 is expected), {inside:.0f}% within 1.96",
    )


def _exact_cell(row: Row) -> TableCell:
    text = f"{row['exact_acc']:.1f} / {row['played_acc']:.1f}; {row['exact_ps']:.2f} / {row['played_ps']:.2f}"
    z = [format_signed(row[name], 1) for name in ("z", "z_ps") if row[name] is not None]
    return TableCell(text, row["exact_acc"], f"z {'; '.join(z)}" if z else "")
