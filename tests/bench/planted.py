"""Planted sweeps through the real stopping rule: how often the true figure is in the interval, and what is played.

    python -m tests.bench.planted [SWEEPS]

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
from sweeps.precision import Precision
from sweeps.protocol import Protocol
from sweeps.registry import registry

SWEEPS = 1_000
BATCH = 64
"""Episodes of a batch that comes back."""
IN_FLIGHT = 256
"""Episodes that workers play at once: when a cell stops, those of it end and are stored."""
RULES: tuple[dict[str, object], ...] = ({"half_width": 1.0}, {"difference": 2.0})
MODEL, CONDITIONS = "internvl3-8b", ("zero-shot", "hint")


class Found(NamedTuple):
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
        name: [Sample(name, one, "", (), (), "", "", 0, 1, 0) for one in sorted(ids)]
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
    found: dict[str, dict[str, dict[str, float]]] = {}
    for paper, condition, scenario, value in rows.select("paper", "condition", "scenario", "published").iter_rows():
        found.setdefault(paper, {}).setdefault(condition, {})[scenario] = value / 100
    return [found[name] for name in sorted(found) if len(found[name]) == len(CONDITIONS)]


def plan_of(seed: int, rule: dict[str, object]) -> Plan:
    """The plan of a sweep by this seed."""
    table = {"data": "none", "models": [MODEL], "conditions": list(CONDITIONS), "seed": seed, "precision": rule}
    return make_plan(build(table, "planted"), {Protocol.MCQA: samples()}, samples())


def planted(plan: Plan, wanted: dict[str, dict[str, float]], rng: np.random.Generator) -> dict[int, np.ndarray]:
    """Index of a cell -> which of its samples are answered rightly, so many as the accuracy says."""
    truth = {}
    for index, cell in enumerate(plan.cells):
        size = len(plan.cell_samples(cell))
        right = np.arange(size) < round(wanted[cell.condition.name][cell.scenario] * size)
        truth[index] = rng.permutation(right)
    return truth


def batches(queue: list[int], rng: np.random.Generator) -> Iterator[list[int]]:
    """The queue in batches that arrive out of order, as from several workers."""
    whole = [queue[first : first + BATCH] for first in range(0, len(queue), BATCH)]
    places = np.arange(len(whole)) + rng.uniform(0, IN_FLIGHT / BATCH, len(whole))
    yield from (whole[place] for place in np.argsort(places))


def one(seed: int, rule: dict[str, object]) -> list[Found]:
    """Play one planted sweep."""
    rng, plan = np.random.default_rng(seed), plan_of(seed, rule)
    truth = planted(plan, accuracies()[seed % len(accuracies())], rng)
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
    return list(_found(plan, stopping, stops, truth, stored))


def _found(
    plan: Plan, stopping: StoppingRule, stops: dict[int, int], truth: dict[int, np.ndarray], stored: int
) -> Iterator[Found]:
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
        yield Found(what, covered, estimate - true, (high - low) / 2, counted, stored / plan.total)


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


def ranked(seed: int, models: int, close: bool = False) -> Ranked:
    """Play a planted sweep of so many published models, or of ``close`` ones, whose accuracies hardly differ."""
    rng, rule = np.random.default_rng(seed), {"half_width": 1.0, "ranking": True}
    names = list(registry())[:models]
    table = {"data": "none", "models": names, "conditions": list(CONDITIONS), "seed": seed, "precision": rule}
    plan = make_plan(build(table, "planted"), {Protocol.MCQA: samples()}, samples())
    wanted = dict(zip(names, _wanted(models, close, rng), strict=True))
    truth = {}
    for index, cell in enumerate(plan.cells):
        size, accuracy = len(plan.cell_samples(cell)), wanted[cell.model.name][cell.condition.name][cell.scenario]
        truth[index] = rng.permutation(np.arange(size) < round(accuracy * size))
    stopping, plain = (StoppingRule(one) for one in (plan, replace(plan, precision=Precision(half_width=1.0))))
    for one in (stopping, plain):
        for index, right in truth.items():
            one.answers[index][list(plan.ranks[plan.cells[index].scenario])] = right
    shares = [plan.with_stops(one.stops()).total_with_stops / plan.total for one in (stopping, plain)]
    certain = sum(len(group.certain) for group in stopping.ranking)
    return Ranked(certain / len(stopping.units), any(map(_misplaced(stopping, truth), stopping.ranking)), *shares)


def _wanted(models: int, close: bool, rng: np.random.Generator) -> list[dict[str, dict[str, float]]]:
    found = accuracies()
    if not close:
        return [found[number] for number in rng.choice(len(found), models, replace=False)]
    base = found[rng.integers(len(found))]
    shifts = rng.uniform(-0.02, 0.02, models)
    return [
        {name: {s: float(np.clip(a + shift, 0, 1)) for s, a in row.items()} for name, row in base.items()}
        for shift in shifts
    ]


def _misplaced(stopping: StoppingRule, truth: dict[int, np.ndarray]) -> Callable[[Ranking], bool]:
    def mean(number: int) -> float:
        return float(np.mean([truth[cell].mean() for cell in stopping.units[number].cells]))

    def wrong(group: Ranking) -> bool:
        """Whether a certain model stands, by what is counted, on the other side of another one than in truth."""
        spans = {number: group.span(number) for number in group.group}
        pairs = [(one, other) for one in group.certain for other in group.group if one != other]
        return any((spans[one][1] < spans[other][0]) != (mean(one) < mean(other)) for one, other in pairs)

    return wrong


def summary(found: list[Found]) -> dict[str, float]:
    """Coverage, bias and root mean square error (points), mean half-width, shares of episodes; in percent where shares."""
    frame = pl.DataFrame(found, schema=Found._fields, orient="row")
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
        found = [interval for seed in range(number) for interval in one(seed, rule)]
        print(rule, {name: round(value, 3) for name, value in summary(found).items()}, flush=True)
    for models, close in ((2, False), (4, False), (8, False), (4, True)):
        sweeps = pl.DataFrame(
            [ranked(seed, models, close) for seed in range(number)], schema=Ranked._fields, orient="row"
        )
        print(
            f"ranking, {models} {'close' if close else 'published'} models",
            (100 * sweeps.mean()).to_dicts(),
            flush=True,
        )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
