"""How often the intervals of operating curves hold a planted truth: ``python -m tests.orchestrator.operating.coverage``.

A population of planted samples has known values. Each repeat draws samples, or clusters of alike ones, from it and asks whether
the 95% intervals, computed by the product's own functions, hold the population's values: in two scenarios and in their mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np

from actors.playing.state_graph import StateGraph, build_graph
from envs.demo import draw
from envs.samples import load_samples
from orchestrator.operating.knowledge import KNOWN
from orchestrator.operating.measures import detection_measures, exact_measures, own_measures
from orchestrator.operating.policy import Floats
from orchestrator.operating.split import Split, interval, resampling_weights, split_draws
from orchestrator.operating.summary import Summary, summarize
from sweeps.conditions import VARIANTS
from tests.orchestrator.operating.planted import planted

ORDERS, POPULATION, DRAWS = 3, 240, 400
LIKE = 3
"""Samples of a cluster."""


class Population(NamedTuple):
    """Planted samples of one scenario: a model before and after; ``LIKE`` samples in a row are a cluster."""

    before: Summary
    after: Summary


def plant(graphs: Sequence[StateGraph], alike: bool) -> Population:
    """Return a population over these graphs; ``alike`` gives the samples of a cluster the same will to ask and skill."""
    models = []
    for asks, skill in ((-1.0, 1.0), (0.0, 2.0)):
        orders = []
        for order in range(ORDERS):
            own = [graphs[number % len(graphs)] for number in range(POPULATION)]
            shared = [Random(number // LIKE).gauss(0, 1) if alike else 0.0 for number in range(POPULATION)]
            policies = [
                planted(
                    graph, Random(f"{number}/{order}/{skill}"), asks + shared[number], skill + shared[number] / 2, 1.0
                )
                for number, graph in enumerate(own)
            ]
            orders.append((own, policies))
        models.append(summarize(orders))
    return Population(*models)


def measure(population: Population, weights: Floats) -> dict[str, Floats]:
    """Return every reported measure under each row of weights (draws, samples of the population)."""
    before = population.before
    parts = split_draws(before.plain, population.after.plain, weights).T
    known = before.signals.recognition >= KNOWN
    return {
        **own_measures(before, weights), **exact_measures(before, weights),
        **detection_measures(before, {"own": known}, weights), **dict(zip(Split._fields, parts, strict=True)),
    }  # fmt: skip


def draw_weights(count: int, size: int, generator: np.random.Generator, seed: int) -> tuple[Floats, Floats]:
    """Draw ``count`` clusters of ``size`` samples; return the weights of the draw and those of its bootstrap, by sample."""
    clusters = generator.integers(0, POPULATION // size, count)
    rows = (clusters[:, None] * size + np.arange(size)).ravel()
    drawn = np.zeros((len(rows), POPULATION))
    drawn[np.arange(len(rows)), rows] = 1.0
    names = [str(number // size) for number in range(len(rows))]
    return np.full((1, len(rows)), 1 / len(rows)) @ drawn, resampling_weights(names, DRAWS, seed) @ drawn


def coverage(populations: Sequence[Population], count: int, size: int, repeats: int) -> dict[str, Floats]:
    """Return the share of intervals that hold the population's value, by measure: of each population, then of their mean."""
    everything = np.full((1, POPULATION), 1 / POPULATION)
    truths = [measure(population, everything) for population in populations]
    generator, held = np.random.default_rng(0), {name: np.zeros(len(truths) + 1) for name in truths[0]}
    for repeat in range(repeats):
        samples = []
        for number, population in enumerate(populations):
            point, weights = draw_weights(count, size, generator, 2 * repeat + number)
            samples.append((measure(population, point), measure(population, weights)))
        for name, hits in held.items():
            points = [np.mean(point[name]) for point, _ in samples]
            draws, values = [drawn[name] for _, drawn in samples], [truth[name][0] for truth in truths]
            cases = [*zip(points, draws, values, strict=True), (np.mean(points), np.mean(draws, 0), np.mean(values))]
            for case, (point, drawn, value) in enumerate(cases):
                sizes = [count] * (1 if case < len(truths) else len(truths))
                _, low, high = interval(float(point), drawn, sizes)
                hits[case] += low - 1e-12 <= value <= high + 1e-12
    return {name: hits / repeats for name, hits in held.items()}


def main() -> None:
    names = ("ROD", "QD")
    with TemporaryDirectory() as folder:
        draw(Path(folder), samples=140, seed=5)
        graphs = [
            [build_graph(sample, VARIANTS["every-state"]) for sample in load_samples(Path(folder), name)]
            for name in names
        ]
    for alike in (False, True):
        populations = [plant(each, alike) for each in graphs]
        for count in (30, 60):
            print(f"{count} {'clusters' if alike else 'samples'} a scenario: {', '.join(names)}, mean", flush=True)
            for name, shares in coverage(populations, count, LIKE if alike else 1, repeats=400).items():
                print(f"  {name:18}", *(f"{share:.3f}" for share in shares), flush=True)


if __name__ == "__main__":
    main()
