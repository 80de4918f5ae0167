"""The forecast of a sweep on a number of GPUs, by the scheduler that will run it: hours, range, lower bound, cost."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from random import Random

from orchestrator.planning.plan import JUDGE, group, judge_group
from orchestrator.scheduling.commands import Demand
from orchestrator.scheduling.forecast import throughput, workload
from orchestrator.scheduling.forecast.simulator import FaultModel, Simulated, Work, simulate
from orchestrator.scheduling.forecast.throughput import Observed, Rate
from orchestrator.scheduling.forecast.workload import PendingWork
from orchestrator.scheduling.nodes import Node, nodes_of
from orchestrator.scheduling.resources import demands, shares
from sweeps.load import SweepError
from sweeps.spec import ModelSpec, Sweep

HOUR = 3600.0
RATE_ERRORS = {"measured": (0.1, 0.0), "reckoned": (0.5, 0.3), "guessed": (0.7, 0.3)}
"""Source of a rate -> spread (sigma of a log-normal) of its error, the model's own and the one that all models share.

Reckoned rates are taken to be right within a factor of 1.5 to 3; what is wrong with turns an episode or with how well GPUs are
used is wrong for all of them.
"""


@dataclass(frozen=True)
class Forecast:
    """A simulated sweep, and what it was reckoned from."""

    gpus: int
    gpu_type: str
    nodes: Sequence[Node]
    pending: PendingWork
    rates: Mapping[str, Rate]
    """Group on GPUs -> its pace; the judge's too."""
    without_gpu: Sequence[ModelSpec]
    """Models and judges without a GPU: not simulated."""
    found: Simulated
    makespans: Sequence[float] = ()
    """Seconds in further simulations, in which every rate and start is off at random."""
    serving: str = ""
    """The group of a judge that episodes wait for: it has GPUs, and what it makes them wait is not simulated."""

    def lines(self, price: float | None = None) -> list[str]:
        """The forecast for a person; ``price`` is for one GPU-hour."""
        found, held = self.found, self.gpus * self.found.makespan / HOUR
        models = [name for name in self.rates if not name.startswith(JUDGE) and name not in found.abandoned]
        judged = f" and {found.verdicts:,} verdicts" if found.verdicts else ""
        played = "1 model" if len(models) == 1 else f"{len(models)} models"
        lines = [
            f"{found.delivered:,} episodes{judged} of {played} on {self.gpus} {self.gpu_type.upper()}",
            f"makespan     {found.makespan / HOUR:.2f} h{self._range()}",
            f"lower bound  {found.bound.seconds / HOUR:.2f} h ({self._ratio()})",
            f"GPU-hours    {held:.1f} held, {found.busy / HOUR:.1f} in use, {len(found.spans)} worker starts",
        ]
        if price is not None:
            lines.append(f"cost         {held * price:,.2f} at {price:g} a GPU-hour, all GPUs held to the end")
        lines += [*self._sources(), *self._front_ends()]
        if self.serving:
            lines.append(
                f"{self.serving} reads turn by turn on GPUs kept for it; what episodes wait for it is not counted"
            )
        lines += [f"left out: {reason}" for reason in found.abandoned.values()]
        if self.without_gpu:
            names = ", ".join(model.name for model in self.without_gpu)
            episodes = sum(self.pending.of(name) for name in {group(model) for model in self.without_gpu})
            played = f" ({episodes:,} episodes)" if episodes else ""
            lines.append(f"apart, without GPU: {names}{played}; a service or a CPU sets their pace")
        if sum(self.pending.answers.values()) or self.pending.unread:
            lines.append(throughput.lengths())
        return lines

    def _range(self) -> str:
        """How far the makespan varies where rates are off."""
        if not self.makespans:
            return ""
        low, high = min(self.makespans) / HOUR, max(self.makespans) / HOUR
        return f" ({low:.1f} to {high:.1f} h in {len(self.makespans)} simulations with rates off at random)"

    def _ratio(self) -> str:
        ratio = self.found.ratio
        return "every model was given up" if ratio is None else f"makespan is {ratio:.3f} times that"

    def _sources(self) -> list[str]:
        """Which rates are measured, reckoned or guessed."""
        by: dict[str, list[str]] = {}
        for name, rate in self.rates.items():
            by.setdefault(rate.source, []).append(name)
        return [f"rates {source}: {', '.join(by[source])}" for source in RATE_ERRORS if source in by]

    def _front_ends(self) -> list[str]:
        """Which models a GPU would play faster than their front end prepares requests."""
        names = [f"{name} ({rate.episodes:.2g} episodes/s)" for name, rate in self.rates.items() if rate.front_end]
        return [f"bound by one front end a worker, not by the GPU: {', '.join(names)}"] if names else []


def forecast(
    sweep: Sweep,
    gpus: int,
    gpu_type: str,
    folders: Sequence[Path] = (),
    pending: PendingWork | None = None,
    simulations: int = 0,
) -> Forecast:
    """Simulate what is pending of the sweep; by default all of it, over the published benchmark.

    ``folders`` are run folders whose measured rates weigh in; ``simulations``: how many more are run with rates that are
    off at random, for the range of the makespan. Raises SweepError for an unknown GPU type, or when neither
    a model nor the judge takes a GPU.
    """
    models, others = workload.by_gpu(sweep)
    judge = sweep.judge if sweep.judged else None
    if judge and not judge.model.gpus:
        others = [*others, judge.model]
    elif not models and not judge:
        raise SweepError("no model of this sweep takes a GPU; leave out --gpus")
    pending = pending or workload.published(sweep)
    known = paces(sweep, gpu_type, folders, pending)
    with_rates = {
        name: _paced(demand, known[name], known) for name, demand in demands(sweep, 0, gpus).items() if name in known
    }
    numbers = count()
    queues = {name: [next(numbers) for _ in range(pending.of(name))] for name in with_rates if pending.of(name)}
    answers = [one for name, queue in queues.items() for one in _spread(queue, pending.answers.get(name, 0))]
    reads = {}
    if judge and judge.model.gpus:
        services = sum(pending.answers.get(group(model), 0) for model in others)  # as if they were there from the start
        reads = {answer: next(numbers) for answer in answers}
        queues[judge_group(judge)] = [next(numbers) for _ in range(pending.unread + services)]
    serving = judge_group(sweep.serving_judge) if sweep.serving_judge and sweep.serving_judge.model.gpus else ""
    if serving:
        queues.setdefault(serving, [])
    nodes = nodes_of(gpus, gpu_type)
    share = shares(sweep, gpus)
    found = simulate(queues, with_rates, gpus, FaultModel(), nodes, share, reads)
    wrong = ({name: _off(with_rates[name], len(queue), known[name], name, seed) for name, queue in queues.items()}
             for seed in range(simulations))  # fmt: skip
    makespans = [
        simulate(queues, with_rates, gpus, FaultModel(), nodes, share, reads, works).makespan for works in wrong
    ]
    return Forecast(gpus, gpu_type, nodes, pending, known, others, found, makespans, serving)


def _off(demand: Demand, episodes: int, known: Rate, name: str, seed: int) -> Work:
    """A model whose true rate and start lie around the known ones, as far as their source may be wrong."""
    own, shared = RATE_ERRORS[known.source]
    chance = Random(f"{seed}/{name}")
    factor = chance.lognormvariate(0.0, own) * Random(f"{seed}/shared").lognormvariate(0.0, shared)
    start = known.start * chance.lognormvariate(0.0, own)
    return Work(episodes, demand.gpus, known.episodes * factor, start, demand.at_once)


def paces(sweep: Sweep, gpu_type: str, folders: Sequence[Path], pending: PendingWork) -> dict[str, Rate]:
    """The rate of each group that takes GPUs, the judge's too; raises SweepError for an unknown GPU type."""
    kinds = (throughput.EPISODES, throughput.ANSWERS, throughput.VERDICTS)
    played, answered, read = (throughput.observed(folders, gpu_type, kind) for kind in kinds)
    found = {}
    for model in workload.by_gpu(sweep)[0]:
        name = model.name
        episodes = throughput.rate(model, gpu_type, played.get(name, Observed()), pending.pictures.get(name))
        answers = throughput.answer_rate(model, gpu_type, answered.get(name, Observed()))
        found[name] = throughput.mixed(
            [(pending.episodes.get(name, 0), episodes), (pending.answers.get(name, 0), answers)]
        )
    if (sweep.judged or sweep.serving_judge) and sweep.judge and sweep.judge.model.gpus:
        seen = read.get(sweep.judge.model.name, Observed())
        found[judge_group(sweep.judge)] = throughput.verdict_rate(sweep.judge, gpu_type, seen)
    return found


def _paced(demand: Demand, known: Rate, groups: Container[str]) -> Demand:
    """The demand with its rate; a judge that is not simulated is left out."""
    return replace(demand, rate=known.episodes, start=known.start, judge=demand.judge if demand.judge in groups else "")


def _spread(queue: Sequence[int], number: int) -> Sequence[int]:
    """``number`` evenly spaced items of a queue."""
    return [queue[place * len(queue) // number] for place in range(number)]
