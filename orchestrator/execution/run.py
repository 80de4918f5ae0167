"""Play a sweep: one attempt at its run folder."""

from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext
from pathlib import Path

from envs.types import Ending
from orchestrator.datasets.staging import pin_data
from orchestrator.execution.attempt import open_attempt
from orchestrator.execution.score import AttemptOutcome
from orchestrator.execution.stop_signals import StopSignals
from orchestrator.inspection import overflow
from orchestrator.judging.judge_queue import check_wording
from orchestrator.planning.build_plan import build_plan
from orchestrator.storage import lock
from sweeps.load import skipped_products
from sweeps.registry import describe_code, describe_requirements
from sweeps.spec import Sweep


def run(
    sweep: Sweep,
    output: Path,
    update: bool = False,
    say: Callable[[str], None] = print,
    retry: Collection[Ending] = (),
    signals: StopSignals | None = None,
    reuse: Sequence[tuple[str, Path]] = (),
) -> AttemptOutcome:
    """Play the pending episodes of a sweep; raises RunFolderError if the folder is locked or has another configuration.

    Args:
        retry: endings of stored episodes that are played again.
        signals: the main thread's signal handlers, if this runs in another thread.
        reuse: run folders (name, path) from which pending episodes are copied if an episode with the same key is stored there.
    """
    sweep = pin_data(sweep)
    check_wording(sweep.judge if sweep.is_judged else None)
    plan = build_plan(sweep)
    with lock.hold(output, "run"), nullcontext(signals) if signals else StopSignals() as stop:
        for model in sweep.models_and_judge:
            for line in filter(None, (describe_code(model), describe_requirements(model))):
                say(line)
        for reason in (*skipped_products(sweep), *plan.left_out):
            say(f"left out: {reason}")
        for line in overflow.lines(plan):
            say(line)
        with open_attempt(sweep, plan, output, say, update, stop) as attempt:
            return attempt.run(retry, reuse)
