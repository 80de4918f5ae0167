"""The operating curves of a run (condition every-state): reads the table of options and computes exact values by cell.

Values of cells are averages over the published and the seeded orders of the options; comparisons with played episodes use the
published order, in which they were played.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import polars as pl
from numpy.typing import NDArray

from actors.playing.prompts import apply_condition
from envs.types import Sample
from orchestrator.report.measures.clustering import WIDER, number_clusters, sample_clusters
from orchestrator.report.run_data import AUTOMATIC, CLUSTERS, RunData, cached_per_run
from orchestrator.report.statistics.clustered import estimate_mean, t_interval
from orchestrator.storage.episode_store import options
from proactive_operating.policy import Policy, make_policy
from proactive_operating.state_graph import StateGraph, build_graph
from proactive_operating.summary import Summary, summarize
from sweeps.conditions import Condition


@dataclass(frozen=True)
class OperatingCell:
    """One model in one scenario under one condition: its exact values by sample."""

    model: str
    scenario: str
    condition: str
    """Name of the condition that keeps the published order of options, such as ``every-state``."""
    samples: tuple[Sample, ...]
    """The samples whose questions were asked in every order."""
    orders: int
    """Number of orders of options."""
    scored: bool
    """False if the engine gave no probabilities, so that only the model's own point is estimated."""
    thoughts: int
    """Largest number of sampled thoughts over which a question's probabilities are averaged; 0 if replies had no thoughts."""
    unreadable: float
    """Mean probability of replies that name no option, over questions."""
    summary: Summary
    graphs: tuple[StateGraph, ...] = ()
    """Of the published order, like ``policies``."""
    policies: tuple[Policy, ...] = ()

    @property
    def exact(self) -> bool:
        """Return True if nothing was sampled."""
        return self.scored and not self.thoughts


@cached_per_run
def operating_cells(run_data: RunData) -> list[OperatingCell]:
    """Return the every-state cells whose samples are available, in the sweep's order."""
    if run_data.asked.is_empty():
        return []
    cells = []
    for model in run_data.sweep.models:
        stored = _stored_options(run_data, model.name)
        for scenario in run_data.sweep.scenarios:
            for condition in run_data.sweep.conditions:
                if condition.every_state and (cell := _read_cell(run_data, stored, model.name, scenario, condition)):
                    cells.append(cell)
    return cells


Answers = list[tuple[list[float], int, int | None, int | None]]
"""Per question: log-probabilities of the options and, last, the residual; index of the greedy option (-1: the residual, -2:
unknown); samples; thoughts."""


def _stored_options(run_data: RunData, model: str) -> Mapping[tuple[str, str], Mapping[int, Answers]]:
    """Return the stored options of a model: (scenario, condition) -> sample id -> questions."""
    rows = options(run_data.folder).filter(pl.col("model") == model)
    rows = rows.join(run_data.asked.lazy().select("key"), on="key", how="semi")
    greedy = pl.col("position").filter(pl.col("greedy")).first().fill_null(-2)
    questions = (
        rows.sort("key", "turn", pl.col("position") < 0, "position")
        .group_by("scenario", "condition", "sample_id", "turn", maintain_order=True)
        .agg(pl.col("log_probability"), greedy, pl.col("samples", "thoughts").first())
        .collect()
    )
    stored: dict[tuple[str, str], dict[int, Answers]] = {}
    for scenario, condition, sample, _, *answer in questions.iter_rows():
        stored.setdefault((scenario, condition), {}).setdefault(sample, []).append(tuple(answer))
    return stored


def _read_cell(
    run_data: RunData,
    stored: Mapping[tuple[str, str], Mapping[int, Answers]],
    model: str,
    scenario: str,
    condition: Condition,
) -> OperatingCell | None:
    orders = [order for order in run_data.sweep.replicates.expand(condition) if (scenario, order.name) in stored]
    samples = run_data.samples.get(scenario, {})
    if not orders or orders[0].order:  # the published order, number 0, is missing
        return None
    asked = [(order, stored[scenario, order.name]) for order in orders]
    shared = [
        number
        for number in sorted(samples)
        if all(_fits(condition_graph(run_data, scenario, number, order), own.get(number)) for order, own in asked)
    ]
    if not shared:
        return None
    pairs = []
    for order, own in asked:
        graphs = [condition_graph(run_data, scenario, number, order) for number in shared]
        pairs.append((graphs, [_policy(graph, own[number]) for graph, number in zip(graphs, shared, strict=True)]))
    published = [question for number in shared for question in asked[0][1][number]]
    residuals = [np.exp(logs[-1]) for logs, *_ in published]
    return OperatingCell(
        model, scenario, condition.name, tuple(samples[number] for number in shared), len(orders),
        all(count is None for _, _, count, _ in published), max(count or 0 for *_, count in published),
        float(np.mean(residuals)), summarize(pairs), tuple(pairs[0][0]), tuple(pairs[0][1]),
    )  # fmt: skip


@cached_per_run
def condition_graph(run_data: RunData, scenario: str, number: int, condition: Condition) -> StateGraph:
    """Return the graph of a sample as a condition of the run shows it."""
    sample = run_data.samples[scenario][number]
    return build_graph(apply_condition(sample, condition, run_data.sweep.seed), condition)


def _fits(graph: StateGraph, answers: Answers | None) -> bool:
    """Return True if the stored questions are those of the graph."""
    sizes = [len(question.options) + 1 for question in graph.questions]
    return sizes == [len(logs) for logs, *_ in answers or ()]


def _policy(graph: StateGraph, answers: Answers) -> Policy:
    probabilities = [np.exp(np.array(logs[:-1])) for logs, *_ in answers]
    return make_policy(graph, probabilities, [best for _, best, *_ in answers])


@cached_per_run
def scenario_clusters(run_data: RunData, scenario: str) -> dict[int, int]:
    """Return the cluster of each sample of a scenario; nothing if its samples count as independent.

    Where nothing was played, clusters count by exact accuracies as they do by answers in ``measures.clustering``.
    """
    rows = sample_clusters(run_data).filter(scenario=scenario)
    if run_data.cluster == AUTOMATIC and run_data.scored.filter(scenario=scenario).is_empty():
        kinds = [number_clusters(run_data, scenario, kind) for kind in CLUSTERS]
        rows = max(kinds, key=partial(_widening, run_data, scenario))
        if _widening(run_data, scenario, rows) <= WIDER:
            return {}
    return dict(rows.select("sample_id", "cluster").iter_rows())


def _widening(run_data: RunData, scenario: str, rows: pl.DataFrame) -> float:
    """Return how many times as wide these clusters make the intervals of the models' accuracy; 0 if this is not known."""
    clusters, widths = dict(rows.select("sample_id", "cluster").iter_rows()), np.zeros(2)
    for cell in operating_cells(run_data):
        if cell.scenario == scenario and cell.model not in run_data.baselines:
            groups = np.array([clusters[sample.id] for sample in cell.samples])
            for number, part in enumerate((groups, None)):
                mean = estimate_mean(cell.summary.own.accuracy, part, unit=0.0)
                widths[number] += t_interval(mean)[2] - mean.value
    return float(widths[0] / widths[1]) if widths[1] > 0 and widths[0] > 0 else 0.0


def cell_clusters(run_data: RunData, cell: OperatingCell) -> NDArray[np.int64]:
    """Return the cluster of each sample of a cell; its own id where no clusters of the scenario count."""
    clusters = scenario_clusters(run_data, cell.scenario)
    return np.array([clusters.get(sample.id, sample.id) for sample in cell.samples])
