"""The forecast of a sweep on a number of GPUs: the hours that no schedule can beat, GPU-hours and cost.

The scheduler ends at most 8% later in the simulated sweep of the paper; the rates behind the hours are far less certain.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from orchestrator.judging.judge_queue import check_wording, find_unjudged
from orchestrator.planning.build_plan import build_plan, stored_episodes
from orchestrator.planning.plan import JUDGE, Plan, judge_group, worker_group
from orchestrator.scheduling.balance import PRECISION, Load, tight_end
from orchestrator.scheduling.commands import Demand
from orchestrator.scheduling.forecast import throughput, workload
from orchestrator.scheduling.forecast.throughput import ObservedRate, Rate
from orchestrator.scheduling.forecast.workload import PendingWork, count_work, sibling_runs
from orchestrator.scheduling.nodes import Node, Nodes, build_nodes
from orchestrator.scheduling.resources import demands, shares
from sweeps.load import SweepError
from sweeps.spec import ModelSpec, Sweep

HOUR = 3600.0
SOURCES = {
    "measured": "rates measured by earlier runs",
    "reckoned": "rates reckoned, wrong by a factor of 1.5 to 3",
    "guessed": "rates guessed from the number of parameters",
}
"""Source of a rate -> its words."""


@dataclass(frozen=True, slots=True)
class Work:
    """The true size and speed of one model's work; the scheduler only estimates the speed."""

    episodes: int
    gpus: float
    rate: float
    """Episodes/s of one replica."""
    start: float
    """Seconds of a start."""
    concurrency: int = 1
    """Episodes that a replica plays at once; a single episode takes ``concurrency / rate`` seconds."""
    replicas: int = 1_000_000
    """The largest number of replicas that can work at the same time."""

    @property
    def load(self) -> Load:
        """This work as an argument of ``tight_end``, before any replica starts."""
        return Load(self.gpus, self.episodes / self.rate, self.start, self.replicas)


@dataclass(frozen=True)
class Forecast:
    """The work of a sweep on GPUs, and the figures it is based on."""

    gpus: int
    gpu_type: str
    pending: PendingWork
    rates: Mapping[str, Rate]
    """Group on GPUs (also the judge's) -> its rate."""
    works: Mapping[str, Work]
    """Group that fits the GPUs -> its work."""
    left_out: Mapping[str, str]
    """Group that does not fit -> the reason."""
    without_gpu: Sequence[ModelSpec]
    """Models and judges without a GPU, whose time is not counted."""
    serving: str = ""
    """The group of a judge on GPUs that reads each turn while its episode waits; the wait is not counted."""

    @cached_property
    def hours(self) -> float:
        """Hours that no schedule can beat."""
        return lower_bound([*self.works.values()], self.gpus) / HOUR

    @property
    def episodes(self) -> int:
        return sum(work.episodes for name, work in self.works.items() if not name.startswith(JUDGE))

    def lines(self) -> list[str]:
        """Return the printed lines."""
        models = [name for name in self.works if not name.startswith(JUDGE)]
        verdicts = sum(work.episodes for name, work in self.works.items() if name.startswith(JUDGE))
        judged = f" and {verdicts:,} verdicts" if verdicts else ""
        played = "1 model" if len(models) == 1 else f"{len(models)} models"
        return [
            f"{self.episodes:,} episodes{judged} of {played} on {self.gpus} {self.gpu_type.upper()}",
            f"at least     {self.hours:.2f} h",
            f"GPU-hours    {self.gpus * self.hours:.1f}",
            *self._sources(),
            *self._remarks(),
        ]

    def _sources(self) -> list[str]:
        """Return a line per source of rates."""
        names = {source: [name for name, rate in self.rates.items() if rate.source == source] for source in SOURCES}
        return [f"{text}: {', '.join(names[source])}" for source, text in SOURCES.items() if names[source]]

    def _remarks(self) -> list[str]:
        """Return a line for everything that the hours do not count or assume."""
        lines = [f"left out: {reason}" for reason in self.left_out.values()]
        if self.serving:
            lines.append(f"{self.serving} reads turn by turn; the time that episodes wait for it is not counted")
        if self.without_gpu:
            names = ", ".join(model.name for model in self.without_gpu)
            episodes = sum(map(self.pending.episode_count, {worker_group(model) for model in self.without_gpu}))
            played = f" ({episodes:,} episodes)" if episodes else ""
            lines.append(f"not counted, without GPU: {names}{played}; a service or a CPU sets their rate")
        if sum(self.pending.answers.values()) or self.pending.unread:
            lines.append(throughput.length_assumptions())
        return lines


def forecast(
    sweep: Sweep, gpus: int, gpu_type: str, folders: Sequence[Path] = (), pending: PendingWork | None = None
) -> Forecast:
    """Return the forecast of the ``pending`` work of a sweep, by default all of its work on the published benchmark.

    Rates measured in ``folders``, which are run folders, are used. Raises SweepError for an unknown GPU type, or if neither a
    model nor the judge needs a GPU.
    """
    models, others = workload.split_by_gpu(sweep)
    judge = sweep.judge if sweep.is_judged else None
    if judge and not judge.model.gpus:
        others = [*others, judge.model]
    elif not models and not judge:
        raise SweepError("no model of this sweep needs a GPU; remove --gpus")
    pending = pending or workload.published_work(sweep)
    rates, groups = replica_rates(sweep, gpu_type, folders, pending), demands(sweep, 0, gpus)
    counts = {name: pending.episode_count(name) for name in rates}
    if judge and judge.model.gpus:
        counts[judge_group(judge)] = pending.unread + sum(pending.answers.values())
    nodes, pools = Nodes(build_nodes(gpus, gpu_type)), shares(sweep, gpus)
    left_out = {
        name: f"{name} needs {groups[name].gpu_text}"
        for name in rates
        if groups[name].gpus > _reachable(groups[name], nodes, pools)
    }
    works = {}
    for name in rates.keys() - left_out.keys():
        demand, rate = groups[name], rates[name]
        work = Work(0, demand.gpus, rate.episodes, rate.start, demand.concurrency)
        works[name] = cap_replicas(work, counts[name], demand, nodes.nodes, pools)
    serving = judge_group(sweep.serving_judge) if sweep.serving_judge and sweep.serving_judge.model.gpus else ""
    return Forecast(gpus, gpu_type, pending, rates, works, left_out, others, serving)


def lower_bound(works: Sequence[Work], gpus: int) -> float:
    """Return the seconds that no schedule beats on this many GPUs, if each model with episodes starts at least once.

    They are those of all GPUs together (``tight_end``), or of the longest model alone with all replicas that it may have.
    """
    pending = [work for work in works if work.episodes]
    alone = [work.start + max(work.concurrency, work.episodes / work.replicas) / work.rate for work in pending]
    together = tight_end([work.load for work in works], gpus) * (1 - PRECISION) if gpus else 0.0
    return max([together, *alone])


def cap_replicas(work: Work, episodes: int, demand: Demand, nodes: Sequence[Node], shares: Mapping[str, float]) -> Work:
    """Return the work with this many episodes, and with as many replicas as the demand, the pool's share and the nodes allow."""
    replicas = demand.replicas
    if work.gpus:
        sizes = [node.gpus for node in nodes if demand.accelerator in ("", node.accelerator)]
        fitting = sum(int(size // work.gpus) for size in sizes)
        share = shares.get(demand.pool, work.gpus * replicas)
        replicas = max(1, min(replicas, fitting, int(share // work.gpus)))
    return replace(work, episodes=episodes, replicas=replicas)


def _reachable(demand: Demand, nodes: Nodes, pools: Mapping[str, float]) -> float:
    """Return the GPUs that one replica can get at most."""
    return min(nodes.widest(demand.accelerator), pools.get(demand.pool, demand.gpus))


def replica_rates(sweep: Sweep, gpu_type: str, folders: Sequence[Path], pending: PendingWork) -> dict[str, Rate]:
    """Return the rate of each group on GPUs, including the judge's; raises SweepError for an unknown GPU type."""
    kinds = (throughput.EPISODES, throughput.ANSWERS, throughput.VERDICTS)
    played, answered, read = (throughput.read_observed(folders, gpu_type, kind) for kind in kinds)
    rates = {}
    for model in workload.split_by_gpu(sweep)[0]:
        name = model.name
        episodes = throughput.episode_rate(
            model, gpu_type, played.get(name, ObservedRate()), pending.pictures.get(name)
        )
        answers = throughput.answer_rate(model, gpu_type, answered.get(name, ObservedRate()))
        rates[name] = throughput.combine_rates(
            [(pending.episodes.get(name, 0), episodes), (pending.answers.get(name, 0), answers)]
        )
    if (sweep.is_judged or sweep.serving_judge) and sweep.judge and sweep.judge.model.gpus:
        observed = read.get(sweep.judge.model.name, ObservedRate())
        rates[judge_group(sweep.judge)] = throughput.verdict_rate(sweep.judge, gpu_type, observed)
    return rates


# -- ``plan --gpus`` ------------------------------------------------------------------------------------------------------
def count_pending_work(sweep: Sweep, plan: Plan) -> PendingWork:
    """Return the work of the plan whose episodes and verdicts are not in the run folder yet."""
    folder = Path(sweep.output)
    stored = (folder / "episodes").is_dir()
    finished = stored_episodes(plan, folder).select("key").collect()["key"] if stored else ()
    missing = plan.pending_per_cell(plan.pending(finished))
    unread = 0
    if stored and sweep.is_judged and sweep.judge is not None:
        check_wording(sweep.judge)
        unread = len(find_unjudged(plan, stored_episodes(plan, folder), folder, sweep.judge))
    return count_work(((plan.cells[index], number) for index, number in missing.items()), unread)


def forecast_lines(sweep: Sweep, gpus: int, gpu_type: str) -> list[str]:
    """Return the forecast's lines; without the data folder, all work on the published benchmark counts. Raises BadData."""
    has_data = "://" in sweep.data or Path(sweep.data).is_dir()
    plan = build_plan(sweep) if has_data else None
    pending = count_pending_work(sweep, plan) if plan else None
    outlook = forecast(sweep, gpus, gpu_type, sibling_runs(sweep), pending)
    absent = "the data folder does not exist: all episodes of the published benchmark are counted"
    notes = [f"left out: {reason}" for reason in plan.left_out] if plan else [absent]
    return [*outlook.lines(), *notes]
