"""Planted changes of suggestions and accuracy, families under the global null, and stopped runs, for ``planted``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from envs.types import Sample
from orchestrator.planning.plan import make_plan
from orchestrator.report.measures.paired import comparisons, is_significant
from orchestrator.report.statistics.clustered import (
    Mean,
    average_means,
    estimate_mean,
    share_interval,
    skewed_test,
    t_interval,
)
from orchestrator.report.statistics.proportion import Z, proportion_interval
from sweeps.load import build
from sweeps.protocol import Protocol
from tests.bench.planted_evidence import Planted, plant_cell, planted_run, share_line

LIMIT = 13
"""Most suggestions of an episode, which those that loop reach."""
SIZES = (30, 42, 150, 1_240)
LOOPS = (0.0, 0.02, 0.05)
SHAPES = {"equal shapes": 0.5, "unequal shapes": 0.25}
"""Name -> chance to stop asking after each suggestion under the second condition, which has the same mean."""
STOPPED_AT = (0.1, 0.5)
"""Shares of a run after which it is stopped."""


def suggestions(rng: np.random.Generator, size: int, loops: float, shape: float = 0.5) -> NDArray[np.int64]:
    """Return numbers of suggestions with a mean of about 1 without loops; the share ``loops`` goes to the limit."""
    asks = rng.random(size) < 2 * shape  # fewer ask, and those go on for longer
    number = np.where(asks, rng.geometric(shape, size) - (shape == 0.5), 0)
    return np.where(rng.random(size) < loops, LIMIT, np.minimum(number, LIMIT)).astype(np.int64)


def change_lines(runs: int, rng: np.random.Generator) -> Iterator[Planted]:
    """Yield the size of the test of suggestions, in cells and over seven scenarios, and its coverage and contradictions."""
    for name, shape in SHAPES.items():
        for loops in LOOPS:
            base, other = (suggestions(rng, 1_000_000, loops, each).mean() for each in (0.5, shape))
            for n in SIZES:
                for scenarios in (1, 7):
                    tests = [_test(rng, n, scenarios, loops, shape, base - other) for _ in range(runs)]
                    where = f"ps, {name}, {loops:.0%} loops, n {n:,}, {scenarios} scenario(s)"
                    false = [p < 0.05 for _, _, p in tests]
                    yield share_line(f"{where}: true null starred", false, 0.0, 0.06)
                    if scenarios == 7:
                        covered = [low <= 0 <= high for low, high, _ in tests]
                        yield share_line(f"{where}: interval covers", covered, 0.93, 1.0)
                    wrong = sum((p < 0.05) != (low > 0 or high < 0) for low, high, p in tests)
                    if wrong:
                        yield Planted(f"{where}: p and interval contradict", "0", f"{wrong}", False)


def _test(
    rng: np.random.Generator, n: int, scenarios: int, loops: float, shape: float, shift: float
) -> tuple[float, float, float]:
    """Return interval and p of differences whose true mean is 0."""
    parts = [suggestions(rng, n, loops) - suggestions(rng, n, loops, shape) - shift for _ in range(scenarios)]
    _, low, high, p = skewed_test(average_means([estimate_mean(part) for part in parts]))
    return low, high, p


def power_of_change_lines(runs: int, rng: np.random.Generator) -> Iterator[Planted]:
    """Yield the power of the test of suggestions beside Wald's, also where one of seven scenarios is small."""
    for sizes in ((150,) * 7, (20, *(150,) * 6)):
        ours, walds = list[bool](), list[bool]()
        for _ in range(runs):
            parts = [suggestions(rng, n, 0.02) - suggestions(rng, n, 0.02) + (rng.random(n) < 0.25) for n in sizes]
            ours.append(skewed_test(average_means([estimate_mean(part) for part in parts]))[3] < 0.05)
            means, errors = zip(*((part.mean(), part.var(ddof=1) / len(part)) for part in parts), strict=True)
            walds.append(abs(sum(means)) > Z * sum(errors) ** 0.5)
        ratio = np.mean(ours) / max(np.mean(walds), 1e-9)
        power = f"{100 * np.mean(ours):.0f}%, Wald {100 * np.mean(walds):.0f}%"
        what = f"ps, a true change of 0.25, smallest scenario {min(sizes)}: power"
        yield Planted(what, "0.9 of Wald's", power, bool(ratio >= 0.9 - 3 * runs**-0.5 * 0.3))


def share_lines(runs: int, rng: np.random.Generator) -> Iterator[Planted]:
    """Yield the coverage of shares in cells, of their averages, and of average changes of accuracy."""
    for n in SIZES:
        hits: dict[str, list[bool]] = {"cell": [], "average": [], "average change": []}
        for _ in range(runs):
            rates = rng.uniform(0.05, 0.95, 7)
            right = [rng.random(n) < rate for rate in rates]
            before = [rng.random(n) < 0.5 for _ in rates]
            means = [estimate_mean(100 * part, unit=100) for part in right]
            _, low, high = share_interval(means[0], n)
            hits["cell"].append(low <= 100 * rates[0] <= high)
            hits["average"].append(_covers(average_means(means), 100 * rates.mean()))
            changes = [
                estimate_mean(100 * (a.astype(int) - b.astype(int)), unit=100)
                for a, b in zip(right, before, strict=True)
            ]
            hits["average change"].append(_covers(average_means(changes), 100 * (rates.mean() - 0.5)))
        for name, inside in hits.items():
            yield share_line(f"accuracy, n {n:,}: interval of a {name} covers", inside, 0.93, 0.97)


def _covers(mean: Mean, truth: float) -> bool:
    _, low, high = t_interval(mean)
    return low <= truth <= high


def family_lines(runs: int, rng: np.random.Generator) -> Iterator[Planted]:
    """Yield how often anything is starred where no condition changes anything, in both families."""
    primary, rest = list[bool](), list[bool]()
    for _ in range(max(runs // 4, 1)):
        cells = []
        for model in "ab":
            for scenario in ("ROD", "QD", "CIT"):
                rate = rng.uniform(0.2, 0.8)
                for condition in ("zero-shot", "hint", "history"):
                    turns = 1 + suggestions(rng, 60, 0.02)
                    cells.append(plant_cell(f"{model}/{scenario}/{condition}", rng.random(60) < rate, turns=turns))
        tests = comparisons(planted_run(cells))
        averages = tests.condition_averages
        is_primary = averages["endpoint"] == "primary"
        primary.append(any(map(is_significant, averages.filter(is_primary)["p_holm"])))
        changes = [tests.conditions["p_holm"], tests.conditions["ps_p_holm"], averages["ps_p_holm"]]
        changes.append(averages.filter(~is_primary)["p_holm"])
        rest.append(any(is_significant(p) for column in changes for p in column))
    yield share_line("global null: any star of the primary endpoint", primary, 0.0, 0.06)
    yield share_line("global null: any star of a changed condition in the exploratory family", rest, 0.0, 0.06)


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
