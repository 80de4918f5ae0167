"""What must hold after an attempt that reached its end, before a later one can repair what it lost."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from envs.types import Ending
from orchestrator.execution.score import AttemptOutcome
from orchestrator.planning.plan import Plan
from orchestrator.storage.part_files import list_parts
from orchestrator.storage.verdict_store import verdicts
from sweeps.spec import Protocol
from tests.simulation.observed import ObservedDriver

if TYPE_CHECKING:
    from tests.simulation.world import SimulatedRun


@dataclass(frozen=True)
class StoredRun:
    """What a run folder holds, read from its files and not through the store."""

    endings: dict[str, str]
    """Key -> its ending."""
    cells: dict[str, Counter[str]]
    """Cell -> its endings, counted."""
    unread: frozenset[str]
    """Keys of open-ended answers without a verdict."""

    @classmethod
    def read(cls, folder: Path, plan: Plan) -> StoredRun:
        """Read the parts of a run folder."""
        columns = ["key", "cell", "ending"]
        frames = [
            pl.read_parquet(folder / "episodes" / part.name, columns=columns) for part in list_parts(folder).parts
        ]
        rows = [row for frame in frames for row in frame.iter_rows()]
        cells = {cell.key: Counter[str]() for cell in plan.cells}
        for _, cell, ending in rows:
            cells[cell][ending] += 1
        open_ended = {cell.key for cell in plan.cells if cell.protocol is Protocol.OEG}
        answers = {key for key, cell, ending in rows if cell in open_ended and ending == Ending.ANSWERED}
        judged = set(verdicts(folder).select("key").collect()["key"]) if (folder / "verdicts").is_dir() else set()
        return cls({key: ending for key, _, ending in rows}, cells, frozenset(answers - judged))


def check_attempt(run: SimulatedRun, outcome: AttemptOutcome) -> None:
    """Assert that an attempt has stored what it was to play, and that its counts are those of the files."""
    stored, driver = StoredRun.read(run.folder, run.plan), run.driver
    check_endings(run, stored)
    check_report(run, outcome, stored)
    if driver is not None:
        before = run.plan.total - sum(map(len, driver.pending.values()))
        counted = before + driver.sink.stored_per_group.total()
        assert counted == len(stored.endings), f"{counted} episodes count as stored, {len(stored.endings)} are"
        missing = driver.given_up - {key for key, ending in stored.endings.items() if ending == Ending.FAILED}
        assert not missing, f"{len(missing)} episodes that were given up are not stored as failed"
    if not outcome.interrupted:
        check_completeness(run, outcome, stored)
    if not run.events:
        assert not outcome.reasons, f"an undisturbed attempt lost something: {dict(outcome.reasons)}"
        check_single_plays(run, driver)


def check_endings(run: SimulatedRun, stored: StoredRun) -> None:
    """Assert that each stored episode ended as the engine let it end, or is one that a driver gave up."""
    expected = run.world.benchmark.endings.setdefault(run.sweep.name, stored.endings)
    run.given_up |= set() if run.driver is None else run.driver.given_up
    for key, ending in stored.endings.items():
        if ending == Ending.FAILED:
            assert key in run.given_up, f"{key} is stored as failed, and nobody gave it up"
        else:
            assert ending == expected[key], f"{key} is stored as {ending}, and the engine's episode is {expected[key]}"


def check_report(run: SimulatedRun, outcome: AttemptOutcome, stored: StoredRun) -> None:
    """Assert that the outcome and status.json name as finished, failed and unread what the files hold."""
    for row in outcome.rows.iter_rows(named=True):
        endings = stored.cells[row["cell"]]
        reported, counted = (row["finished"], row["failed"]), (endings.total(), endings[Ending.FAILED])
        assert reported == counted, f"{row['cell']}: finished and failed are reported as {reported}, stored {counted}"
    failed = sum(endings[Ending.FAILED] for endings in stored.cells.values())
    complete = len(stored.endings) == run.plan.total and not failed and not (stored.unread and run.sweep.is_judged)
    assert outcome.complete == complete, f"it is reported as complete {outcome.complete}, and that is {complete}"
    status = json.loads((run.folder / "status.json").read_bytes())
    for cell in status["cells"]:
        assert cell["finished"] == stored.cells[cell["cell"]].total(), f"status.json is wrong on {cell['cell']}"


def check_completeness(run: SimulatedRun, outcome: AttemptOutcome, stored: StoredRun) -> None:
    """Assert that an attempt which ended by itself left nothing but the groups that it reports as abandoned."""
    if run.driver is None:
        assert outcome.complete or Ending.FAILED in stored.endings.values(), (
            "it played nothing, and something is missing"
        )
        return
    groups, queue = run.driver.schedule.groups, run.driver.judge_queue
    for name, ordinals in run.driver.pending.items():
        if groups[name].abandoned:
            assert outcome.reasons.get(name), f"{name} is abandoned, and no reason is reported"
            continue
        keys = {run.plan.key(*run.plan.task(ordinal)) for ordinal in ordinals}
        missing = keys - stored.endings.keys()
        assert not missing, (
            f"the attempt ended by itself, and {len(missing)} of {len(keys)} episodes of {name} are missing"
        )
    if queue is not None and not groups[queue.group].abandoned:
        assert not stored.unread, f"the attempt ended by itself, and {len(stored.unread)} answers have no verdict"


def check_single_plays(run: SimulatedRun, driver: ObservedDriver | None) -> None:
    """Assert that no episode was played and no answer judged twice in an undisturbed attempt."""
    again = [item for item, count in run.ray.sent.items() if count > 1]
    assert driver is None or not again, f"an undisturbed attempt played {again[0]} again"
