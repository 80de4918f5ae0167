"""``plan --gpus``: the episodes that the run folder does not hold yet, and the forecast of the time they take."""

from __future__ import annotations

from pathlib import Path

from orchestrator.judging.judge_queue import check_wording, unread
from orchestrator.planning.build_plan import belonging, build_plan
from orchestrator.planning.plan import Plan
from orchestrator.precision.reckoned import reckoned
from orchestrator.scheduling.forecast.forecast import HOUR, forecast
from orchestrator.scheduling.forecast.workload import PendingWork, counted, runs_beside, samples_of
from sweeps.load import SweepError
from sweeps.spec import Sweep

SIMULATIONS = 8
"""Simulations with rates off at random that the range of a forecast comes from."""


def outstanding(sweep: Sweep, plan: Plan) -> PendingWork:
    """What the run folder does not hold yet of the sweep's plan."""
    folder = Path(sweep.output)
    stored = (folder / "episodes").is_dir()
    finished = set(belonging(plan, folder).collect()["key"]) if stored else set()
    numbers = plan.left(plan.pending(finished))
    waiting = 0
    if stored and sweep.judged and sweep.judge is not None:
        check_wording(sweep.judge)
        waiting = len(unread(plan, belonging(plan, folder), folder, sweep.judge))
    return counted(((plan.cells[index], number) for index, number in numbers.items()), waiting)


def _precise(sweep: Sweep, plan: Plan | None, gpus: int, gpu_type: str) -> list[str]:
    """What ``[precision]`` leaves of the whole sweep, in episodes and GPU-hours, by the accuracies that it may find."""
    if sweep.precision is None:
        return []
    cells = plan.cells if plan else sweep.cells()
    whole = [len(plan.drawn(cell)) if plan else samples_of(sweep, cell) for cell in cells]
    lines = []
    for share in (0.25, 0.5):
        works = [counted(zip(cells, n, strict=True)) for n in (whole, reckoned(sweep.precision, cells, whole, share))]
        full, part = (forecast(sweep, gpus, gpu_type, runs_beside(sweep), work).found for work in works)
        lines.append(
            f"precision {sweep.precision.told}, where accuracies are {share:.0%}: {part.delivered:,} of"
            f" {full.delivered:,} episodes, {part.busy / HOUR:.1f} of {full.busy / HOUR:.1f} GPU-hours in use"
        )
    return lines


def forecast_lines(
    sweep: Sweep, gpus: int, gpu_type: str, price: float | None = None, timeline: Path | None = None
) -> list[str]:
    """The forecast's lines; its picture is written to ``timeline``, or beside the run folder.

    Where the data folder is not there, the published benchmark is counted. Raises BadData, and SweepError if the picture
    cannot be written.
    """
    from orchestrator.scheduling.forecast.timeline import draw

    output = Path(sweep.output)
    here = "://" in sweep.data or Path(sweep.data).is_dir()
    plan = build_plan(sweep) if here else None
    pending = outstanding(sweep, plan) if plan else None
    outlook = forecast(sweep, gpus, gpu_type, runs_beside(sweep), pending, SIMULATIONS)
    path = timeline or output.parent / f"{sweep.name}-{gpus}x{gpu_type.lower()}.png"
    ratio = outlook.found.ratio
    above = "" if ratio is None else f", {ratio:.2f} times the lower bound"
    title = f"{sweep.name} on {gpus} {gpu_type.upper()}: {outlook.found.makespan / HOUR:.1f} h{above}"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draw(outlook.found, outlook.nodes, path, title)
    except OSError as problem:
        raise SweepError(f"the timeline cannot be written to {path}: {problem.strerror or problem}") from None
    absent = "the data folder is not there: episodes are counted for the published benchmark, none finished"
    notes = [f"left out: {one}" for one in plan.left_out] if plan else [absent]
    return [*outlook.lines(price), *_precise(sweep, plan, gpus, gpu_type), *notes, f"timeline: {path}"]
