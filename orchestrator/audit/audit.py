"""``audit``: replay every stored reply in our game and in the package ``proactivebench``, and list the differences.

``game_turns`` and ``open_ended`` document the comparison of each protocol.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import ModuleType

import polars as pl

from actors.playing.prompts import apply_condition
from envs import SCENARIOS
from orchestrator.audit import game_turns, open_ended
from orchestrator.audit.records import EpisodeDifference, Recording
from orchestrator.audit.reference_process import reference_process
from orchestrator.datasets.staging import fetch_lines
from orchestrator.planning.build_plan import stored_episodes
from orchestrator.planning.named_by_user import plan_from_folder
from orchestrator.planning.plan import Plan
from orchestrator.storage.episode_store import turns
from orchestrator.storage.planned_episodes import key_frame
from orchestrator.storage.run_folder import planned_episodes, stored_sweep
from orchestrator.storage.verdict_store import verdicts
from sweeps.spec import Protocol

BATCH = 1_000
"""Episodes sent to the package at once."""
MAX_LINES = 20
"""Most differences that are printed, and most episodes in which the package raises."""
STORED = (*game_turns.STORED, "read_as", "judged")
"""Columns of a turn that the audit reads."""
VERDICT = ("judge", *open_ended.BITS, *(f"strict_{name}" for name in open_ended.BITS), "attempts", "text")
"""Columns of a verdict that the audit compares."""


@dataclass(frozen=True)
class Audit:
    """The outcome of an audit."""

    episodes: int
    turns: int
    verdicts: int
    differences: tuple[EpisodeDifference, ...]
    raised: tuple[str, ...]
    """A sentence per episode that the package cannot play to its end (docs/decisions/0001)."""
    without_sample: int = 0
    """Stored episodes of the plan without a sample in this data folder."""
    of_packages: int = 0
    """Stored episodes of scenarios of installed packages, which the published package does not have."""
    maps: int = 0
    """Stored episodes of decision maps and operating curves, which the published package does not have."""

    @property
    def clean(self) -> bool:
        """Return True if all episodes were compared and none differs."""
        return not self.differences and not self.without_sample

    def lines(self) -> Iterator[str]:
        """Yield the differences, the episodes that the package cannot play, and the counts."""
        yield from map(str, islice(self.differences, MAX_LINES))
        yield from islice(self.raised, MAX_LINES)
        if self.raised:
            yield f"the package raises in {len(self.raised):,} episodes (docs/decisions/0001), compared up to that turn"
        if self.without_sample:
            reason = "the data folder lacks their samples; name the run's data folder with --data"
            yield f"{self.without_sample:,} stored episodes are not compared: {reason}"
        if self.of_packages:
            yield f"{self.of_packages:,} episodes are not compared: their scenarios are not in the published package"
        if self.maps:
            kinds = "decision maps and operating curves"
            yield f"{self.maps:,} episodes of {kinds} are not compared: the package has no such question"
        judged = f", {self.verdicts:,} verdicts" if self.verdicts else ""
        yield f"{self.episodes:,} episodes, {self.turns:,} turns{judged}: {len(self.differences):,} differences"


def audit(
    folder: Path,
    package: Path | None = None,
    python: str | None = None,
    data: Path | None = None,
    install: bool = False,
) -> Audit:
    """Replay a run folder; ``data`` is the benchmark's folder if it moved.

    Raises AuditError if the folder has no run or the package cannot run, BadData for unreadable samples.
    """
    sweep = stored_sweep(folder)
    if data is not None:
        sweep = sweep.model_copy(update={"data": str(data)})
    plan = plan_from_folder(folder, sweep)
    count, turn_count, verdict_count, differences, raised = 0, 0, 0, list[EpisodeDifference](), list[str]()
    with reference_process(fetch_lines(sweep), package, python, install) as ask:
        recordings = _recordings(plan, folder)
        while batch := list(islice(recordings, BATCH)):
            answers = ask([_comparison(episode).task(episode) for episode in batch])
            for episode, reference in zip(batch, answers, strict=True):
                count, turn_count = count + 1, turn_count + len(episode.row["reply"])
                verdict_count += len(episode.verdicts)
                differences += _comparison(episode).differences(episode, reference)
                if reference["raised"]:
                    raised.append(f"{episode.row['key']}: the package raises {reference['raised']}")
    of_packages, maps = _count_uncompared(plan, folder)
    plan_keys = key_frame(plan.all_keys()).lazy()
    missing = planned_episodes(folder).join(plan_keys, on="key", how="anti").select(pl.len()).collect().item()
    return Audit(count, turn_count, verdict_count, tuple(differences), tuple(raised), int(missing), of_packages, maps)


def _comparison(episode: Recording) -> ModuleType:
    """Return the module that compares episodes of this protocol."""
    return open_ended if episode.cell.protocol is Protocol.OEG else game_turns


def _count_uncompared(plan: Plan, folder: Path) -> tuple[int, int]:
    """Return the number of stored episodes of scenarios outside the paper, and of maps and curves among the others."""
    paper = pl.col("scenario").is_in(list(SCENARIOS))
    maps = pl.col("cell").is_in([cell.key for cell in plan.cells if cell.condition.unscored])
    columns = (~paper).sum().alias("of_packages"), (paper & maps).sum().alias("maps")
    counts = stored_episodes(plan, folder).select(columns).collect()
    of_packages, mapped = counts.row(0)
    return int(of_packages), int(mapped)


def _recordings(plan: Plan, folder: Path) -> Iterator[Recording]:
    """Yield the stored episodes of the plan, model by model."""
    cells = {cell.key: cell for cell in plan.cells}
    episodes = stored_episodes(plan, folder).filter(pl.col("scenario").is_in(list(SCENARIOS)))
    episodes = episodes.rename({name: f"n_{name}" for name in ("turns", "correct", *game_turns.COUNTED)})
    for model in dict.fromkeys(cell.model.name for cell in plan.cells):
        model_episodes = episodes.filter(pl.col("model") == model)
        model_turns = turns(folder).join(model_episodes.select("key"), on="key", how="semi").sort("key", "turn")
        lists = model_turns.group_by("key").agg(*STORED)
        model_verdicts = verdicts(folder).filter(pl.col("model") == model).sort("key", "judge")
        judged = model_verdicts.group_by("key").agg(pl.struct(VERDICT).alias("verdicts"))
        rows = model_episodes.join(lists, on="key", how="left").join(judged, on="key", how="left").sort("key")
        for row in rows.collect().iter_rows(named=True):
            cell = cells[row["cell"]]
            if cell.condition.unscored:
                continue  # the package has no such question
            columns = row | {name: row[name] or [] for name in STORED}
            sample = apply_condition(plan.samples_by_id[cell.scenario][row["sample_id"]], cell.condition, plan.seed)
            yield Recording(columns, cell, sample, row["verdicts"] or ())
