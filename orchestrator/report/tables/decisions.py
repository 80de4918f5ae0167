"""The decision map as tables: the pictures that a model knows, and whether its questions and answers agree with them."""

from collections.abc import Callable, Sequence

import polars as pl

from envs import in_paper_order
from orchestrator.report.measures.decision_map import (
    DECISION_COLUMNS,
    KNOWLEDGE_COLUMNS,
    MAP_COLUMN,
    decisions,
    decisions_by_cell,
)
from orchestrator.report.measures.estimates import suggestion_limits
from orchestrator.report.measures.mean_bounds import Range, add_bounds, average_bounds
from orchestrator.report.run_data import RunData
from orchestrator.report.tables.parts import Row, average_heading, format_range, model_conditions, scenario_cells
from orchestrator.report.tables.table import Table, TableCell, columns, line


def knowledge_table(run_data: RunData) -> Table:
    """Return the share of samples that each model knows at the first picture and at any, and the moves to the nearest."""
    title = (
        "decision map: percent of samples whose category the model names at the first picture / at any reachable picture (with "
        "its interval); mean moves to the nearest such picture (over samples that have one)"
    )
    return _table(run_data, "decision-map", title, KNOWLEDGE_COLUMNS, _knowledge, "{model}")


def regret_table(run_data: RunData) -> Table:
    """Return how well the questions and answers of each condition agree with the model's own map."""
    title = (
        "by the model's own decision map: percent of episodes that asked although it knew / answered although it could not know; "
        "mean turns of regret, with its interval (suggestions at known pictures, plus moves still needed)"
    )
    return _table(run_data, "decisions", title, DECISION_COLUMNS, _regret, "{model}, {condition}")


def _table(
    run_data: RunData, name: str, title: str, measures: Sequence[str], cell: Callable[[Row], TableCell], label: str
) -> Table:
    rows = _decision_rows(run_data, measures)
    bounded = [f"{measure}{end}" for measure in measures for end in ("", "_low", "_high")]
    averages = average_bounds(rows, ["model", "condition"], measures)
    means = {(row["model"], row["condition"]): row for row in averages.iter_rows(named=True)}
    scenarios, lines, ranked = in_paper_order(rows["scenario"]), [], 0
    for model, condition, part in model_conditions(run_data, rows):
        cells = scenario_cells(part, scenarios, cell)
        lines.append(line(label.format(model=model, condition=condition), [*cells, cell(means[model, condition])]))
        ranked += model not in run_data.baselines
    numbers = rows.select("model", "scenario", "condition", "mapped", *bounded)
    heads = columns("model", [*scenarios, average_heading(scenarios)])
    return Table(name, title, heads, tuple(lines), numbers, ranked)


def _decision_rows(run_data: RunData, measures: Sequence[str]) -> pl.DataFrame:
    """Return one row per cell that has these measures, with their bounds."""
    maps = run_data.planned_decision_maps
    planned = [run_data.planned, maps] if maps.height else [run_data.planned]
    names = pl.concat(planned).select("cell", "model", "scenario", "condition")
    compared = decisions(run_data)
    rows = names.join(decisions_by_cell(compared).drop(MAP_COLUMN), on="cell").drop_nulls(measures[0])
    longest = (0.0, float(max(suggestion_limits(run_data).values(), default=0)))
    late, early = pl.col("regret_late"), pl.col("regret_early").fill_null(0)
    ranges: dict[str, Range | None] = {"known_first": None, "known_ever": None, "needed": longest}
    episodes = compared.samples.with_columns(known_ever=pl.col("needed").is_not_null())
    if measures == DECISION_COLUMNS:
        ranges = {"asked_knowing": None, "answered_unknowing": None}
        ranges |= dict.fromkeys(("regret", "regret_late", "regret_early"), longest)
        episodes = compared.episodes.with_columns(regret=late + early)
    return add_bounds(rows, episodes, run_data, ranges).sort("cell")


def _knowledge(row: Row) -> TableCell:
    moves = "-" if row["needed"] is None else f"{row['needed']:.1f}"
    text = f"{row['known_first']:.0f} / {row['known_ever']:.0f}; {moves}"
    return TableCell(text, row["known_ever"], format_range(row, "known_ever", 0))


def _regret(row: Row) -> TableCell:
    text = f"{row['asked_knowing']:.0f} / {row['answered_unknowing']:.0f}; {row['regret']:.1f}"
    return TableCell(text, row["regret"], format_range(row, "regret"))
