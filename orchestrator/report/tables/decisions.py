"""The decision map as tables: the pictures that a model knows, and whether its questions and answers agree with them."""

from __future__ import annotations

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
from orchestrator.report.run_data import RunData
from orchestrator.report.tables.parts import Row, average_heading, by_column, model_conditions
from orchestrator.report.tables.table import MISSING, Table, TableCell, columns, line


def knowledge_table(run_data: RunData) -> Table:
    """Return the share of samples that each model knows at the first picture and at any, and the moves in between."""
    title = (
        "decision map: percent of samples whose category it names at the first picture / at any that play can reach; mean moves "
        "to the nearest of these (of samples that have one)"
    )
    return _table(run_data, "decision-map", title, KNOWLEDGE_COLUMNS, _knowledge, "{model}")


def regret_table(run_data: RunData) -> Table:
    """Return how well the questions and answers of each condition agree with the model's own map."""
    title = (
        "percent of episodes that asked although it knew / answered although it could not know; mean turns of regret (moves "
        "asked for too many, and moves that were still needed), by the decision map of the same model and sample"
    )
    return _table(run_data, "decisions", title, DECISION_COLUMNS, _regret, "{model}, {condition}")


def _table(
    run_data: RunData, name: str, title: str, measures: Sequence[str], cell: Callable[[Row], TableCell], label: str
) -> Table:
    rows = _decision_rows(run_data).drop_nulls(measures[0])
    scenarios, lines, ranked = in_paper_order(rows["scenario"]), [], 0
    for model, condition, part in model_conditions(run_data, rows):
        cells, means = by_column(part), part.select(pl.col(measures).mean()).row(0, named=True)
        texts = [cell(cells[scenario]) if scenario in cells else MISSING for scenario in scenarios]
        lines.append(line(label.format(model=model, condition=condition), [*texts, cell(means)]))
        ranked += model not in run_data.baselines
    numbers = rows.select("model", "scenario", "condition", "mapped", *measures)
    heads = columns("model", [*scenarios, average_heading(scenarios)])
    return Table(name, title, heads, tuple(lines), numbers, ranked)


def _decision_rows(run_data: RunData) -> pl.DataFrame:
    maps = run_data.planned_decision_maps
    planned = [run_data.planned, maps] if maps.height else [run_data.planned]
    names = pl.concat(planned).select("cell", "model", "scenario", "condition")
    return names.join(decisions_by_cell(decisions(run_data)).drop(MAP_COLUMN), on="cell").sort("cell")


def _knowledge(row: Row) -> TableCell:
    moves = "-" if row["needed"] is None else f"{row['needed']:.1f}"
    return TableCell(f"{row['known_first']:.0f} / {row['known_ever']:.0f}; {moves}", row["known_ever"])


def _regret(row: Row) -> TableCell:
    text = f"{row['asked_knowing']:.0f} / {row['answered_unknowing']:.0f}; {row['regret']:.1f}"
    return TableCell(text, row["regret"])
