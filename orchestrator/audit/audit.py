"""``audit``: replay every stored reply in our game and in the package ``proactivebench``, and list the differences."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import polars as pl

from actors.playing.prompts import apply_condition
from envs import SCENARIOS
from orchestrator.audit.comparison import BITS, STORED, Difference, Recording, differences, task
from orchestrator.audit.package import open_package
from orchestrator.datasets.staging import fetch_lines
from orchestrator.planning.build_plan import stored_episodes
from orchestrator.planning.named_by_user import plan_from_folder
from orchestrator.planning.plan import Plan
from orchestrator.storage.episode_store import key_frame, turns
from orchestrator.storage.run_folder import planned_episodes, stored_sweep
from orchestrator.storage.verdict_store import verdicts
from sweeps.spec import Cell

BATCH = 10_000
"""Episodes sent to the package at once."""
MAX_LINES = 20
"""Most differences that are printed, and most episodes in which the package raises."""
TURNS = (*STORED, "reply", "read_as", "judged")
"""Columns of a turn that the audit reads."""
VERDICT = ("judge", *BITS, *(f"strict_{name}" for name in BITS), "attempts", "text")
"""Columns of a verdict that the audit compares."""


@dataclass(frozen=True)
class Audit:
    """The outcome of an audit."""

    episodes: int
    turns: int
    verdicts: int
    differences: tuple[Difference, ...]
    raised: tuple[str, ...]
    """A sentence per episode that the package cannot play to its end (docs/decisions/0001)."""
    without_sample: int = 0
    """Stored episodes of the plan without a sample in this data folder."""
    of_packages: int = 0
    """Stored episodes of scenarios and questions of installed packages, which the published package does not have."""

    @property
    def clean(self) -> bool:
        """Return True if all episodes were compared and none differs."""
        return not self.differences and not self.without_sample

    def lines(self) -> Iterator[str]:
        """Yield the differences, the episodes that the package cannot play, and the counts."""
        yield from map(str, self.differences[:MAX_LINES])
        yield from self.raised[:MAX_LINES]
        if self.raised:
            yield f"the package raises in {len(self.raised):,} episodes (docs/decisions/0001), compared up to that turn"
        if self.without_sample:
            reason = "the data folder lacks their samples; name the run's data folder with --data"
            yield f"{self.without_sample:,} stored episodes are not compared: {reason}"
        if self.of_packages:
            yield f"{self.of_packages:,} episodes are not compared: the published package has no such scenario or question"
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

    Raises RunFolderError if the folder has no run or the package cannot run, BadData for unreadable samples.
    """
    sweep = stored_sweep(folder)
    if data is not None:
        sweep = sweep.model_copy(update={"data": str(data)})
    plan = plan_from_folder(folder, sweep)
    ask = open_package(fetch_lines(sweep), package, python, install)
    count, turn_count, verdict_count, found, raised = 0, 0, 0, list[Difference](), list[str]()
    cells = {c.key: c for c in plan.cells if c.scenario in SCENARIOS and not c.condition.unscored}
    recordings = _recordings(plan, folder, cells)
    while batch := list(islice(recordings, BATCH)):
        for episode, answer in zip(batch, ask(list(map(task, batch))), strict=True):
            count, turn_count = count + 1, turn_count + len(episode.row["reply"])
            verdict_count += len(episode.verdicts)
            found += differences(episode, answer)
            if answer["raised"]:
                raised.append(f"{episode.row['key']}: the package raises {answer['raised']}")
    others = stored_episodes(plan, folder).filter(~pl.col("cell").is_in(list(cells))).select(pl.len())
    plan_keys = key_frame(plan.all_keys()).lazy()
    missing = planned_episodes(folder).join(plan_keys, on="key", how="anti").select(pl.len()).collect().item()
    return Audit(count, turn_count, verdict_count, tuple(found), tuple(raised), int(missing), others.collect().item())


def _recordings(plan: Plan, folder: Path, cells: Mapping[str, Cell]) -> Iterator[Recording]:
    """Yield the stored episodes of these cells, model by model."""
    episodes = stored_episodes(plan, folder).filter(pl.col("cell").is_in(list(cells)))
    for model in dict.fromkeys(cell.model.name for cell in cells.values()):
        own = episodes.filter(pl.col("model") == model)
        own_turns = turns(folder).join(own.select("key"), on="key", how="semi").sort("key", "turn")
        own_verdicts = verdicts(folder).filter(pl.col("model") == model).sort("key", "judge")
        judged = own_verdicts.group_by("key").agg(pl.struct(VERDICT).alias("verdicts"))
        rows = own.join(own_turns.group_by("key").agg(*TURNS), on="key", how="left").join(judged, on="key", how="left")
        for row in rows.sort("key").collect().iter_rows(named=True):
            cell = cells[row["cell"]]
            sample = apply_condition(plan.samples_by_id[cell.scenario][row["sample_id"]], cell.condition, plan.seed)
            columns = row | {name: row[name] or [] for name in TURNS}
            yield Recording(columns, cell, sample, row["verdicts"] or ())
