"""``plan --gpus``: the episodes that the run folder does not have yet, and the forecast of their time."""

from __future__ import annotations

from pathlib import Path

from orchestrator.judging.judge_queue import check_wording, find_unjudged
from orchestrator.planning.build_plan import build_plan, stored_episodes
from orchestrator.planning.plan import Plan
from orchestrator.precision.stop_forecast import forecast_stops
from orchestrator.scheduling.forecast.forecast import HOUR, forecast
from orchestrator.scheduling.forecast.workload import PendingWork, count_work, published_samples, sibling_runs
from sweeps.load import SweepError
from sweeps.spec import Sweep

SIMULATIONS = 8
"""Simulations with random errors in the rates, for the range of a forecast."""


def count_pending_work(sweep: Sweep, plan: Plan) -> PendingWork:
    """Return the part of the plan that the run folder does not have yet."""
    folder = Path(sweep.output)
    stored = (folder / "episodes").is_dir()
    finished = set(stored_episodes(plan, folder).collect()["key"]) if stored else set()
    missing = plan.pending_per_cell(plan.pending(finished))
    unread = 0
    if stored and sweep.is_judged and sweep.judge is not None:
        check_wording(sweep.judge)
        unread = len(find_unjudged(plan, stored_episodes(plan, folder), folder, sweep.judge))
    return count_work(((plan.cells[index], number) for index, number in missing.items()), unread)


def _precision_lines(sweep: Sweep, plan: Plan | None, gpus: int, gpu_type: str) -> list[str]:
    """Return what ``[precision]`` leaves of the sweep, in episodes and GPU-hours, for two possible accuracies."""
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
    """Return the forecast's lines, and draw its timeline to ``timeline`` or next to the run folder.

    Without the data folder the published benchmark is counted. Raises BadData, and SweepError if the picture cannot be
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
