"""The forecast of a sweep on a number of GPUs, by simulating the real scheduler: hours, their range, a lower bound, the cost."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path
from random import Random

from orchestrator.judging.judge_queue import check_wording, find_unjudged
from orchestrator.planning.build_plan import build_plan, stored_episodes
from orchestrator.planning.plan import JUDGE, Plan, judge_group, worker_group
from orchestrator.precision.stop_forecast import forecast_stops
from orchestrator.scheduling.commands import Demand
from orchestrator.scheduling.forecast import throughput, workload
from orchestrator.scheduling.forecast.lower_bound import Work
from orchestrator.scheduling.forecast.simulator import SimulatedSweep, simulate
from orchestrator.scheduling.forecast.throughput import ObservedRate, Rate
from orchestrator.scheduling.forecast.workload import PendingWork, count_work, published_samples, sibling_runs
from orchestrator.scheduling.nodes import Node, build_nodes
from orchestrator.scheduling.resources import demands, shares
from sweeps.load import SweepError
from sweeps.spec import Judge, ModelSpec, Sweep

HOUR = 3600.0
SIMULATIONS = 8
"""Number of simulations with random errors in the rates that give the range of a forecast."""
RATE_ERRORS = {"measured": (0.1, 0.0), "reckoned": (0.5, 0.3), "guessed": (0.7, 0.3)}
"""Source of a rate -> spread (sigma of a log-normal) of the model's own error, and of the error that all models share.

Reckoned rates are assumed to be right within a factor of 1.5 to 3. The shared error stands for a wrong number of turns per
episode or a wrong GPU utilization.
"""


@dataclass(frozen=True)
class Forecast:
    """A simulated sweep and the figures it is based on."""

    gpus: int
    gpu_type: str
    nodes: Sequence[Node]
    pending: PendingWork
    rates: Mapping[str, Rate]
    """Group on GPUs (also the judge's) -> its rate."""
    without_gpu: Sequence[ModelSpec]
    """Models and judges without a GPU, which are not simulated."""
    simulated: SimulatedSweep
    makespans: Sequence[float] = ()
    """Makespans of more simulations, in seconds, each with random errors in every rate and start."""
    serving: str = ""
    """The group of a judge on GPUs that reads each turn while its episode waits; the wait is not simulated."""

    def lines(self, price: float | None = None) -> list[str]:
        """Return the printed lines; ``price`` is that of one GPU-hour."""
        simulated, reserved = self.simulated, self.gpus * self.simulated.makespan / HOUR
        models = [name for name in self.rates if not name.startswith(JUDGE) and name not in simulated.abandoned]
        judged = f" and {simulated.verdicts:,} verdicts" if simulated.verdicts else ""
        played = "1 model" if len(models) == 1 else f"{len(models)} models"
        ratio = f"makespan is {simulated.ratio:.3f} times that" if simulated.ratio else "every model was given up"
        lines = [
            f"{simulated.delivered:,} episodes{judged} of {played} on {self.gpus} {self.gpu_type.upper()}",
            f"makespan     {simulated.makespan / HOUR:.2f} h{self._range()}",
            f"lower bound  {simulated.bound.seconds / HOUR:.2f} h ({ratio})",
            f"GPU-hours    {reserved:.1f} reserved, {simulated.busy_gpu_seconds / HOUR:.1f} in use,"
            f" {len(simulated.spans)} worker starts",
        ]
        if price is not None:
            lines.append(
                f"cost         {reserved * price:,.2f} at {price:g} per GPU-hour, all GPUs reserved to the end"
            )
        lines += self._sources()
        if self.serving:
            lines.append(
                f"{self.serving} reads turn by turn on GPUs reserved for it; the time episodes wait for it is not counted"
            )
        lines += [f"left out: {reason}" for reason in simulated.abandoned.values()]
        if self.without_gpu:
            names = ", ".join(model.name for model in self.without_gpu)
            episodes = sum(map(self.pending.episode_count, {worker_group(model) for model in self.without_gpu}))
            played = f" ({episodes:,} episodes)" if episodes else ""
            lines.append(f"not simulated, without GPU: {names}{played}; a service or a CPU sets their rate")
        if sum(self.pending.answers.values()) or self.pending.unread:
            lines.append(throughput.length_assumptions())
        return lines

    def _range(self) -> str:
        if not self.makespans:
            return ""
        low, high = min(self.makespans) / HOUR, max(self.makespans) / HOUR
        return f" ({low:.1f} to {high:.1f} h in {len(self.makespans)} simulations with random errors in the rates)"

    def _sources(self) -> list[str]:
        """Return a line per source of rates, and a line for the models whose rate the front end limits, not the GPU."""
        names = {source: [name for name, rate in self.rates.items() if rate.source == source] for source in RATE_ERRORS}
        lines = [f"rates {source}: {', '.join(names[source])}" for source in names if names[source]]
        limited = [f"{name} ({rate.episodes:.2g} episodes/s)" for name, rate in self.rates.items() if rate.front_end]
        front_end = f"limited by one front end per worker, not by the GPU: {', '.join(limited)}"
        return [*lines, front_end] if limited else lines


def forecast(
    sweep: Sweep,
    gpus: int,
    gpu_type: str,
    folders: Sequence[Path] = (),
    pending: PendingWork | None = None,
    simulations: int = 0,
) -> Forecast:
    """Simulate the ``pending`` work of a sweep, by default all of its work on the published benchmark.

    Args:
        folders: Run folders whose measured rates are used.
        simulations: Number of more simulations, with random errors in the rates, for the range of the makespan.

    Raises SweepError for an unknown GPU type, or if neither a model nor the judge needs a GPU.
    """
    models, others = workload.split_by_gpu(sweep)
    judge = sweep.judge if sweep.is_judged else None
    if judge and not judge.model.gpus:
        others = [*others, judge.model]
    elif not models and not judge:
        raise SweepError("no model of this sweep needs a GPU; remove --gpus")
    pending = pending or workload.published_work(sweep)
    rates = replica_rates(sweep, gpu_type, folders, pending)
    with_rates = _set_rates(demands(sweep, 0, gpus), rates)
    queues, reads = _number_work(pending, with_rates, judge, others)
    serving = judge_group(sweep.serving_judge) if sweep.serving_judge and sweep.serving_judge.model.gpus else ""
    if serving:
        queues.setdefault(serving, [])
    nodes = build_nodes(gpus, gpu_type)
    simulate_once = partial(simulate, queues, with_rates, gpus, nodes=nodes, shares=shares(sweep, gpus), reads=reads)
    works = {name: _work(with_rates[name], len(queue), rates[name]) for name, queue in queues.items()}
    perturbed = (
        {name: _perturb(works[name], rates[name], name, seed) for name in queues} for seed in range(simulations)
    )
    makespans = [simulate_once(works=wrong_works).makespan for wrong_works in perturbed]
    return Forecast(gpus, gpu_type, nodes, pending, rates, others, simulate_once(works=works), makespans, serving)


def _set_rates(groups: Mapping[str, Demand], rates: Mapping[str, Rate]) -> dict[str, Demand]:
    """Return the demands of the groups that have a rate, with this rate; a judge without a rate is dropped from them."""
    return {
        name: replace(
            demand,
            rate=rates[name].episodes,
            start=rates[name].start,
            judge=demand.judge if demand.judge in rates else "",
        )
        for name, demand in groups.items()
        if name in rates
    }


def _number_work(
    pending: PendingWork, groups: Iterable[str], judge: Judge | None, services: Sequence[ModelSpec]
) -> tuple[dict[str, list[int]], dict[int, int]]:
    """Return group -> ordinals of its work, and the ordinal of each answer -> the ordinal of its verdict.

    Stored answers and those of services are queued for the judge from the start.
    """
    numbers = count()
    queues = {
        group: [next(numbers) for _ in range(pending.episode_count(group))]
        for group in groups
        if pending.episode_count(group)
    }
    if not (judge and judge.model.gpus):
        return queues, {}
    reads: dict[int, int] = {}
    for group, queue in list(queues.items()):
        answers = pending.answers.get(group, 0)
        reads |= {queue[n * len(queue) // answers]: next(numbers) for n in range(answers)}  # spaced evenly
    from_services = sum(pending.answers.get(worker_group(model), 0) for model in services)
    queues[judge_group(judge)] = [next(numbers) for _ in range(pending.unread + from_services)]
    return queues, reads


def _work(demand: Demand, episodes: int, rate: Rate) -> Work:
    """Return a model's work, assuming that its rate is right."""
    start = rate.phases.cached or rate.start
    work = Work(episodes, demand.gpus, rate.episodes, start, demand.concurrency)
    return work.with_phases(rate.phases, rate.weights)


def _perturb(work: Work, rate: Rate, name: str, seed: int) -> Work:
    """Return a model's work with random errors in rate and start; the source of the rate decides how large they are."""
    own, shared = RATE_ERRORS[rate.source]
    chance = Random(f"{seed}/{name}")
    factor = chance.lognormvariate(0.0, own) * Random(f"{seed}/shared").lognormvariate(0.0, shared)
    start = work.start * chance.lognormvariate(0.0, own)
    return replace(work, rate=work.rate * factor, start=start).with_phases(rate.phases, rate.weights)


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


def _precision_lines(sweep: Sweep, plan: Plan | None, gpus: int, gpu_type: str) -> list[str]:
    """Return lines that say how much of the sweep ``[precision]`` plays, if all accuracies are 25% and if they are 50%."""
    if sweep.precision is None:
        return []
    cells = plan.cells if plan else sweep.cells()
    full_counts = [len(plan.cell_samples(cell)) if plan else published_samples(sweep, cell) for cell in cells]
    lines = []
    for share in (0.25, 0.5):
        works = [
            count_work(zip(cells, n, strict=True))
            for n in (full_counts, forecast_stops(sweep.precision, cells, full_counts, share))
        ]
        full, part = (forecast(sweep, gpus, gpu_type, sibling_runs(sweep), work).simulated for work in works)
        full_hours, part_hours = full.busy_gpu_seconds / HOUR, part.busy_gpu_seconds / HOUR
        lines.append(
            f"precision {sweep.precision.description}, where accuracies are {share:.0%}: {part.delivered:,} of"
            f" {full.delivered:,} episodes, {part_hours:.1f} of {full_hours:.1f} GPU-hours in use"
        )
    return lines


def forecast_lines(
    sweep: Sweep, gpus: int, gpu_type: str, price: float | None = None, timeline: Path | None = None
) -> list[str]:
    """Return the forecast's lines, and draw its timeline to the file ``timeline`` (by default next to the run folder).

    Without the data folder all work on the published benchmark counts. Raises BadData, and SweepError if the picture cannot be
    written.
    """
    from orchestrator.scheduling.forecast.timeline import draw_timeline

    output = Path(sweep.output)
    has_data = "://" in sweep.data or Path(sweep.data).is_dir()
    plan = build_plan(sweep) if has_data else None
    pending = count_pending_work(sweep, plan) if plan else None
    outlook = forecast(sweep, gpus, gpu_type, sibling_runs(sweep), pending, SIMULATIONS)
    path = timeline or output.parent / f"{sweep.name}-{gpus}x{gpu_type.lower()}.png"
    ratio = outlook.simulated.ratio
    above = "" if ratio is None else f", {ratio:.2f} times the lower bound"
    title = f"{sweep.name} on {gpus} {gpu_type.upper()}: {outlook.simulated.makespan / HOUR:.1f} h{above}"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draw_timeline(outlook.simulated, outlook.nodes, path, title)
    except OSError as problem:
        raise SweepError(f"the timeline cannot be written to {path}: {problem.strerror or problem}") from None
    absent = "the data folder does not exist: all episodes of the published benchmark are counted"
    notes = [f"left out: {reason}" for reason in plan.left_out] if plan else [absent]
    return [*outlook.lines(price), *_precision_lines(sweep, plan, gpus, gpu_type), *notes, f"timeline: {path}"]
