"""Planted sweeps through the real stopping rule: how often the true figure is in the interval, and what is played.

    python -m tests.bench.planted_stopping [SWEEPS]

Each sweep has the 7,557 samples of the published benchmark, one model, and two conditions whose accuracies in each scenario
are a published model's (zero-shot, and with hints). Which samples are answered rightly is drawn by seed; the order of
samples and the batches are the program's own. No model is loaded and no file is written.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import numpy as np
import polars as pl

from envs.samples import paper_ids
from envs.types import Ending, Sample
from orchestrator.planning.plan import Plan, make_plan
from orchestrator.precision.stopping import StoppingRule
from orchestrator.report.paper.published import published_figures
from sweeps.load import build
from sweeps.protocol import Protocol

SWEEPS = 1_000
BATCH = 64
"""Episodes of a batch that comes back."""
IN_FLIGHT = 256
"""Episodes that workers play at once, so that batches arrive out of order."""
RULES: tuple[dict[str, object], ...] = ({"half_width": 1.0}, {"difference": 2.0})
MODEL, CONDITIONS = "internvl3-8b", ("zero-shot", "hint")


class Interval(NamedTuple):
    """What one interval of a sweep came to, in points, or of an average the share of episodes."""

    what: str
    """``average`` or ``difference``."""
    covered: bool
    error: float
    half_width: float
    counted: float
    """Share of the episodes that the estimate is of."""


@cache
def samples() -> dict[str, list[Sample]]:
    """The ids of the published benchmark, with nothing to see."""
    return {
        name: [Sample(name, sample_id, "", (), (), "", "", 0, 1, 0) for sample_id in sorted(ids)]
        for name, ids in paper_ids().items()
    }


@cache
def accuracies() -> list[dict[str, dict[str, float]]]:
    """Of each published model: condition -> scenario -> accuracy, as a share."""
    rows = (
        published_figures()
        .filter(measure="acc", protocol="mcqa", filtered=True)
        .filter(pl.col("condition").is_in(CONDITIONS))
    )
    rows = rows.filter(pl.col("scenario").is_in(list(paper_ids())))
    by_model: dict[str, dict[str, dict[str, float]]] = {}
    for paper, condition, scenario, value in rows.select("paper", "condition", "scenario", "published").iter_rows():
        by_model.setdefault(paper, {}).setdefault(condition, {})[scenario] = value / 100
    return [by_model[name] for name in sorted(by_model) if len(by_model[name]) == len(CONDITIONS)]


def plan_of(seed: int, rule: dict[str, object]) -> Plan:
    """The plan of a sweep by this seed."""
    table = {"data": "none", "models": [MODEL], "conditions": list(CONDITIONS), "seed": seed, "precision": rule}
    return make_plan(build(table, "planted"), {Protocol.MCQA: samples()}, samples())


def plant_truth(plan: Plan, accuracy: dict[str, dict[str, float]], rng: np.random.Generator) -> dict[int, np.ndarray]:
    """Map each cell's index to which of its samples are answered correctly, as many as the accuracy says."""
    truth = {}
    for index, cell in enumerate(plan.cells):
        size = len(plan.cell_samples(cell))
        right = np.arange(size) < round(accuracy[cell.condition.name][cell.scenario] * size)
        truth[index] = rng.permutation(right)
    return truth


def batches(queue: list[int], rng: np.random.Generator) -> Iterator[list[int]]:
    """The queue in batches that arrive out of order, as from several workers."""
    chunks = [queue[first : first + BATCH] for first in range(0, len(queue), BATCH)]
    arrivals = np.arange(len(chunks)) + rng.uniform(0, IN_FLIGHT / BATCH, len(chunks))
    yield from (chunks[index] for index in np.argsort(arrivals))


def play_planted(seed: int, rule: dict[str, object]) -> list[Interval]:
    """Play one planted sweep."""
    rng, plan = np.random.default_rng(seed), plan_of(seed, rule)
    truth = plant_truth(plan, accuracies()[seed % len(accuracies())], rng)
    stopping, stops = StoppingRule(plan), dict[int, int]()
    (queue,) = plan.pending(()).values()
    for batch in batches(queue, rng):
        for ordinal in batch:
            index, _ = plan.task(ordinal)
            if index not in stops:
                stopping.add_answer(ordinal, Ending.CORRECT, bool(truth[index][ordinal - plan.offsets[index]]))
        stops = stopping.stops()
    return list(_intervals(plan, stopping, stops, truth))


def _intervals(
    plan: Plan, stopping: StoppingRule, stops: dict[int, int], truth: dict[int, np.ndarray]
) -> Iterator[Interval]:
    counted = plan.with_stops(stops).total_with_stops / plan.total
    prefix = {
        index: right[np.array(plan.ranks[plan.cells[index].scenario]) < stops.get(index, len(right))].mean()
        for index, right in truth.items()
    }
    for unit in stopping.units:
        rounds = max((stops[cell] for cell in unit.all_cells if cell in stops), default=max(map(len, truth.values())))
        low, high = stopping.bounds(unit, rounds)
        signs = [*[(cell, 1) for cell in unit.cells], *[(cell, -1) for cell in unit.others]]
        true = 100 * sum(sign * truth[cell].mean() for cell, sign in signs) / len(unit.cells)
        estimate = 100 * sum(sign * prefix[cell] for cell, sign in signs) / len(unit.cells)
        what = "difference" if unit.others else "average"
        covered = bool(low - 1e-9 <= true <= high + 1e-9)
        yield Interval(what, covered, estimate - true, (high - low) / 2, counted)


def summary(intervals: list[Interval]) -> dict[str, float]:
    """Coverage, bias and root mean square error (points), mean half-width, share of episodes; in percent where shares."""
    frame = pl.DataFrame(intervals, schema=Interval._fields, orient="row")
    errors = frame["error"]
    return {
        "intervals": frame.height,
        "coverage %": 100 * frame["covered"].mean(),  # type: ignore[operator,dict-item]
        "bias": errors.mean(),  # type: ignore[dict-item]
        "rmse": float((errors**2).mean() ** 0.5),  # type: ignore[operator,arg-type]
        "half-width": frame["half_width"].mean(),  # type: ignore[dict-item]
        "counted %": 100 * frame["counted"].mean(),  # type: ignore[operator,dict-item]
    }


def main(number: int = SWEEPS) -> None:
    """Print a line a rule."""
    for rule in RULES:
        intervals = [interval for seed in range(number) for interval in play_planted(seed, rule)]
        print(rule, {name: round(value, 3) for name, value in summary(intervals).items()}, flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
