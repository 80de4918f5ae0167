"""The pending work of a sweep by kind, and the rates that its scheduler starts from.

An estimate is never part of a key and changes no answer: a wrong one costs time alone, and the schedule corrects it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from envs.samples import kept
from orchestrator.planning.plan import group
from orchestrator.scheduling.forecast.throughput import OBSERVED, Observed, gpu_types, observed, pictures_shown, rate
from orchestrator.scheduling.scheduler import Demand
from sweeps.spec import Cell, ModelSpec, Protocol, Selection, Sweep

OPEN_ENDED = 100
"""Samples a scenario in the paper's open-ended subset."""


@dataclass(frozen=True, slots=True)
class PendingWork:
    """What is still to do."""

    episodes: Mapping[str, int]
    """Group -> episodes of multiple choice."""
    answers: Mapping[str, int]
    """Group -> open-ended answers."""
    pictures: Mapping[str, float] = field(default_factory=dict)
    """Group -> pictures that one of its episodes of multiple choice shows on average."""
    unread: int = 0
    """Answers that are stored and wait for a verdict."""

    def of(self, name: str) -> int:
        """Episodes of both kinds."""
        return self.episodes.get(name, 0) + self.answers.get(name, 0)


def published(sweep: Sweep) -> PendingWork:
    """A sweep over the published benchmark of which nothing is played, reckoned from the kept ids: needs no data folder."""
    return counted((cell, samples_of(sweep, cell)) for cell in sweep.cells())


def samples_of(sweep: Sweep, cell: Cell) -> int:
    """Samples of a cell over the published benchmark."""
    return _samples(sweep.selects(cell.protocol), cell.scenario)


def counted(episodes: Iterable[tuple[Cell, int]], unread: int = 0) -> PendingWork:
    """The work of so many episodes of each cell."""
    counts, pictures = {protocol: Counter[str]() for protocol in Protocol}, dict[str, float]()
    for cell, number in episodes:
        name = group(cell.model)
        counts[cell.protocol][name] += number
        if not cell.protocol.in_words:
            pictures[name] = pictures.get(name, 0.0) + number * pictures_shown(cell.condition)
    choice = counts[Protocol.MCQA] + counts[Protocol.TOOLS]
    means = {name: shown / choice[name] for name, shown in pictures.items() if choice[name]}
    openly = (
        counts[Protocol.OEG] + counts[Protocol.OEG_MULTI]
    )  # of several turns: each as one, what models do is not known
    return PendingWork(choice, openly, means, unread)


def _samples(pick: Selection, scenario: str) -> int:
    if scenario in pick.ids:
        return len(pick.ids[scenario])
    whole = len(kept()[scenario])
    count = min(whole, OPEN_ENDED) if pick.subset == "open-ended" else whole
    return count if pick.limit is None else min(count, pick.limit)


def estimated(demands: Mapping[str, Demand], sweep: Sweep, gpu_type: str) -> dict[str, Demand]:
    """The demands with rates, as far as the table knows the GPU: what runs beside this one's folder saw weighs in.

    Rates of multiple choice alone: how long answers and verdicts are is not known before, and who is told a rate far too
    high is taken for a worker that hangs. A sweep of them learns its rates as it goes.
    """
    if Protocol.MCQA not in sweep.protocols:
        return dict(demands)
    kind = gpu_type.partition("-")[0].lower()
    if kind not in gpu_types():
        return dict(demands)
    seen, shown = observed(runs_beside(sweep), kind), published(sweep).pictures
    known = {
        model.name: rate(model, kind, seen.get(model.name, Observed()), shown.get(model.name))
        for model in by_gpu(sweep)[0]
    }
    return {
        name: replace(one, rate=known[name].episodes, start=known[name].start) if name in known else one
        for name, one in demands.items()
    }


def runs_beside(sweep: Sweep) -> list[Path]:
    """The run folders beside the sweep's own, and that one, as far as they hold what a run saw."""
    return sorted(path.parent for path in Path(sweep.output).parent.glob(f"*/{OBSERVED}"))


def by_gpu(sweep: Sweep) -> tuple[Sequence[ModelSpec], Sequence[ModelSpec]]:
    """The models that take GPUs, and the others: services and policies, whose pace no GPU sets."""
    models = {group(model): model for model in sweep.models}.values()
    return [m for m in models if m.gpus], [m for m in models if not m.gpus]
