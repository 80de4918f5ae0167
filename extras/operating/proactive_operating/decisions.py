"""The decision map as tables: the pictures that a model knows, and whether its questions and answers agree with them."""

from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import Any

import numpy as np
import polars as pl

from envs import in_paper_order
from orchestrator.report.run_data import RunData
from orchestrator.report.tables.parts import Row, model_conditions
from orchestrator.report.tables.table import MISSING, Table, TableCell, columns, line
from proactive_operating.cells import scenario_clusters
from proactive_operating.decision_map import decisions
from proactive_operating.intervals import ENDS, interval_columns

PERCENT = ("known_first", "known_ever", "asked_knowing", "answered_unknowing")
"""Measures in percent; all others are numbers of moves or turns."""
KNOWLEDGE = ("known_first", "known_ever", "needed")
REGRETS = ("asked_knowing", "answered_unknowing", "regret", "regret_late", "regret_early")


def knowledge_table(run_data: RunData) -> Table:
    """Return the share of samples that each model knows at the first picture and at any, and the moves to the nearest."""
    title = (
        "decision map: percent of samples whose category the model names at the first picture / at any reachable picture (with "
        "its interval); mean moves to the nearest such picture (over samples that have one)"
    )
    samples = decisions(run_data).samples.with_columns(known_ever=pl.col("needed").is_not_null())
    return _table(run_data, "decision-map", title, samples, KNOWLEDGE, _knowledge)


def regret_table(run_data: RunData) -> Table:
    """Return how well the questions and answers of each condition agree with the model's own map."""
    title = (
        "by the model's own decision map: percent of episodes that asked although it knew / answered although it could not know; "
        "mean turns of regret, with its interval (suggestions at known pictures, plus moves still needed)"
    )
    late, early = pl.col("regret_late"), pl.col("regret_early").fill_null(0)
    episodes = decisions(run_data).episodes.with_columns(regret=late + early, regret_early=early)
    return _table(run_data, "decisions", title, episodes, REGRETS, _regret)


def _table(
    run_data: RunData,
    name: str,
    title: str,
    frame: pl.DataFrame,
    measures: Sequence[str],
    cell: Callable[[Row], TableCell],
) -> Table:
    """Return a line per model and condition: a cell per scenario, and the mean over scenarios."""
    scenarios, lines, rows = in_paper_order(frame["scenario"].unique()), [], list[Row]()
    for model, condition, part in model_conditions(run_data, frame):
        by_scenario = {str(scenario): own for (scenario,), own in part.group_by("scenario", maintain_order=True)}
        figures = {name: _estimates(run_data, {name: own}, measures) for name, own in by_scenario.items()}
        cells = [cell(figures[name]) if name in figures else MISSING for name in scenarios]
        label = model if name == "decision-map" else f"{model}, {condition}"
        lines.append(line(label, [*cells, cell(_estimates(run_data, by_scenario, measures))]))
        names = {"model": model, "condition": condition}
        rows += [
            {**names, "scenario": scenario, "mapped": by_scenario[scenario].height, **own}
            for scenario, own in figures.items()
        ]
    heads = columns("model", [*scenarios, f"mean of {len(scenarios)}"])
    schema = dict.fromkeys(("model", "condition", "scenario"), pl.String) | {"mapped": pl.Int64}
    figures_schema = {f"{measure}{end}": pl.Float64 for measure in measures for end in ENDS}
    return Table(name, title, heads, tuple(lines), pl.DataFrame(rows, schema={**schema, **figures_schema}))


def _estimates(run_data: RunData, scenarios: Mapping[str, pl.DataFrame], measures: Sequence[str]) -> dict[str, Any]:
    """Return the mean of each measure over scenarios, with ``_low`` and ``_high``; null without a value."""
    figures: dict[str, Any] = {}
    for measure in measures:
        scale = 100.0 if measure in PERCENT else 1.0
        strata = [
            (
                scale * rows[measure].cast(pl.Float64).fill_null(float("nan")).to_numpy(),
                np.array([clusters.get(number, number) for number in rows["sample_id"]]),
            )
            for scenario, rows in scenarios.items()
            for clusters in [scenario_clusters(run_data, scenario)]
        ]
        figures |= interval_columns(measure, strata, 0.0, 100.0 if measure in PERCENT else inf)
    return figures


def _knowledge(row: Row) -> TableCell:
    moves = "-" if row["needed"] is None else f"{row['needed']:.1f}"
    text = f"{row['known_first']:.0f} / {row['known_ever']:.0f}; {moves}"
    return TableCell(text, _limits(row, "known_ever", 0))


def _regret(row: Row) -> TableCell:
    text = f"{row['asked_knowing']:.0f} / {row['answered_unknowing']:.0f}; {row['regret']:.1f}"
    return TableCell(text, _limits(row, "regret", 1))


def _limits(row: Row, measure: str, digits: int) -> str:
    low, high = row[f"{measure}_low"], row[f"{measure}_high"]
    return "" if low is None else f"{low:.{digits}f}–{high:.{digits}f}"
