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

from actors.playing.judge_runner import judge_key
from actors.text.redaction import redact_address
from envs.types import Ending
from orchestrator.datasets.sources import parse_address
from orchestrator.merging.answers import Source, complete_episodes, merged_verdicts, write_episodes
from orchestrator.planning import pictures
from orchestrator.planning.build_plan import stored_episodes
from orchestrator.planning.pictures import ShownPictures
from orchestrator.planning.plan import Plan
from orchestrator.report.wording import pluralize
from orchestrator.storage import lock, reused, run_folder
from orchestrator.storage.episode_store import EpisodeStore, episodes, turns
from orchestrator.storage.lock import RunFolderError
from orchestrator.storage.verdict_store import VerdictStore, verdicts
from sweeps.spec import Sweep

NAMED = ["key", "cell", "model", "scenario", "condition", "protocol", "sample_id", "seed"]
"""Columns of an episode that its plan knows before it is played."""
REJECTION_REASONS = {
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
        yield f"{pluralize(self.source.own.height, 'episode')} of {self.source.name} need not be played{why}"
        yield from (
            f"{count:,} of {self.source.name} {REJECTION_REASONS[why]}: not taken" for why, count in self.left.items()
        )


def find_reusable(sweep: Sweep, plan: Plan, output: Path, folders: Sequence[tuple[str, Path]]) -> list[Reusable]:
    """What of the plan these folders (as typed, and where they lie) hold and the run folder ``output`` lacks.

    ``sweep`` has its data pinned (``staging.fixed``). Raises RunFolderError where one is no run folder, or ``output``.
    """
    wanted = _planned_rows(plan)
    if (output / "episodes").is_dir():
        wanted = wanted.join(stored_episodes(plan, output).select("key").collect(), on="key", how="anti")
    sources = []
    for name, folder in folders:
        if lock.real_path(folder) == lock.real_path(output):
            raise RunFolderError(
                f"--reuse {name} is the run's own folder; leave it out: what it holds is not played again"
            )
        reusable = _find_in_folder(sweep, plan, wanted, name, folder)
        wanted = wanted.join(reusable.source.own, on="key", how="anti", maintain_order="left")
        sources.append(reusable)
    return sources


def reusable_from(sweep: Sweep, plan: Plan, name: str, folder: Path) -> Reusable:
    """What a folder holds of the plan, played alike and whole. Raises RunFolderError where it is no run."""
    return _find_in_folder(sweep, plan, _planned_rows(plan), name, folder)


def store_reused_episodes(store: EpisodeStore, reusables: Sequence[Reusable]) -> int:
    """Store what was found; how many episodes that is. Where it is cut off, the same call takes the rest."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    for reusable in reusables:
        if reusable.source.own.height:
            rows = reusable.source.episodes.select("key", pl.lit(None, pl.String).alias("judge"), "cell")
            reused.record_reused(store.folder, _reuse_records(rows, reusable, now))
            write_episodes(store, [reusable.source])
    return sum(reusable.source.own.height for reusable in reusables)


def store_reused_verdicts(sweep: Sweep, folder: Path, reusables: Sequence[Reusable]) -> int:
    """Store the verdicts of the sweep's own judge on answers that are word for word those of ``folder``; how many."""
    if not sweep.is_judged or sweep.judge is None:
        return 0
    judge, now, taken = judge_key(sweep.judge), datetime.now(UTC).isoformat(timespec="seconds"), 0
    for reusable in reusables:
        read = verdicts(folder).filter(pl.col("judge") == judge).select("key")
        same = turns(folder).join(turns(reusable.source.folder), on=["key", "turn", "reply"], how="semi")
        unread = same.join(read, on="key", how="anti").select("key").unique().collect()
        rows, _ = merged_verdicts([Source(reusable.source.folder, reusable.source.name, unread, unread, unread)])
        rows = rows.filter((pl.col("judge") == judge) & pl.col("aggregate").is_not_null())
        if rows.height:
            reused.record_reused(folder, _reuse_records(rows.select("key", "judge", "cell"), reusable, now))
            verdict_store = VerdictStore(folder)
            verdict_store.append(rows.to_dict(as_series=False))
            verdict_store.flush()
            taken += rows.height
    return taken


def reusable_per_cell(reusables: Sequence[Reusable]) -> dict[str, int]:
    """Cell -> episodes that can be taken."""
    return dict(Counter(cell for reusable in reusables for cell in reusable.source.episodes["cell"]))


def _reuse_records(rows: pl.DataFrame, reusable: Reusable, now: str) -> pl.DataFrame:
    return rows.with_columns(pl.lit(redact_address(reusable.source.name)).alias("folder"), pl.lit(now).alias("taken"))


def _planned_rows(plan: Plan) -> pl.DataFrame:
    """One row a planned episode (``NAMED``), in the order of ordinals, and its ``ordinal``."""
    rows = []
    for index, cell in enumerate(plan.cells):
        names = (cell.key, cell.model.name, cell.scenario, cell.condition.name, cell.protocol.value)
        for key, sample in zip(plan.keys(index), plan.cell_samples(cell), strict=True):
            rows.append((key, *names, sample.id, plan.episode_seed(sample, cell.condition)))
    schema = {name: pl.Int64 if name in ("sample_id", "seed") else pl.String for name in NAMED}
    return pl.DataFrame(rows, schema=schema, orient="row").with_row_index("ordinal")


def _find_in_folder(sweep: Sweep, plan: Plan, wanted: pl.DataFrame, name: str, folder: Path) -> Reusable:
    old = run_folder.stored_sweep(folder)
    there = episodes(folder).join(wanted.lazy().select("key"), on="key", how="semi", maintain_order="left").collect()
    left = Counter[str]()

    def keep(rows: pl.DataFrame, why: str, good: pl.DataFrame) -> pl.DataFrame:
        matching = rows.join(good, on="key", how="semi", maintain_order="left")
        left.update({why: rows.height - matching.height} if matching.height < rows.height else {})
        return matching

    there = keep(there, "damaged", there.join(wanted, on=NAMED, how="semi").filter(_has_known_ending()))
    there = keep(there, "failed", there.filter(pl.col("ending") != Ending.FAILED))
    there = keep(there, "damaged", complete_episodes(there, _turn_keys(folder, there)))
    there = keep(there, "engine", there.filter(pl.col("model").is_in(_models_of_same_backend(sweep, old))))
    planned = wanted.join(there, on="key", how="semi")
    there = keep(there, "pictures", _episodes_with_same_pictures(sweep, old, plan, folder, planned))
    own = there.select("key")
    changed = [] if own.height or left else run_folder.differences(run_folder.settings(old), run_folder.settings(sweep))
    differs = tuple(line for line in changed if line.startswith(IN_KEYS))
    return Reusable(Source(folder, name, there, own, own), left, differs)


def _has_known_ending() -> pl.Expr:
    return pl.col("ending").is_in([str(ending) for ending in Ending])


def _turn_keys(folder: Path, rows: pl.DataFrame) -> pl.DataFrame:
    return turns(folder).join(rows.lazy().select("key"), on="key", how="semi").select("key", "turn").collect()


def _models_of_same_backend(sweep: Sweep, old: Sweep) -> list[str]:
    there = {model.name: model.backend for model in old.models}
    return [model.name for model in sweep.models if there.get(model.name) == model.backend]


def _episodes_with_same_pictures(
    sweep: Sweep, old: Sweep, plan: Plan, folder: Path, rows: pl.DataFrame
) -> pl.DataFrame:
    """Column ``key``: the episodes of which every picture is known to be what it was in the other run."""
    location, pictures_shown = parse_address(sweep.data), ShownPictures(plan)
    if location is not None and location.scheme == "hf" and location.fixed and sweep.data == old.data:
        return rows.select("key")  # one commit has one content
    tasks = [plan.task(ordinal) for ordinal in rows["ordinal"]]
    paths = [pictures_shown.paths(plan.cells[index], sample) for index, sample in tasks]
    same = (
        _unchanged_pictures(sweep, folder, sorted(frozenset().union(*paths))) if location is None else frozenset[str]()
    )
    return rows.filter(pl.Series([needed <= same for needed in paths], dtype=pl.Boolean)).select("key")


def _unchanged_pictures(sweep: Sweep, folder: Path, paths: Sequence[str]) -> frozenset[str]:
    """The pictures that are now what they were for the run in ``folder``."""
    there = pictures.read_pictures(folder)
    recorded = [path for path in paths if path in there]
    now = pictures.scan_pictures(Path(sweep.data), recorded, there)
    return frozenset(picture.path for picture in now if picture.sum == there[picture.path].sum != pictures.UNKNOWN)
