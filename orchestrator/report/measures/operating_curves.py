"""The operating curves of a run (condition every-state): reads the table of options and computes exact values by cell.

Cells are averaged over the published and the seeded orders of the options; figures against played episodes use the published
order, which was played.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from actors.playing.prompts import apply_condition
from actors.playing.state_graph import StateGraph, build_graph
from envs.types import Sample
from orchestrator.operating.knowledge import KNOWN, Detection, Signals, collect_signals, detect
from orchestrator.operating.policy import (
    NEUTRAL_INDEX,
    Booleans,
    Floats,
    Policy,
    make_policy,
    persistent,
    uniform_policy,
)
from orchestrator.operating.split import Curve
from orchestrator.operating.values import Values, can_end_right, greedy_values, sample_values, well_timed_values
from orchestrator.report.run_data import RunData, cached_per_run
from orchestrator.storage.episode_store import options
from sweeps.conditions import Condition


@dataclass(frozen=True)
class OperatingCell:
    """One model in one scenario under one condition: its policy at every question, by order of options and by sample."""

    model: str
    scenario: str
    condition: str
    """Name of the condition of published order, such as ``every-state``."""
    samples: tuple[Sample, ...]
    """The samples that were asked about in every order."""
    graphs: tuple[tuple[StateGraph, ...], ...]
    """(orders, samples)"""
    policies: tuple[tuple[Policy, ...], ...]
    """(orders, samples)"""
    exact: bool
    """False if the engine gave no probabilities, so that only the model's own point is estimated."""
    unreadable: float
    """Mean probability of replies that name no option, over questions."""

    @property
    def orders(self) -> int:
        """Return the number of orders of options."""
        return len(self.graphs)

    @cached_property
    def plain(self) -> list[list[Values]]:
        """Return the values of the plain family, (orders, samples)."""
        return [[sample_values(*pair) for pair in zip(*row, strict=True)] for row in self._rows()]

    @cached_property
    def persistent(self) -> list[list[Values]]:
        """Return the values of the family that never gives up, (orders, samples)."""
        return [
            [sample_values(graph, persistent(policy)) for graph, policy in zip(*row, strict=True)]
            for row in self._rows()
        ]

    def curve(self, never_gives_up: bool = False) -> Curve:
        """Return the curve of each sample, averaged over orders."""
        values = self.persistent if never_gives_up else self.plain
        accuracy, suggestions = (
            np.mean([[getattr(sample, name) for sample in order] for order in values], axis=0)
            for name in ("accuracy", "suggestions")
        )
        return Curve(accuracy, suggestions)

    @property
    def order_accuracies(self) -> Floats:
        """Return the model's own accuracy in each order, 0 to 1."""
        return np.array([np.mean([sample.accuracy[NEUTRAL_INDEX] for sample in order]) for order in self.plain])

    @cached_property
    def published(self) -> tuple[float, float]:
        """Return accuracy (0 to 1) and suggestions of the model's own point in the published order."""
        first = self.plain[0]
        right, turns = (
            float(np.mean([getattr(v, n)[NEUTRAL_INDEX] for v in first])) for n in ("accuracy", "suggestions")
        )
        return right, turns

    @cached_property
    def greedy(self) -> tuple[float, float] | None:
        """Return accuracy and suggestions of greedy decoding in the published order; None if unknown."""
        points = [greedy_values(*pair) for pair in zip(self.graphs[0], self.policies[0], strict=True)]
        if None in points or not points:
            return None
        right, turns = np.mean([point for point in points if point is not None], axis=0)
        return float(right), float(turns)

    @cached_property
    def bounds(self) -> dict[str, float]:
        """Return the chain of upper bounds on accuracy (0 to 1), each with one weakness less, from the model's own point."""
        mean = {name: self.curve(name == "persistent").accuracy.mean(axis=0) for name in ("plain", "persistent")}
        timed, chosen = (self._mean_timed(chooses) for chooses in (False, True))
        unbiased = float(mean["plain"].max())
        return {
            "unbiased": unbiased,
            "persistent": max(unbiased, float(mean["persistent"].max())),
            "well_timed": timed,
            "right_suggestion": chosen,
            "recognition": float(np.mean([can_end_right(graph) for graph in self.graphs[0]])),
        }

    def _mean_timed(self, chooses: bool) -> float:
        return float(
            np.mean([[well_timed_values(g, p, chooses)[0] for g, p in zip(*row, strict=True)] for row in self._rows()])
        )

    @cached_property
    def signals(self) -> Signals:
        """Return the log-odds of asking at every question of the published order."""
        return collect_signals(list(self.policies[0]))

    @property
    def own_labels(self) -> Booleans:
        """Return for each question of ``signals`` whether the model itself can know its category."""
        return self.signals.recognition >= KNOWN

    def detection(self, known: Booleans, weights: Floats | None = None) -> Detection:
        """Return AUC and neutral b for these labels."""
        return detect(self.signals, known, weights)

    def _rows(self) -> Iterator[tuple[tuple[StateGraph, ...], tuple[Policy, ...]]]:
        return zip(self.graphs, self.policies, strict=True)


@cached_per_run
def operating_cells(run_data: RunData) -> list[OperatingCell]:
    """Return the cells of every-state of which the samples are at hand, in the sweep's order."""
    if run_data.states.is_empty():
        return []
    stored = _stored_options(run_data)
    graphs: dict[tuple[str, int, str], StateGraph] = {}
    cells = []
    for model in run_data.sweep.models:
        for scenario in run_data.sweep.scenarios:
            for condition in run_data.sweep.conditions:
                if condition.every_state and (
                    cell := _read_cell(run_data, stored, graphs, model.name, scenario, condition)
                ):
                    cells.append(cell)
    return cells


Answers = list[tuple[list[float], int, int | None]]
"""Per question: log-probabilities of the options, index of the greedy one (-1 for the residual, -2 if unknown), samples."""


def _stored_options(run_data: RunData) -> Mapping[tuple[str, str, str], Mapping[int, Answers]]:
    """Return the stored options: (model, scenario, condition) -> sample id -> questions."""
    rows = options(run_data.folder).join(run_data.states.lazy().select("key"), on="key", how="semi")
    greedy = pl.col("position").filter(pl.col("greedy")).first().fill_null(-2)
    questions = (
        rows.sort("key", "turn", pl.col("position") < 0, "position")
        .group_by("model", "scenario", "condition", "sample_id", "turn", maintain_order=True)
        .agg(pl.col("log_probability"), greedy, pl.col("samples").first())
        .collect()
    )
    stored: dict[tuple[str, str, str], dict[int, Answers]] = {}
    for model, scenario, condition, sample, _, logs, best, samples in questions.iter_rows():
        stored.setdefault((model, scenario, condition), {}).setdefault(sample, []).append((logs, best, samples))
    return stored


def _read_cell(
    run_data: RunData,
    stored: Mapping[tuple[str, str, str], Mapping[int, Answers]],
    graphs: dict[tuple[str, int, str], StateGraph],
    model: str,
    scenario: str,
    condition: Condition,
) -> OperatingCell | None:
    orders = [each for each in run_data.sweep.replicates.expand(condition) if (model, scenario, each.name) in stored]
    samples = run_data.samples.get(scenario, {})
    if not orders or orders[0].order:
        return None
    answers = [stored[model, scenario, each.name] for each in orders]
    own_graphs: list[dict[int, StateGraph]] = []
    for order, known in zip(orders, answers, strict=True):
        for number in known.keys() & samples.keys():
            key = (scenario, number, order.name)
            if key not in graphs:
                graphs[key] = build_graph(apply_condition(samples[number], order, run_data.sweep.seed), order)
        own_graphs.append({n: graphs[scenario, n, order.name] for n in known.keys() & samples.keys()})
    shared = sorted(
        set.intersection(
            *({n for n in own if _fits(own[n], known[n])} for own, known in zip(own_graphs, answers, strict=True))
        )
    )
    if not shared:
        return None
    policies = tuple(
        tuple(_policy(own[number], known[number]) for number in shared)
        for own, known in zip(own_graphs, answers, strict=True)
    )
    residuals = [np.exp(logs[-1]) for number in shared for logs, _, _ in answers[0][number]]
    return OperatingCell(
        model, scenario, condition.name, tuple(samples[number] for number in shared),
        tuple(tuple(own[number] for number in shared) for own in own_graphs), policies,
        all(count is None for number in shared for _, _, count in answers[0][number]), float(np.mean(residuals)),
    )  # fmt: skip


def _fits(graph: StateGraph, answers: Answers) -> bool:
    """Return True if the stored questions are those of the graph."""
    sizes = [len(question.options) + 1 for question in graph.questions]
    return sizes == [len(logs) for logs, _, _ in answers]


def _policy(graph: StateGraph, answers: Answers) -> Policy:
    probabilities = [np.exp(np.array(logs[:-1])) for logs, _, _ in answers]
    return make_policy(graph, probabilities, [best for _, best, _ in answers])


@cached_per_run
def exact_uniform(run_data: RunData, scenario: str) -> tuple[float, float] | None:
    """Return exact accuracy (0 to 1) and suggestions of uniform play in a scenario; None without its samples."""
    samples = run_data.samples.get(scenario, {})
    plain = Condition(name="plain")
    points = [
        sample_values(graph := build_graph(each, plain), uniform_policy(graph), np.zeros(1))
        for each in samples.values()
    ]
    if not points:
        return None
    return float(np.mean([p.accuracy[0] for p in points])), float(np.mean([p.suggestions[0] for p in points]))
