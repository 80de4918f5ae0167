"""The decision map as tables: what a model knew of its pictures, and whether its questions and answers fitted that."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import polars as pl

from envs import in_order
from orchestrator.report.decision_map import DECIDED, KNOWN, MAP, cells, decisions
from orchestrator.report.escaping import MISSING, Entry, Grid
from orchestrator.report.grid_parts import Line, Row, averaged, models
from orchestrator.report.run_data import RunData

Label = Callable[[str, str], str]
"""Model and condition -> the name of a row."""
LATE, EARLY = "asked although it knew", "answered although it could not know"


def known(run_data: RunData) -> Grid:
    """What each model knows without asking: at the first picture, at any, and how many moves away the nearest such one is."""
    title = (
        "decision map: percent of samples whose category it names at the first picture / at any that play can reach; mean moves "
        "to the nearest of these (of samples that have one)"
    )
    return _grid(run_data, "decision-map", title, KNOWN, _known, lambda model, condition: model)


def regret(run_data: RunData) -> Grid:
    """How far each condition's episodes asked and answered as the model's own map would have it."""
    title = (
        f"percent of episodes that {LATE} / {EARLY}; mean turns of regret (moves asked for too many, and moves that were still "
        "needed), by the decision map of the same model and sample"
    )
    return _grid(run_data, "decisions", title, DECIDED, _regret, lambda model, condition: f"{model}, {condition}")


def _grid(
    run_data: RunData, name: str, title: str, measures: Sequence[str], written: Callable[[Row], Entry], label: Label
) -> Grid:
    found = _rows(run_data).drop_nulls(measures[0])
    scenarios, rows, ranked = in_order(found["scenario"]), list[Line](), 0
    for model in models(run_data, found["model"]):
        mine = found.filter(model=model)
        for condition in [one for one in run_data.conditions if one in set(mine["condition"])]:
            part = {row["scenario"]: row for row in mine.filter(condition=condition).iter_rows(named=True)}
            means = mine.filter(condition=condition).select(pl.col(measures).mean()).row(0, named=True)
            entries = [written(part[one]) if one in part else MISSING for one in scenarios]
            rows.append((label(model, condition), (*entries, written(means))))
            ranked += model not in run_data.baselines
    numbers = found.select("model", "scenario", "condition", "mapped", *measures)
    return Grid(name, title, (*scenarios, averaged(scenarios)), tuple(rows), numbers, ranked)


def _rows(run_data: RunData) -> pl.DataFrame:
    planned = [rows for rows in (run_data.planned, run_data.planned_maps) if rows.height]
    names = pl.concat(planned).select("cell", "model", "scenario", "condition")
    return names.join(cells(decisions(run_data)).drop(MAP), on="cell").sort("cell")


def _known(row: Row) -> Entry:
    moves = "-" if row["needed"] is None else f"{row['needed']:.1f}"
    return Entry(f"{row['known_first']:.0f} / {row['known_ever']:.0f}; {moves}", row["known_ever"])


def _regret(row: Row) -> Entry:
    return Entry(f"{row['asked_knowing']:.0f} / {row['answered_unknowing']:.0f}; {row['regret']:.1f}", row["regret"])
