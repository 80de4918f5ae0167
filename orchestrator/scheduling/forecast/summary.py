"""``plan --gpus``: what the run folder leaves to do, and how long that takes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from orchestrator.judging.judge_queue import unread, worded
from orchestrator.planning.build_plan import belonging, build_plan
from orchestrator.scheduling.forecast.forecast import HOUR, forecast
from orchestrator.scheduling.forecast.workload import PendingWork, neighbours
from sweeps.load import SweepError
from sweeps.spec import Protocol, Sweep


def outstanding(sweep: Sweep) -> PendingWork:
    """What the run folder does not hold yet; raises BadData or SweepError."""
    plan, folder = build_plan(sweep), Path(sweep.output)
    stored = (folder / "episodes").is_dir()
    finished = set(belonging(plan, folder).collect()["key"]) if stored else set()
    counts = {protocol: Counter[str]() for protocol in Protocol}
    for name, queue in plan.pending(finished).items():
        for ordinal in queue:
            counts[plan.cells[plan.task(ordinal)[0]].protocol][name] += 1
    waiting = 0
    if stored and sweep.judged and sweep.judge is not None:
        worded(sweep.judge)
        waiting = len(unread(plan, belonging(plan, folder), folder, sweep.judge))
    return PendingWork(counts[Protocol.MCQA], counts[Protocol.OEG], waiting)


def tell(sweep: Sweep, gpus: int, gpu_type: str, price: float | None = None, timeline: Path | None = None) -> list[str]:
    """The forecast's lines; its picture is written to ``timeline``, or beside the run folder.

    Where the data folder is not there, the published benchmark is counted. Raises SweepError if the picture cannot be
    written.
    """
    from orchestrator.scheduling.forecast.timeline import draw

    output = Path(sweep.output)
    counted = "://" in sweep.data or Path(sweep.data).is_dir()
    outlook = forecast(sweep, gpus, gpu_type, neighbours(sweep), outstanding(sweep) if counted else None)
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
    absent = "the data folder is not there: episodes are counted for the published benchmark, none finished"
    return [*outlook.lines(price), *([] if counted else [absent]), f"timeline: {path}"]
