"""Planted changes of suggestions and accuracy, reruns whose answers flip, and stopped runs, for ``tests.bench.planted``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.stats import ttest_1samp  # type: ignore[import-untyped]

from envs.types import Sample
from orchestrator.planning.plan import make_plan
from orchestrator.report.statistics.exact_tests import mcnemar
from orchestrator.report.statistics.intervals import Stratum, score_tests, stratum_from_counts, stratum_from_values
from orchestrator.report.statistics.means import crossed_mean, skewed_mean_test
from orchestrator.report.statistics.proportion import proportion_interval
from sweeps.load import build
from sweeps.protocol import Protocol
from tests.bench.planted_evidence import Planted, share_line

LIMIT = 13
"""Most suggestions of an episode, which those that loop reach."""
PAIRS = 150
"""Pairs of a scenario in differences of suggestions."""
STOPPED_AT = (0.1, 0.5)
"""Shares of a run after which it is stopped."""


def change_lines(runs: int, rng: np.random.Generator) -> Iterator[Planted]:
    """Yield coverage, size, power and contradictions of differences of suggestions, in a cell and over seven scenarios."""
    for scenarios in (1, 7):
        where = "average of seven scenarios" if scenarios == 7 else "cell"
        covered, false, contradictions = list[bool](), list[bool](), 0
        for number in range(runs * 5):
            loops = 0.08 if number % 2 else 0.02
            low, high, p = skewed_mean_test(_strata(rng, scenarios, loops, 0.02))
            truth = _mean_suggestions(loops) - _mean_suggestions(0.02)
            covered.append(low <= truth <= high)
            contradictions += (p < 0.05) != (low > 0 or high < 0)
            if not number % 2:
                false.append(p < 0.05)
        yield share_line(f"difference of ps, {where}: interval covers", covered, 0.93, 0.97)
        yield share_line(f"difference of ps, {where}: starred where there is none", false, 0.0, 0.05)
        none = f"{contradictions} of {len(covered):,}"
        yield Planted(f"difference of ps, {where}: p and interval contradict", "0", none, not contradictions)
    ours, walds = list[bool](), list[bool]()
    for _ in range(runs * 3):
        strata = _strata(rng, 7, 0.02, 0.02, shift=0.25)
        ours.append(skewed_mean_test(strata)[2] < 0.05)
        every = np.concatenate([np.repeat(part.values, part.counts.astype(int)) for part in strata])
        walds.append(bool(ttest_1samp(every, 0).pvalue < 0.05))
    gap = 100 * (np.mean(ours) - np.mean(walds))
    power = f"{100 * np.mean(ours):.0f}%, Wald {100 * np.mean(walds):.0f}%"
    yield Planted("difference of ps of 0.25, average: power", "Wald's -5 or more", power, bool(gap >= -5))


def _suggestions(rng: np.random.Generator, size: int, loops: float) -> NDArray[np.int64]:
    """Return geometric numbers of suggestions; the share ``loops`` of episodes loops to the limit."""
    return np.where(rng.random(size) < loops, LIMIT, np.minimum(rng.geometric(0.5, size) - 1, LIMIT))


def _mean_suggestions(loops: float) -> float:
    number = np.arange(LIMIT)
    return loops * LIMIT + (1 - loops) * float((number * 0.5 ** (number + 1)).sum() + LIMIT * 0.5**LIMIT)


def _strata(
    rng: np.random.Generator, scenarios: int, loops: float, loops_before: float, shift: float = 0.0
) -> list[Stratum]:
    """Return the differences of suggestions of each scenario; the share ``shift`` of episodes asks once more."""
    differences = [
        _suggestions(rng, PAIRS, loops) - _suggestions(rng, PAIRS, loops_before) + (rng.random(PAIRS) < shift)
        for _ in range(scenarios)
    ]
    return [stratum_from_values(np.clip(part, -LIMIT, LIMIT), -LIMIT, LIMIT) for part in differences]


def rerun_lines(runs: int, rng: np.random.Generator) -> Iterator[Planted]:
    """Yield how often ``compare`` stars two runs of one model of which batches flip some answers, before Holm's correction."""
    for rate in (0.003, 0.01):
        cells, averages = list[bool](), list[bool]()
        for _ in range(runs):
            flips = rng.binomial(1_000, rate, 7)
            gained = rng.binomial(flips, 0.5)
            lost = flips - gained
            cells += (mcnemar(gained, lost) < 0.05).tolist()
            strata = [
                stratum_from_counts(np.array([100, -100, 0]), np.array([won, gone, 1_000 - won - gone]), -100, 100)
                for won, gone in zip(gained, lost, strict=True)
            ]
            averages.append(score_tests(strata, 2.0)[2] < 0.05)
        yield share_line(f"{rate:.1%} of answers flip between two runs: cells starred", cells, 0.0, 0.05)
        yield share_line(f"{rate:.1%} of answers flip between two runs: averages starred", averages, 0.0, 0.05)


def order_lines(runs: int, rng: np.random.Generator) -> Iterator[Planted]:
    """Yield the coverage of cells of stopped runs, where samples late in the file are harder."""
    size = 300
    samples = [Sample("ROD", number, "", (), (), "", "", 0, 1, 0) for number in range(size)]
    chances = np.linspace(0.9, 0.3, size)
    table = {"data": "none", "models": ["uniform"], "conditions": ["zero-shot", "hint"], "scenarios": ["ROD"]}
    plan = make_plan(build(table, "planted"), {Protocol.MCQA: {"ROD": samples}}, {"ROD": samples})
    for share in STOPPED_AT:
        by_order: dict[str, list[bool]] = {"plan": [], "file": []}
        for _ in range(runs):
            (queue,) = replace(plan, seed=int(rng.integers(2**31))).pending(()).values()
            right = rng.random(size) < chances
            for name, order in (("plan", queue), ("file", sorted(queue, key=lambda ordinal: ordinal % size))):
                played = [ordinal for ordinal in order[: round(share * len(order))] if ordinal < size]
                low, high = proportion_interval(int(right[played].sum()), len(played))
                by_order[name].append(low <= chances.mean() <= high)
        in_file_order = f"{100 * np.mean(by_order['file']):.0f}%"
        what = f"run stopped at {share:.0%}: interval of a cell covers (in the order of the file {in_file_order})"
        yield share_line(what, by_order["plan"], 0.93)


def effect_lines(runs: int, rng: np.random.Generator) -> Iterator[Planted]:
    """Yield coverage and false stars of a condition's mean effect over models and scenarios with random effects in logits."""
    for models, spreads in ((22, (0.6, 0.6)), (8, (0.8, 0.0)), (4, (0.0, 0.8)), (22, (0.0, 0.0))):
        for effect in (0.0, 0.5):
            population = [np.subtract(*_draw_rates(rng, 400, 400, effect, spreads)).mean() for _ in range(60)]
            truth, covered = -float(np.mean(population)), list[bool]()
            for _ in range(runs * 3):
                before, after = (
                    rng.binomial(150, rates) / 150 for rates in _draw_rates(rng, models, 7, effect, spreads)
                )
                mean = crossed_mean(after - before)
                covered.append(mean is not None and mean.low <= truth <= mean.high)
            what = f"effect of {effect:g} logits, {models} models (sd {spreads[0]:g}) x 7 scenarios (sd {spreads[1]:g}): covers"
            yield share_line(what, covered, 0.93)


def _draw_rates(
    rng: np.random.Generator, models: int, scenarios: int, effect: float, spreads: tuple[float, float]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the rates of drawn models in drawn scenarios, before and after; spreads are of the effect's own, in logits."""
    base = -0.5 + rng.normal(0, 1, (models, 1)) + rng.normal(0, 0.7, (1, scenarios))
    own = rng.normal(0, spreads[0], (models, 1)) + rng.normal(0, spreads[1], (1, scenarios))
    return 1 / (1 + np.exp(-base)), 1 / (1 + np.exp(-(base + effect + own)))
