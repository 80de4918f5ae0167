"""How often the intervals of operating curves hold a planted truth: ``python -m tests.orchestrator.operating.coverage``.

A population of planted samples has known values. Each repeat draws samples from it and asks whether the 95% interval of the
bootstrap holds the population's value.
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
from orchestrator.operating.knowledge import KNOWN, Detection, Signals, collect_signals, detect
from orchestrator.operating.policy import NEUTRAL_INDEX, Policy
from orchestrator.operating.split import Curve, Split, interval, resampling_weights, split
from orchestrator.operating.values import sample_values
from sweeps.conditions import VARIANTS
from tests.orchestrator.operating.planted import planted

MEASURES = ("acc", *Split._fields, "auc", "neutral")
POPULATION, DRAWS = 600, 400


class Population(NamedTuple):
    """Planted samples: the curves of a model before and after, and the signals of the one before."""

    before: Curve
    after: Curve
    signals: Sequence[Signals]
    """One per sample."""


def plant(graphs: Sequence[StateGraph], size: int = POPULATION) -> Population:
    """Return a population over these graphs, each with many seeds of noise."""
    before, after, signals = [], [], []
    for number in range(size):
        graph = graphs[number % len(graphs)]
        policies: list[Policy] = [
            planted(graph, Random(f"{number}/{skill}"), asks, skill, noise=1.0)
            for asks, skill in ((-1.0, 1.0), (0.0, 2.0))
        ]
        before.append(sample_values(graph, policies[0]))
        after.append(sample_values(graph, policies[1]))
        signals.append(collect_signals([policies[0]]))
    curves = (
        Curve(np.array([v.accuracy for v in values]), np.array([v.suggestions for v in values]))
        for values in (before, after)
    )
    return Population(*curves, signals)


def measure(population: Population, rows: Sequence[int], weights: np.ndarray) -> tuple[float, ...]:
    """Return ``MEASURES`` of the samples with these numbers, weighted."""
    before, after = (Curve(c.accuracy[rows], c.suggestions[rows]) for c in (population.before, population.after))
    return (
        float(weights @ before.accuracy[:, NEUTRAL_INDEX]),
        *split(before, after, weights),
        *_detection(population, rows, weights),
    )


def _detection(population: Population, rows: Sequence[int], weights: np.ndarray) -> Detection:
    own = [population.signals[row] for row in rows]
    sample = np.repeat(np.arange(len(rows)), [len(each.odds) for each in own])
    odds, known = (np.concatenate([getattr(each, name) for each in own]) for name in ("odds", "recognition"))
    return detect(Signals(sample, odds, known), known >= KNOWN, weights)


def coverage(population: Population, samples: int, repeats: int, seed: int = 0) -> dict[str, float]:
    """Return the share of intervals that hold the population's value, by measure."""
    size = len(population.signals)
    truth = measure(population, range(size), np.full(size, 1 / size))
    generator, held = np.random.default_rng(seed), np.zeros(len(MEASURES))
    for repeat in range(repeats):
        rows = generator.integers(0, size, samples)
        point = measure(population, rows, np.full(samples, 1 / samples))
        weights = resampling_weights([str(n) for n in range(samples)], DRAWS, seed=repeat)
        drawn = np.array([measure(population, rows, row) for row in weights])
        limits = [interval(value, column, [samples]) for value, column in zip(point, drawn.T, strict=True)]
        held += [low <= value <= high for (_, low, high), value in zip(limits, truth, strict=True)]
    return dict(zip(MEASURES, (held / repeats).tolist(), strict=True))


def main() -> None:
    with TemporaryDirectory() as folder:
        draw(Path(folder), samples=140, seed=5)
        for name in ("ROD", "QD"):
            graphs = [build_graph(sample, VARIANTS["every-state"]) for sample in load_samples(Path(folder), name)]
            population = plant(graphs)
            for samples in (30, 60):
                shares = coverage(population, samples, repeats=400)
                print(
                    name, samples, " ".join(f"{measure} {share:.3f}" for measure, share in shares.items()), flush=True
                )


if __name__ == "__main__":
    main()
