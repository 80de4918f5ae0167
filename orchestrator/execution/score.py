"""The results of an attempt: scores of what the run folder holds, the state of each cell, and the exit code."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from actors.playing.judge import reads_nothing
from orchestrator.execution.prepare import AttemptState
from orchestrator.planning.build_plan import planned_cells, stored_episodes
from orchestrator.planning.plan import Plan, worker_group
from orchestrator.report.scores.judge_agreement import own_judge_key
from orchestrator.report.scores.metrics import score, write_results
from orchestrator.report.scores.package_measures import add_measures
from orchestrator.report.scores.precision_stops import add_anytime_intervals
from orchestrator.storage.status import mark_cells, put_aside_unmended, write_status
from orchestrator.storage.verdict_store import verdicts
from sweeps.spec import Sweep


@dataclass(frozen=True)
class AttemptOutcome:
    rows: pl.DataFrame
    """One row per cell (``score``)."""
    complete: bool
    interrupted: bool
    reasons: Mapping[str, str]
    """Worker group, or pattern of cells (a ``RequestGroup`` as text) -> why it stopped."""
    seconds: float = 0.0
    """Seconds from connecting to Ray until the last episode is on disk."""

    @property
    def exit_code(self) -> int:
        """The process's exit code: 0 only if every cell is complete, 130 if the user stopped the attempt."""
        return 130 if self.interrupted else 0 if self.complete else 1


def write_outcome(state: AttemptState) -> AttemptOutcome:
    """Score the stored episodes, write results and status, and put aside the files that are still damaged."""
    if state.plan.precision:
        state.find_stops()
        state.replan()
    rows = write_judge_scores(state, own_judge_key(state.sweep))
    groups = {cell.model.name: worker_group(cell.model) for cell in state.plan.cells}
    reasons = {model: state.reasons[group] for model, group in groups.items() if group in state.reasons}
    cells = mark_cells(rows.iter_rows(named=True), state.standing, {**state.reasons, **reasons})
    write_status(state.output, cells, finished=not state.interrupted)
    put_aside_unmended(state.output)
    complete = int(rows["finished"].sum()) == state.plan.total_with_stops and not int(rows["failed"].sum())
    if complete and state.sweep.is_judged:  # every answer is read too, and enough of them have a verdict
        answered, judged, unjudged = (int(rows[name].sum()) for name in ("answered", "judged", "unjudged"))
        complete = answered == judged + unjudged and not reads_nothing(judged, answered)
    return AttemptOutcome(rows, complete, state.interrupted, state.reasons, state.seconds)


def write_judge_scores(state: AttemptState, judge: str) -> pl.DataFrame:
    """Return the rows scored by one judge; write them as results.json if it is the sweep's own."""
    rows, stored = score_folder(state.plan, state.sweep, state.output, judge), stored_episodes(state.plan, state.output)
    rows = add_measures(rows, state.output, state.sweep, stored, state.plan.samples_by_id, state.say)
    if own_judge_key(state.sweep) == judge:
        write_results(state.output, rows)
    return rows


def score_folder(plan: Plan, sweep: Sweep, output: Path, judge: str) -> pl.DataFrame:
    """Return one row per planned cell (``score``); open-ended answers count by the verdicts of this judge."""
    judge_verdicts = verdicts(output).filter(pl.col("judge") == judge)
    models = dict.fromkeys(cell.model.name for cell in plan.cells)
    stored = [stored_episodes(plan, output, model) for model in models]
    rows = score(stored, pl.DataFrame(planned_cells(plan)), judge_verdicts, reference=sweep.reference_conditions)
    return add_anytime_intervals(rows, stored_episodes(plan, output), plan.precision, plan.seed)
