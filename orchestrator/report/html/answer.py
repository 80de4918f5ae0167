"""The figure with which the page begins: each model's accuracy with its interval, a column per condition.

It is a table with drawn cells, so that names never overlap, colors follow the page, and any number of models fits.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import polars as pl

from envs.plural import pluralize
from orchestrator.report.html.text import paper_order
from orchestrator.report.measures.efficiency import lift_over_chance
from orchestrator.report.measures.estimates import estimate
from orchestrator.report.run_data import RunData
from sweeps.conditions import CONDITIONS
from sweeps.protocol import ZERO_SHOT


class Point(NamedTuple):
    """An accuracy in percent with its interval."""

    value: float
    low: float
    high: float
    is_best: bool
    is_unfinished: bool


class Panel(NamedTuple):
    """A condition, with the accuracy of blind choice and of the oracle (None if unknown)."""

    condition: str
    chance: float | None
    oracle: float | None


@dataclass(frozen=True, slots=True)
class AnswerFigure:
    """What the figure shows."""

    panels: Sequence[Panel]
    rows: Sequence[tuple[str, Sequence[Point | None]]]
    """Model and its point in each panel, the most accurate first."""
    caption: str


def build_answer(run_data: RunData) -> AnswerFigure | None:
    """Return the figure of multiple choice; None if nothing is scored. Without models it shows the baselines."""
    scored = estimate(run_data).averages.filter(pl.col("acc").is_not_null(), protocol="mcqa")
    rows = run_data.models_or_baselines(scored)
    if rows.is_empty():
        return None
    conditions = paper_order(rows["condition"], dict.fromkeys([ZERO_SHOT, *CONDITIONS]))
    panels = [_panel(run_data, scored, name) for name in conditions]
    unfinished = _unfinished(run_data)
    best = {panel.condition: _best(run_data, scored, rows, panel) for panel in panels}
    points = {
        (model, condition): Point(acc, low, high, best[condition] == model, (model, condition) in unfinished)
        for model, condition, acc, low, high in rows.select(
            "model", "condition", "acc", "acc_low", "acc_high"
        ).iter_rows()
    }
    first = panels[0].condition
    models = sorted(
        dict.fromkeys(rows["model"]),
        key=lambda model: (-points[model, first].value if (model, first) in points else 1.0, model),
    )
    lines = [(model, [points.get((model, panel.condition)) for panel in panels]) for model in models]
    return AnswerFigure(panels, lines, _caption(panels, points, int(rows["scenarios"].max())))  # type: ignore[arg-type]


def _panel(run_data: RunData, scored: pl.DataFrame, condition: str) -> Panel:
    levels = lift_over_chance(run_data).filter(condition=condition, protocol="mcqa").unique("scenario")["chance"]
    chance = None if levels.is_empty() or levels.null_count() else float(levels.mean())  # type: ignore[arg-type]
    oracle = scored.filter(pl.col("model").is_in(run_data.models_of_policy("oracle")), condition=condition)["acc"]
    return Panel(condition, chance, float(oracle[0]) if len(oracle) else None)


def _unfinished(run_data: RunData) -> set[tuple[str, str]]:
    """Return the models and conditions with unfinished cells."""
    unfinished_rows = run_data.rows.filter(pl.col("finished") < pl.col("planned"), protocol="mcqa")
    return set(unfinished_rows.select("model", "condition").iter_rows())


def _best(run_data: RunData, scored: pl.DataFrame, rows: pl.DataFrame, panel: Panel) -> str | None:
    """Return the most accurate model of a condition; None if it is the only one, or no better than a baseline or chance."""
    shown = rows.filter(condition=panel.condition).sort("acc", descending=True)
    if shown.height < 2 or shown["acc"][0] == shown["acc"][1]:
        return None
    excluded = [*rows["model"], *run_data.models_of_policy("oracle")]
    others = scored.filter(~pl.col("model").is_in(excluded), condition=panel.condition)["acc"]
    floor = max([panel.chance or 0.0, *others])
    return str(shown["model"][0]) if shown["acc"][0] > floor else None


def _caption(panels: Sequence[Panel], points: Mapping[tuple[str, str], Point], scenarios: int) -> str:
    marks = [
        *(["dashed line: choosing blindly"] if any(panel.chance is not None for panel in panels) else []),
        *(["solid line: the oracle"] if any(panel.oracle is not None for panel in panels) else []),
        *(["bold: highest of its column, and above all baselines"] if any(p.is_best for p in points.values()) else []),
        *(["pale: unfinished"] if any(p.is_unfinished for p in points.values()) else []),
    ]
    subject = f"Accuracy in percent with its 95% interval, mean over {pluralize(scenarios, 'scenario')}"
    return f"{subject}; {'; '.join(marks)}." if marks else f"{subject}."
