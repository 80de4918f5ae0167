"""``audit``: replays every stored reply through our game and the package ``proactivebench``, and lists each difference.

``multiple_choice``, ``open_ended``, ``several_turns`` and ``function_calls`` say what is compared in each protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import polars as pl

from actors.playing.prompts import apply_condition
from envs import SCENARIOS
from orchestrator.audit import function_calls, multiple_choice, open_ended, several_turns
from orchestrator.audit.records import Difference, Recording
from orchestrator.audit.reference_process import referee
from orchestrator.datasets.staging import fetch_lines
from orchestrator.planning.build_plan import build_plan, stored_episodes
from orchestrator.planning.plan import Plan
from orchestrator.storage.episode_store import turns
from orchestrator.storage.planned_episodes import key_frame
from orchestrator.storage.run_folder import planned_episodes, stored_sweep
from orchestrator.storage.verdict_store import verdicts
from sweeps.spec import Protocol, Sweep

BATCH = 1_000
"""Episodes sent to the package at once."""
SHOWN = 20
"""Differences that are printed; the count tells all."""
STORED = (*multiple_choice.STORED, *several_turns.JUDGED)
"""Columns of a turn that are read."""
JUDGES = ("judge", *open_ended.READ, *(f"strict_{name}" for name in open_ended.READ), "attempts", "text")
"""Columns of a verdict that are compared."""
TASK: Mapping[Protocol, Callable[[Recording], dict[str, Any]]] = {
    Protocol.MCQA: multiple_choice.task, Protocol.OEG: open_ended.task, Protocol.OEG_MULTI: several_turns.task,
    Protocol.TOOLS: function_calls.task,
}  # fmt: skip
COMPARED: Mapping[Protocol, Callable[[Recording, Mapping[str, Any]], Iterator[Difference]]] = {
    Protocol.MCQA: multiple_choice.compared, Protocol.OEG: open_ended.compared, Protocol.OEG_MULTI: several_turns.compared,
    Protocol.TOOLS: function_calls.compared,
}  # fmt: skip


@dataclass(frozen=True)
class Audit:
    """What an audit found."""

    episodes: int
    turns: int
    verdicts: int
    differences: tuple[Difference, ...]
    raised: tuple[str, ...]
    """Episodes that the package cannot play (docs/decisions/0001), one sentence each; compared up to there."""
    strange: int = 0
    """Stored episodes that the run was to play and this data folder has no sample for: nothing to compare them with."""
    own: int = 0
    """Stored episodes of scenarios of installed packages, which the published package does not know."""
    maps: int = 0
    """Stored decision maps, whose question the package does not ask."""

    @property
    def clean(self) -> bool:
        """Return True if everything was compared and nothing differs."""
        return not self.differences and not self.strange

    def lines(self) -> Iterator[str]:
        """What to print: the differences, what the package could not play, and the count."""
        yield from map(str, islice(self.differences, SHOWN))
        yield from islice(self.raised, SHOWN)
        if self.raised:
            yield f"the package raises in {len(self.raised):,} episodes (docs/decisions/0001), compared up to there"
        if self.strange:
            yield (
                f"{self.strange:,} stored episodes are not compared: the data folder has other samples than were played;"
                " name the one of the run with --data"
            )
        if self.own:
            yield f"{self.own:,} stored episodes are of scenarios of installed packages, which the published one does not know"
        if self.maps:
            yield f"{self.maps:,} decision maps are not compared: the package asks no such question"
        judged = f", {self.verdicts:,} verdicts" if self.verdicts else ""
        yield f"{self.episodes:,} episodes, {self.turns:,} turns{judged}: {len(self.differences):,} differences"


def audit(folder: Path, package: Path | None = None, python: str | None = None, data: Path | None = None) -> Audit:
    """Replay a run folder; ``data`` is where the benchmark lies now, if not where the sweep says.

    Raises AuditError when the folder is no run or the package cannot be run, BadData when the samples cannot be read.
    """
    sweep = _sweep(folder, data)
    plan = build_plan(sweep)
    count, rows, verdict_count, differences, raised = 0, 0, 0, list[Difference](), list[str]()
    with referee(fetch_lines(sweep), package, python) as ask:
        recordings = _recordings(plan, folder)
        while batch := list(islice(recordings, BATCH)):
            answers = ask([TASK[episode.cell.protocol](episode) for episode in batch])
            for episode, reference in zip(batch, answers, strict=True):
                count, rows = count + 1, rows + len(episode.row["reply"])
                verdict_count += len(episode.verdicts)
                differences += COMPARED[episode.cell.protocol](episode, reference)
                if reference["raised"]:
                    raised.append(f"{episode.row['key']}: the package raises {reference['raised']}")
    return Audit(
        count, rows, verdict_count, tuple(differences), tuple(raised), _strange(plan, folder), *_apart(plan, folder)
    )


def _strange(plan: Plan, folder: Path) -> int:
    """How many stored episodes of the run's own plan this one does not know."""
    plan_keys = key_frame(plan.all_keys())
    return int(planned_episodes(folder).join(plan_keys.lazy(), on="key", how="anti").select(pl.len()).collect().item())


def _apart(plan: Plan, folder: Path) -> tuple[int, int]:
    """How many stored episodes are of scenarios that are none of the paper's, and how many others are decision maps."""
    paper = pl.col("scenario").is_in(list(SCENARIOS))
    maps = pl.col("cell").is_in([cell.key for cell in plan.cells if cell.condition.every_frame])
    counts = (
        stored_episodes(plan, folder).select((~paper).sum().alias("own"), (paper & maps).sum().alias("maps")).collect()
    )
    own, mapped = counts.row(0)
    return int(own), int(mapped)


def _sweep(folder: Path, data: Path | None) -> Sweep:
    sweep = stored_sweep(folder)
    return sweep if data is None else sweep.model_copy(update={"data": str(data)})


def _recordings(plan: Plan, folder: Path) -> Iterator[Recording]:
    """The stored episodes that belong to the plan, model by model."""
    cells = {cell.key: cell for cell in plan.cells}
    episodes = stored_episodes(plan, folder).filter(pl.col("scenario").is_in(list(SCENARIOS)))
    clash = [name for name in ("turns", "correct", *multiple_choice.COUNTED)]
    episodes = episodes.rename({name: f"n_{name}" for name in clash})
    for model in dict.fromkeys(cell.model.name for cell in plan.cells):
        model_episodes = episodes.filter(pl.col("model") == model)
        model_turns = turns(folder).join(model_episodes.select("key"), on="key", how="semi").sort("key", "turn")
        lists = model_turns.group_by("key").agg(*STORED)
        model_verdicts = verdicts(folder).filter(pl.col("model") == model).sort("key", "judge")
        judged = model_verdicts.group_by("key").agg(pl.struct(JUDGES).alias("verdicts"))
        rows = model_episodes.join(lists, on="key", how="left").join(judged, on="key", how="left").sort("key")
        for row in rows.collect().iter_rows(named=True):
            cell = cells[row["cell"]]
            if cell.condition.every_frame:
                continue  # the package asks no such question
            columns = row | {name: row[name] or [] for name in STORED}
            sample = apply_condition(plan.samples_by_id[cell.scenario][row["sample_id"]], cell.condition, plan.seed)
            yield Recording(columns, cell, sample, row["verdicts"] or ())
