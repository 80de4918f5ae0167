"""Plays a sweep: an attempt, and the next one in the same process wherever ``ctl apply`` changes the sweep meanwhile.

The run folder stays this process's from the first attempt to the last.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext
from pathlib import Path

from envs.types import Ending
from orchestrator.datasets.staging import fixed
from orchestrator.execution.applied import Applied, Playable, counting
from orchestrator.execution.attempt import opened
from orchestrator.execution.outcome import Outcome
from orchestrator.execution.stop_signals import StopSignals
from orchestrator.judging.judge_queue import check_wording
from orchestrator.planning.build_plan import build_plan
from orchestrator.storage import lock
from orchestrator.tracking.mlflow_process import imported_ahead
from orchestrator.tracking.tracker import OFF
from sweeps.load import skipped
from sweeps.spec import Sweep


def run(
    sweep: Sweep,
    output: Path,
    update: bool = False,
    say: Callable[[str], None] = print,
    retry: Collection[Ending] = (),
    signals: StopSignals | None = None,
    reuse: Sequence[tuple[str, Path]] = (),
) -> Outcome:
    """Play what is pending of the sweep, with ``retry`` also what ended so in an earlier attempt.

    ``signals`` are those of the main thread, where this is called in another one. ``reuse``: run folders, by name and place,
    whose episodes are taken over where their keys are those of pending ones.
    Raises RunFolderError when the folder is held or holds another configuration.
    """
    sweep = fixed(sweep)
    check_wording(sweep.judge if sweep.judged else None)
    with imported_ahead(sweep.tracking.uri != OFF):
        given = Playable(sweep, build_plan(sweep))
        with lock.held(output, "run"), nullcontext(signals) if signals else StopSignals() as stop:
            current, update = counting(given, output, update, say)
            while True:
                for reason in (*skipped(current.sweep), *current.plan.left_out):
                    say(f"left out: {reason}")
                with opened(current.sweep, current.plan, output, say, update, stop) as attempt:
                    attempt.changeable = True
                    try:
                        return attempt.run(retry, reuse)
                    except Applied as other:
                        current, update, retry = other.playable, True, ()
