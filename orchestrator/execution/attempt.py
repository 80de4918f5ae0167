"""One attempt at a run folder: prepare, play or judge what is pending, then score what is stored.

Everything that must outlive the attempt is in the run folder; a later attempt needs nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path

import polars as pl

from envs.types import Ending
from orchestrator.datasets.staging import pin_data
from orchestrator.execution import prepare, startup_checks
from orchestrator.execution.attempt_log import open_attempt_log
from orchestrator.execution.prepare import AttemptState
from orchestrator.execution.score import AttemptOutcome, write_judge_scores, write_outcome
from orchestrator.execution.stop_signals import StopSignals
from orchestrator.judging.judge_queue import JudgeQueue, check_wording, find_unjudged
from orchestrator.planning.build_plan import build_plan
from orchestrator.planning.pictures import recording_pictures
from orchestrator.planning.plan import Plan
from orchestrator.storage import run_folder
from orchestrator.storage.disk import disk_errors
from orchestrator.storage.episode_store import EpisodeStore
from orchestrator.tracking.tracker import TrackedRun, Tracker, describe_dataset
from sweeps.spec import Judge, Sweep


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
    with (
        _prepare_tracker(sweep, output) as tracker,
        open_attempt(sweep, build_plan(sweep), output, say, update, signals) as attempt,
    ):
        for line in startup_checks.warnings(sweep, attempt.plan):
            say(line)
        return attempt.run(retry, reuse, tracker=tracker)


def judge_answers(
    sweep: Sweep, output: Path, judge: Judge, again: bool = False, say: Callable[[str], None] = print
) -> tuple[pl.DataFrame, bool]:
    """Have a judge read the unread answers of a run folder; with ``again`` also those on which it gave no verdict before.

    Rewrites results.json if this is the judge that the sweep names, or the sweep names none. Returns the rows scored by this
    judge, and True if it has read every stored answer. Raises RunFolderError if another process holds the folder.
    """
    check_wording(judge, sweep)
    sweep = sweep if sweep.judge else sweep.model_copy(update={"judge": judge})
    with open_attempt(sweep, build_plan(sweep), output, say) as attempt:
        return attempt.judge(judge, again)


@contextmanager
def open_attempt(
    sweep: Sweep,
    plan: Plan,
    output: Path,
    say: Callable[[str], None],
    update: bool = False,
    signals: StopSignals | None = None,
) -> Iterator[Attempt]:
    """Claim the run folder until the block ends; raises RunFolderError."""
    claim, log = run_folder.claim(output, sweep, update, plan.left_out), open_attempt_log(output)
    handlers = nullcontext(signals) if signals else StopSignals()
    with handlers as stop_signals, disk_errors(output), claim, log, closing(EpisodeStore(output)) as store:
        yield Attempt(sweep, plan, output, store, say, stop_signals)


class Attempt(AttemptState):
    """The steps of one attempt, in order."""

    def run(
        self,
        retry: Collection[Ending] = (),
        reuse: Sequence[tuple[str, Path]] = (),
        play: Callable[[Attempt], None] | None = None,
        tracker: Tracker | None = None,
    ) -> AttemptOutcome:
        """Play pending episodes on Ray (or with ``play``), have new answers judged, and score all stored episodes."""
        prepare.find_pending(self, retry, reuse)
        prepare.announce(self)
        if not play:
            startup_checks.check_weights(self)
            startup_checks.check_models(self)
            if self.reasons and not self._can_go_on():
                return write_outcome(self)
        with tracker or _prepare_tracker(self.sweep, self.output) as tracker:
            if tracker.is_tracked:
                tracker.start(describe_dataset(self.sweep.name, self.sweep.data, self.plan.samples_by_id))
            hashing = recording_pictures(self.output, self.sweep.data, self.plan, bool(self.pending))
            with hashing as skip_rest, tracker.in_background():
                if play and self.pending:
                    play(self)
                elif self._can_go_on():
                    self._play_on_ray()
                if self.interrupted:
                    skip_rest.set()
            if not self.interrupted:
                self.store.compact()
                if self.judge_queue:
                    self.judge_queue.verdicts.compact()
            outcome = write_outcome(self)
            tracker.close("FINISHED" if outcome.complete else "KILLED" if outcome.interrupted else "FAILED")
        return outcome

    def _can_go_on(self) -> bool:
        """Return True if a pending model can play, or a judge has answers to read."""
        return bool(self.playable - self.reasons.keys() or self.judge_queue)

    def judge(self, judge: Judge, again: bool) -> tuple[pl.DataFrame, bool]:
        """Have a judge read stored answers, as ``judge_answers`` says."""
        self.find_stops()
        backlog = find_unjudged(self.plan, self.output, judge, again)
        queue = self.judge_queue = JudgeQueue(judge, self.plan, self.store, backlog)
        self.say(f"{self.sweep.name}: {len(backlog):,} answers to judge with {queue.key}")
        if backlog or queue.rereads_gold:
            low_kappa = {queue.group: queue.stop_reason} if queue.stop_reason else {}
            self.reasons = {**startup_checks.find_startup_errors(self.sweep, (), judge), **low_kappa}
            if not self.reasons:
                self._play_on_ray()
            for reason in self.reasons.values():
                self.say(f"{queue.key}: {reason}")
            queue.verdicts.compact()
        return write_judge_scores(self, queue.key), not find_unjudged(self.plan, self.output, judge)

    def _play_on_ray(self) -> None:
        from orchestrator.execution.play import play_on_ray  # Ray takes a second to import

        play_on_ray(self)


def _prepare_tracker(sweep: Sweep, output: Path) -> Tracker:
    return Tracker(TrackedRun.of(sweep, output))
