"""What a sweep will take on so many GPUs, by the schedule that will run it: hours, bound, cost, and a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator.placement import estimate
from orchestrator.placement.nodes import Node, nodes_of
from orchestrator.placement.simulate import Simulated, Weather, simulate
from sweeps.load import SweepError
from sweeps.spec import ModelSpec, Protocol, Sweep

HOUR = 3600.0


@dataclass(frozen=True)
class Forecast:
    """A simulated sweep, and what it was reckoned from."""

    gpus: int
    gpu_type: str
    nodes: Sequence[Node]
    counts: Mapping[str, int]
    """Model -> episodes still to play."""
    rates: Mapping[str, estimate.Rate]
    apart: Sequence[ModelSpec]
    """Models without a GPU: not simulated."""
    found: Simulated
    open_ended: bool
    """Whether some cells are open-ended: no rate of long answers is known beforehand."""
    exact: bool
    """Whether the data folder was there to count; else the published benchmark's counts stand in."""

    def lines(self, price: float | None = None) -> list[str]:
        """The forecast for a person; ``price`` is for one GPU-hour."""
        found, held = self.found, self.gpus * self.found.makespan / HOUR
        sources = ", ".join(sorted({rate.source for rate in self.rates.values()}))
        lines = [
            f"{found.delivered:,} episodes of {len(self.rates) - len(found.abandoned)} models"
            f" on {self.gpus} {self.gpu_type.upper()} (rates: {sources})",
            f"makespan     {found.makespan / HOUR:.2f} h",
            f"lower bound  {found.bound.seconds / HOUR:.2f} h (makespan is {found.ratio:.3f} times that)",
            f"GPU-hours    {held:.1f} held, {found.busy / HOUR:.1f} in use, {len(found.spans)} worker starts",
        ]
        if price is not None:
            lines.append(f"cost         {held * price:,.2f} at {price:g} a GPU-hour, all GPUs held to the end")
        lines += [f"left out: {reason}" for reason in found.abandoned.values()]
        if self.apart:
            names = ", ".join(model.name for model in self.apart)
            episodes = sum(self.counts.get(model.name, 0) for model in self.apart)
            lines.append(f"apart, without GPU: {names} ({episodes:,} episodes); a service or a CPU sets their pace")
        if self.open_ended:
            lines.append("open-ended answers are reckoned as if they were multiple choice, and no judge is in it")
        if not self.exact:
            lines.append(
                "the data folder is not there: episodes are counted for the published benchmark, none finished"
            )
        return lines


def forecast(sweep: Sweep, gpus: int, gpu_type: str, folders: Sequence[Path] = ()) -> Forecast:
    """Simulate what the sweep still owes; ``folders`` are run folders whose measured rates weigh in.

    Raises SweepError for an unknown GPU type, or when no model takes a GPU.
    """
    models, others = estimate.apart(sweep)
    if not models:
        raise SweepError("no model of this sweep takes a GPU; leave out --gpus")
    exact = "://" in sweep.data or Path(sweep.data).is_dir()
    counts = _owed(sweep) if exact else estimate.episodes(sweep)
    seen = estimate.observed(folders, gpu_type)
    rates = {model.name: estimate.rate(model, gpu_type, seen.get(model.name, estimate.Seen())) for model in models}
    most = sweep.cluster.workers or 64
    demands = {model.name: estimate.demand(model, rates[model.name], most) for model in models}
    nodes = nodes_of(gpus, gpu_type)
    names = [model.name for model in models if counts.get(model.name)]
    found = simulate(estimate.owed(counts, names), demands, gpus, Weather(), nodes)
    return Forecast(gpus, gpu_type, nodes, counts, rates, others, found, Protocol.OEG in sweep.protocols, exact)


def _owed(sweep: Sweep) -> dict[str, int]:
    """Model, or the group of built-in policies -> episodes that the run folder does not hold yet."""
    from orchestrator.planning import belonging, build_plan

    plan, folder = build_plan(sweep), Path(sweep.output)
    stored = (folder / "episodes").is_dir()
    finished = set(belonging(plan, folder).collect()["key"]) if stored else set()
    return {name: len(queue) for name, queue in plan.owed(finished).items()}


def tell(sweep: Sweep, gpus: int, gpu_type: str, price: float | None = None, timeline: Path | None = None) -> list[str]:
    """The forecast's lines; its picture is written to ``timeline``, or beside the run folder.

    Raises SweepError if the picture cannot be written.
    """
    from orchestrator.placement.timeline import draw

    output = Path(sweep.output)
    outlook = forecast(sweep, gpus, gpu_type, estimate.neighbours(sweep))
    path = timeline or output.parent / f"{sweep.name}-{gpus}x{gpu_type.lower()}.png"
    title = (
        f"{sweep.name} on {gpus} {gpu_type.upper()}: {outlook.found.makespan / HOUR:.1f} h,"
        f" {outlook.found.ratio:.2f} times the lower bound"
    )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draw(outlook.found, outlook.nodes, path, title)
    except OSError as problem:
        raise SweepError(f"the timeline cannot be written to {path}: {problem.strerror or problem}") from None
    return [*outlook.lines(price), f"timeline: {path}"]
