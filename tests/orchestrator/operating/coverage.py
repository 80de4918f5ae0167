"""How often the intervals of operating curves hold a planted truth: ``python -m tests.orchestrator.operating.coverage``.

``... coverage [REPEATS] [SEED] [POPULATION ...]``. A population of planted samples has known values. Each repeat draws samples,
or clusters of alike ones, from it and asks whether the 95% intervals, computed by the product's own functions, hold the
population's values: in two scenarios and in their mean.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from math import exp
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from actors.playing.state_graph import StateGraph, build_graph
from envs.samples import load_samples
from orchestrator.operating.knowledge import KNOWN
from orchestrator.operating.measures import detection_measures, exact_measures, own_measures
from orchestrator.operating.policy import Floats
from orchestrator.operating.split import Split, split_by_weights
from orchestrator.operating.summary import Summary, summarize
from orchestrator.report.measures.operating_points import RARE, RATES
from orchestrator.report.statistics.jackknife import LeftOut, jackknife_interval, leave_out_weights
from proactive_demo.drawing import draw
from sweeps.conditions import VARIANTS
from tests.orchestrator.operating.planted import planted

SCENARIOS = ("ROD", "QD")
ORDERS, SIZE = 3, 240
COUNTS = (10, 30, 100)
"""Clusters that a repeat draws in each scenario."""


class Kind(NamedTuple):
    """How the samples of a population are alike."""

    sizes: tuple[int, ...]
    """Samples of the clusters, over and over."""
    skewed: bool
    """True if a few clusters ask far more than the others."""


KINDS = {
    "samples": Kind((1,), False), "clusters": Kind((3,), False), "skewed": Kind((3,), True),
    "uneven": Kind((1, 1, 2, 1, 3, 8), True),
}  # fmt: skip


class Population(NamedTuple):
    """Planted samples of one scenario: a model before and after, and each sample's cluster."""

    before: Summary
    after: Summary
    clusters: NDArray[np.int64]


def plant(graphs: Sequence[StateGraph], kind: Kind) -> Population:
    """Return a population over these graphs; the samples of a cluster have the same will to ask and skill."""
    sizes = [kind.sizes[number % len(kind.sizes)] for number in range(SIZE)]
    clusters = np.repeat(np.arange(SIZE), sizes)[:SIZE]
    drawn = [Random(number).gauss(0, 1) for number in range(SIZE)]
    own = [(exp(wish) - 1.6 if kind.skewed else wish) * (kind.sizes != (1,)) for wish in drawn]
    models = []
    for asks, skill in ((-1.0, 1.0), (0.0, 2.0)):
        orders = []
        for order in range(ORDERS):
            shown = [graphs[number % len(graphs)] for number in range(SIZE)]
            policies = [
                planted(g, Random(f"{n}/{order}/{skill}"), asks + own[cluster], skill + own[cluster] / 2, 1.0)
                for n, (g, cluster) in enumerate(zip(shown, clusters, strict=True))
            ]
            orders.append((shown, policies))
        models.append(summarize(orders))
    return Population(*models, clusters)


def measure(population: Population, weights: Floats) -> dict[str, Floats]:
    """Return every measure that has an interval under each row of weights (rows, samples of the population)."""
    before = population.before
    parts = split_by_weights(before.plain, population.after.plain, weights).T
    known = before.signals.recognition >= KNOWN
    measures = {
        **own_measures(before, weights), **exact_measures(before, weights),
        **detection_measures(before, {"own": known}, weights), **dict(zip(Split._fields, parts, strict=True)),
    }  # fmt: skip
    return {name: values for name, values in measures.items() if name not in RARE}


def draw_sample(
    population: Population, count: int, generator: np.random.Generator
) -> tuple[dict[str, Floats], dict[str, LeftOut]]:
    """Draw ``count`` clusters; return the measures of this draw, and without each of its clusters."""
    members = [np.flatnonzero(population.clusters == number) for number in range(population.clusters.max() + 1)]
    rows = [members[number] for number in generator.integers(0, len(members), count)]
    names = [str(number) for number, own in enumerate(rows) for _ in own]
    drawn = np.zeros((len(names), SIZE))
    drawn[np.arange(len(names)), np.concatenate(rows)] = 1.0
    weights, sizes = leave_out_weights(names)
    point = measure(population, np.full((1, len(names)), 1 / len(names)) @ drawn)
    return point, {name: LeftOut(values, sizes) for name, values in measure(population, weights @ drawn).items()}


def coverage(populations: Sequence[Population], count: int, repeats: int, seed: int = 0) -> dict[str, Floats]:
    """Return the share of intervals that hold the population's value, by measure: of each population, then of their mean."""
    everything = np.full((1, SIZE), 1 / SIZE)
    truths = [measure(population, everything) for population in populations]
    generator, held = np.random.default_rng(seed), {name: np.zeros(len(truths) + 1) for name in truths[0]}
    for _ in range(repeats):
        samples = [draw_sample(population, count, generator) for population in populations]
        for name, hits in held.items():
            points = [float(point[name][0]) for point, _ in samples]
            strata, values = [left_out[name] for _, left_out in samples], [truth[name][0] for truth in truths]
            cases = [([s], p, v) for s, p, v in zip(strata, points, values, strict=True)]
            bounds = (0.0, 1.0) if name in RATES and name != "position_effect" else ()
            for case, (parts, point, value) in enumerate([*cases, (strata, np.mean(points), np.mean(values))]):
                _, low, high = jackknife_interval(float(point), parts, *bounds)
                hits[case] += low - 1e-12 <= value <= high + 1e-12
    return {name: hits / repeats for name, hits in held.items()}


def main() -> None:
    repeats, seed = (int(sys.argv[n]) if len(sys.argv) > n else default for n, default in ((1, 400), (2, 0)))
    with TemporaryDirectory() as folder:
        draw(Path(folder), samples=140, seed=5)
        graphs = [
            [build_graph(sample, VARIANTS["every-state"]) for sample in load_samples(Path(folder), name)]
            for name in SCENARIOS
        ]
    for name in sys.argv[3:] or KINDS:
        populations = [plant(each, KINDS[name]) for each in graphs]
        for count in COUNTS:
            shares = coverage(populations, count, repeats, seed)
            every = np.array([row for measure, row in shares.items() if measure != "recognition"])
            print(
                f"{name}, {count} a scenario: mean {every.mean():.3f}, {every.min():.3f} to {every.max():.3f}; "
                f"{', '.join(SCENARIOS)}, mean of both:",
                flush=True,
            )
            for measure_name, row in shares.items():
                print(f"  {measure_name:18}", *(f"{share:.3f}" for share in row), flush=True)


if __name__ == "__main__":
    main()
