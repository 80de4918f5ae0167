"""Takes episodes and verdicts over from other run folders, where an equal key says that they would be played alike.

An episode is taken once or is pending: one that failed, whose turns or names do not fit, or whose pictures may have been
others, is left to be played. The first folder that has an episode counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import polars as pl

from actors.judge_runner import judge_key
from actors.redaction import redact_address
from envs.types import Ending
from orchestrator.datasets.sources import address
from orchestrator.merging.answers import Source, merged_verdicts, whole, write_episodes
from orchestrator.planning import pictures
from orchestrator.planning.build_plan import belonging
from orchestrator.planning.pictures import ShownPictures
from orchestrator.planning.plan import Plan
from orchestrator.report.wording import counted
from orchestrator.storage import lock, reused, run_folder
from orchestrator.storage.episode_store import EpisodeStore, episodes, turns
from orchestrator.storage.run_folder import RunFolderError
from orchestrator.storage.verdict_store import VerdictStore, verdicts
from sweeps.spec import Sweep

NAMED = ["key", "cell", "model", "scenario", "condition", "protocol", "sample_id", "seed"]
"""Columns of an episode that its plan knows before it is played."""
WHY = {
    "failed": "failed there",
    "damaged": "are not whole or not of this plan",
    "engine": "were played by another backend",
    "pictures": "may have been shown other pictures",
}
"""Reason -> what is said of the episodes that are left to be played."""
IN_KEYS = ("sampling.", "seed ", "open_ended.sampling.", "models.", "conditions.")
"""What sentences about settings that every key holds begin with (``run_folder.differences``)."""
SHOWN = 3
"""Such sentences that are told."""


@dataclass(frozen=True)
class Reusable:
    """What can be taken from one folder."""

    source: Source
    left: Counter[str]
    """Reason (``WHY``) -> pending episodes with that key there, which are not taken."""
    differs: tuple[str, ...] = ()
    """Where no key is there: what the two configurations decode, ask or draw otherwise, one sentence each."""

    @property
    def lines(self) -> Iterator[str]:
        """What is taken from where, and what is not and why."""
        why = f": {'; '.join(self.differs[:SHOWN])}" if self.differs else ""
        yield f"{counted(self.source.own.height, 'episode')} of {self.source.name} need not be played{why}"
        yield from (f"{count:,} of {self.source.name} {WHY[why]}: not taken" for why, count in self.left.items())


def reusable(sweep: Sweep, plan: Plan, output: Path, folders: Sequence[tuple[str, Path]]) -> list[Reusable]:
    """What of the plan these folders (as typed, and where they lie) hold and the run folder ``output`` lacks.

    ``sweep`` has its data pinned (``staging.fixed``). Raises RunFolderError where one is no run folder, or ``output``.
    """
    wanted = _wanted(plan)
    if (output / "episodes").is_dir():
        wanted = wanted.join(belonging(plan, output).select("key").collect(), on="key", how="anti")
    found = []
    for name, folder in folders:
        if lock.resolved(folder) == lock.resolved(output):
            raise RunFolderError(
                f"--reuse {name} is the run's own folder; leave it out: what it holds is not played again"
            )
        one = _of(sweep, plan, wanted, name, folder)
        wanted = wanted.join(one.source.own, on="key", how="anti", maintain_order="left")
        found.append(one)
    return found


def matching(sweep: Sweep, plan: Plan, name: str, folder: Path) -> Reusable:
    """What a folder holds of the plan, played alike and whole. Raises RunFolderError where it is no run."""
    return _of(sweep, plan, _wanted(plan), name, folder)


def take(store: EpisodeStore, found: Sequence[Reusable]) -> int:
    """Store what was found; how many episodes that is. Where it is cut off, the same call takes the rest."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    for one in found:
        if one.source.own.height:
            rows = one.source.episodes.select("key", pl.lit(None, pl.String).alias("judge"), "cell")
            reused.note(store.folder, _from(rows, one, now))
            write_episodes(store, [one.source])
    return sum(one.source.own.height for one in found)


def take_verdicts(sweep: Sweep, folder: Path, found: Sequence[Reusable]) -> int:
    """Store the verdicts of the sweep's own judge on answers that are word for word those of ``folder``; how many."""
    if not sweep.judged or sweep.judge is None:
        return 0
    judge, now, taken = judge_key(sweep.judge), datetime.now(UTC).isoformat(timespec="seconds"), 0
    for one in found:
        read = verdicts(folder).filter(pl.col("judge") == judge).select("key")
        same = turns(folder).join(turns(one.source.folder), on=["key", "turn", "reply"], how="semi")
        unread = same.join(read, on="key", how="anti").select("key").unique().collect()
        rows, _ = merged_verdicts([Source(one.source.folder, one.source.name, unread, unread, unread)])
        rows = rows.filter((pl.col("judge") == judge) & pl.col("aggregate").is_not_null())
        if rows.height:
            reused.note(folder, _from(rows.select("key", "judge", "cell"), one, now))
            kept = VerdictStore(folder)
            kept.append(rows.to_dict(as_series=False))
            kept.flush()
            taken += rows.height
    return taken


def per_cell(found: Sequence[Reusable]) -> dict[str, int]:
    """Cell -> episodes that can be taken."""
    return dict(Counter(cell for one in found for cell in one.source.episodes["cell"]))


def _from(rows: pl.DataFrame, one: Reusable, now: str) -> pl.DataFrame:
    return rows.with_columns(pl.lit(redact_address(one.source.name)).alias("folder"), pl.lit(now).alias("taken"))


def _wanted(plan: Plan) -> pl.DataFrame:
    """One row a planned episode (``NAMED``), in the order of ordinals, and its ``ordinal``."""
    rows = []
    for index, cell in enumerate(plan.cells):
        names = (cell.key, cell.model.name, cell.scenario, cell.condition.name, cell.protocol.value)
        for key, sample in zip(plan.keys(index), plan.drawn(cell), strict=True):
            rows.append((key, *names, sample.id, plan.episode_seed(sample, cell.condition)))
    schema = {name: pl.Int64 if name in ("sample_id", "seed") else pl.String for name in NAMED}
    return pl.DataFrame(rows, schema=schema, orient="row").with_row_index("ordinal")


def _of(sweep: Sweep, plan: Plan, wanted: pl.DataFrame, name: str, folder: Path) -> Reusable:
    old = run_folder.stored_sweep(folder)
    there = episodes(folder).join(wanted.lazy().select("key"), on="key", how="semi", maintain_order="left").collect()
    left = Counter[str]()

    def keep(rows: pl.DataFrame, why: str, good: pl.DataFrame) -> pl.DataFrame:
        kept = rows.join(good, on="key", how="semi", maintain_order="left")
        left.update({why: rows.height - kept.height} if kept.height < rows.height else {})
        return kept

    there = keep(there, "damaged", there.join(wanted, on=NAMED, how="semi").filter(_known_ending()))
    there = keep(there, "failed", there.filter(pl.col("ending") != Ending.FAILED))
    there = keep(there, "damaged", whole(there, _turns(folder, there)))
    there = keep(there, "engine", there.filter(pl.col("model").is_in(_same_backend(sweep, old))))
    there = keep(there, "pictures", _same_pictures(sweep, old, plan, folder, wanted.join(there, on="key", how="semi")))
    own = there.select("key")
    changed = [] if own.height or left else run_folder.differences(run_folder.settings(old), run_folder.settings(sweep))
    differs = tuple(line for line in changed if line.startswith(IN_KEYS))
    return Reusable(Source(folder, name, there, own, own), left, differs)


def _known_ending() -> pl.Expr:
    return pl.col("ending").is_in([str(ending) for ending in Ending])


def _turns(folder: Path, rows: pl.DataFrame) -> pl.DataFrame:
    return turns(folder).join(rows.lazy().select("key"), on="key", how="semi").select("key", "turn").collect()


def _same_backend(sweep: Sweep, old: Sweep) -> list[str]:
    there = {model.name: model.backend for model in old.models}
    return [model.name for model in sweep.models if there.get(model.name) == model.backend]


def _same_pictures(sweep: Sweep, old: Sweep, plan: Plan, folder: Path, rows: pl.DataFrame) -> pl.DataFrame:
    """Column ``key``: the episodes of which every picture is known to be what it was in the other run."""
    place, shown = address(sweep.data), ShownPictures(plan)
    if place is not None and place.scheme == "hf" and place.fixed and sweep.data == old.data:
        return rows.select("key")  # one commit has one content
    tasks = [plan.task(ordinal) for ordinal in rows["ordinal"]]
    paths = [shown.of(plan.cells[index], sample) for index, sample in tasks]
    same = _unchanged(sweep, folder, sorted(frozenset().union(*paths))) if place is None else frozenset[str]()
    return rows.filter(pl.Series([needed <= same for needed in paths], dtype=pl.Boolean)).select("key")


def _unchanged(sweep: Sweep, folder: Path, paths: Sequence[str]) -> frozenset[str]:
    """The pictures that are now what they were for the run in ``folder``."""
    there = pictures.stored(folder)
    known = [path for path in paths if path in there]
    now = pictures.looked_at(Path(sweep.data), known, there)
    return frozenset(one.path for one in now if one.sum == there[one.path].sum != pictures.UNKNOWN)
