"""Planted sweeps through the real stopping rule: how often the true figure is in the interval, and what is played.

    python -m tests.bench.planted_stopping [SWEEPS]

Each sweep has the 7,557 samples of the published benchmark, one model, and two conditions whose accuracies in each scenario
are a published model's (zero-shot, and with hints). Which samples are answered rightly is drawn by seed; the order of
samples, the batches and what is in flight beyond a stop are the program's own. No model is loaded and no file is written.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import numpy as np
import polars as pl

from envs.samples import paper_ids
from envs.types import Ending, Sample
from orchestrator.planning.plan import Plan, make_plan
from orchestrator.precision.stopping import Ranking, StoppingRule
from orchestrator.report.paper.published import published_figures
from sweeps.load import build
from sweeps.protocol import Protocol
from sweeps.registry import registry
from sweeps.sections import Precision

SWEEPS = 1_000
BATCH = 64
"""Episodes of a batch that comes back."""
IN_FLIGHT = 256
"""Episodes that workers play at once: when a cell stops, those of it end and are stored."""
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
    stored: float
    """The same with what was in flight at the stop."""


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
    stored, late = 0, 0
    (queue,) = plan.pending(()).values()
    for batch in batches(queue, rng):
        for ordinal in batch:
            index, _ = plan.task(ordinal)
            late -= 1
            if index in stops and late < 0:
                continue
            stored += 1
            stopping.add_answer(ordinal, Ending.CORRECT, bool(truth[index][ordinal - plan.offsets[index]]))
        now = stopping.stops()
        late = IN_FLIGHT if len(now) > len(stops) else late
        stops = now
    return list(_intervals(plan, stopping, stops, truth, stored))


def _intervals(
    plan: Plan, stopping: StoppingRule, stops: dict[int, int], truth: dict[int, np.ndarray], stored: int
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
        yield Interval(what, covered, estimate - true, (high - low) / 2, counted, stored / plan.total)


class Ranked(NamedTuple):
    """What ``ranking`` came to in one sweep."""

    certain: float
    """Share of the models' places that were certain before their average was precise."""
    wrong: bool
    """Whether one of those is not the true place."""
    counted: float
    """Share of the episodes that the estimates are of."""
    without: float
    """The same without ``ranking``."""


def play_ranked(seed: int, models: int, close: bool = False) -> Ranked:
    """Play a planted sweep of so many published models, or of ``close`` ones, whose accuracies hardly differ."""
    rng, rule = np.random.default_rng(seed), {"half_width": 1.0, "ranking": True}
    names = list(registry())[:models]
    table = {"data": "none", "models": names, "conditions": list(CONDITIONS), "seed": seed, "precision": rule}
    plan = make_plan(build(table, "planted"), {Protocol.MCQA: samples()}, samples())
    accuracy_by_model = dict(zip(names, _draw_accuracies(models, close, rng), strict=True))
    truth = {}
    for index, cell in enumerate(plan.cells):
        size, accuracy = (
            len(plan.cell_samples(cell)),
            accuracy_by_model[cell.model.name][cell.condition.name][cell.scenario],
        )
        truth[index] = rng.permutation(np.arange(size) < round(accuracy * size))
    stopping, plain = (StoppingRule(variant) for variant in (plan, replace(plan, precision=Precision(half_width=1.0))))
    for variant in (stopping, plain):
        for index, right in truth.items():
            variant.answers[index][list(plan.ranks[plan.cells[index].scenario])] = right
    shares = [plan.with_stops(variant.stops()).total_with_stops / plan.total for variant in (stopping, plain)]
    certain = sum(len(group.certain) for group in stopping.ranking)
    return Ranked(certain / len(stopping.units), any(map(_misplaced(stopping, truth), stopping.ranking)), *shares)


def _draw_accuracies(models: int, close: bool, rng: np.random.Generator) -> list[dict[str, dict[str, float]]]:
    published = accuracies()
    if not close:
        return [published[number] for number in rng.choice(len(published), models, replace=False)]
    base = published[rng.integers(len(published))]
    shifts = rng.uniform(-0.02, 0.02, models)
    return [
        {name: {s: float(np.clip(a + shift, 0, 1)) for s, a in row.items()} for name, row in base.items()}
        for shift in shifts
    ]


def _misplaced(stopping: StoppingRule, truth: dict[int, np.ndarray]) -> Callable[[Ranking], bool]:
    def mean(number: int) -> float:
        return float(np.mean([truth[cell].mean() for cell in stopping.units[number].cells]))

    def wrong(group: Ranking) -> bool:
        """Return whether a certain model is placed on the wrong side of another one."""
        spans = {number: group.span(number) for number in group.group}
        pairs = [(first, second) for first in group.certain for second in group.group if first != second]
        return any((spans[first][1] < spans[second][0]) != (mean(first) < mean(second)) for first, second in pairs)

    return wrong


def summary(intervals: list[Interval]) -> dict[str, float]:
    """Coverage, bias and root mean square error (points), mean half-width, shares of episodes; in percent where shares."""
    frame = pl.DataFrame(intervals, schema=Interval._fields, orient="row")
    errors = frame["error"]
    return {
        "intervals": frame.height,
        "coverage %": 100 * frame["covered"].mean(),  # type: ignore[operator,dict-item]
        "bias": errors.mean(),  # type: ignore[dict-item]
        "rmse": float((errors**2).mean() ** 0.5),  # type: ignore[operator,arg-type]
        "half-width": frame["half_width"].mean(),  # type: ignore[dict-item]
        "counted %": 100 * frame["counted"].mean(),  # type: ignore[operator,dict-item]
        "stored %": 100 * frame["stored"].mean(),  # type: ignore[operator,dict-item]
    }


def main(number: int = SWEEPS) -> None:
    """Print a line a rule."""
    for rule in RULES:
        intervals = [interval for seed in range(number) for interval in play_planted(seed, rule)]
        print(rule, {name: round(value, 3) for name, value in summary(intervals).items()}, flush=True)
    for models, close in ((2, False), (4, False), (8, False), (4, True)):
        sweeps = pl.DataFrame(
            [play_ranked(seed, models, close) for seed in range(number)], schema=Ranked._fields, orient="row"
        )
        print(
            f"ranking, {models} {'close' if close else 'published'} models",
            (100 * sweeps.mean()).to_dicts(),
            flush=True,
        )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
