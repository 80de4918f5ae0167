"""The pending work of a sweep by kind, and the estimated rates that its scheduler starts with.

Estimates are in no key and change no answer: a wrong estimate only costs time, and the scheduler corrects it.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from envs.samples import paper_ids
from orchestrator.planning.plan import worker_group
from orchestrator.scheduling.commands import Demand
from orchestrator.scheduling.forecast.throughput import (
    OBSERVED_FILE,
    ObservedRate,
    episode_rate,
    gpu_types,
    mean_pictures,
    read_observed,
)
from sweeps.spec import Cell, ModelSpec, Protocol, Sweep

OPEN_ENDED = 100
"""Samples per scenario in the paper's open-ended subset."""


@dataclass(frozen=True, slots=True)
class PendingWork:
    """The work that is still to do."""

    episodes: Mapping[str, int]
    """Group -> multiple-choice episodes."""
    answers: Mapping[str, int]
    """Group -> open-ended answers."""
    pictures: Mapping[str, float] = field(default_factory=dict)
    """Group -> mean pictures per multiple-choice episode."""
    unread: int = 0
    """Number of stored answers without a verdict."""

    def episode_count(self, name: str) -> int:
        """Return the number of a group's multiple-choice episodes and open-ended answers."""
        return self.episodes.get(name, 0) + self.answers.get(name, 0)


def published_work(sweep: Sweep) -> PendingWork:
    """Return all work of a sweep over the published benchmark, counted from the shipped ids without a data folder."""
    return count_work((cell, published_samples(sweep, cell)) for cell in sweep.cells())


def published_samples(sweep: Sweep, cell: Cell) -> int:
    """Return how many samples of the published benchmark a cell plays."""
    selection, scenario = sweep.selection_for(cell.protocol), cell.scenario
    if scenario in selection.ids:
        return len(selection.ids[scenario])
    published = len(paper_ids()[scenario])
    count = min(published, OPEN_ENDED) if selection.subset == "open-ended" else published
    return count if selection.limit is None else min(count, selection.limit)


def count_work(episodes: Iterable[tuple[Cell, int]], unread: int = 0) -> PendingWork:
    """Return the work of pairs of a cell and its number of pending episodes, and of ``unread`` stored answers."""
    counts, pictures = {protocol: Counter[str]() for protocol in Protocol}, dict[str, float]()
    for cell, number in episodes:
        name = worker_group(cell.model)
        counts[cell.protocol][name] += number
        if not cell.protocol.is_open_ended:
            pictures[name] = pictures.get(name, 0.0) + number * mean_pictures(cell.condition)
    choice = counts[Protocol.MCQA] + counts[Protocol.TOOLS]
    means = {name: count / choice[name] for name, count in pictures.items() if choice[name]}
    # an answer of several turns counts as one, because the number of turns is unknown
    answers = counts[Protocol.OEG] + counts[Protocol.OEG_MULTI]
    return PendingWork(choice, answers, means, unread)


def estimate_demands(demands: Mapping[str, Demand], sweep: Sweep, gpu_type: str) -> dict[str, Demand]:
    """Return the demands with estimated rates, from the table and from measurements in sibling run folders.

    Unchanged for a GPU that is not in the table, and for sweeps without multiple choice: the length of answers is not known in
    advance, and with a rate that is far too high a worker would seem to hang. Their rates are learned while they play.
    """
    kind = gpu_type.partition("-")[0].lower()
    if Protocol.MCQA not in sweep.protocols or kind not in gpu_types():
        return dict(demands)
    observed, pictures = read_observed(sibling_runs(sweep), kind), published_work(sweep).pictures
    estimated = dict(demands)
    for model in split_by_gpu(sweep)[0]:
        if model.name not in demands:
            continue
        rate = episode_rate(model, kind, observed.get(model.name, ObservedRate()), pictures.get(model.name))
        estimated[model.name] = replace(demands[model.name], rate=rate.episodes, start=rate.start)
    return estimated


def sibling_runs(sweep: Sweep) -> list[Path]:
    """Return the run folders with measurements that have the same parent folder as the sweep's own, which is included."""
    return sorted(path.parent for path in Path(sweep.output).parent.glob(f"*/{OBSERVED_FILE}"))


def split_by_gpu(sweep: Sweep) -> tuple[Sequence[ModelSpec], Sequence[ModelSpec]]:
    """Return the models on GPUs, and the models without GPUs (services, policies); each worker group once."""
    models = {worker_group(model): model for model in sweep.models}.values()
    return [m for m in models if m.gpus], [m for m in models if not m.gpus]
