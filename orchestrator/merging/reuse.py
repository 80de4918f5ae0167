"""Reuses episodes and verdicts of other run folders that have the same keys.

An episode is taken from the first folder that has it. It stays pending if it has failed or is damaged there, or if its
backend, weights or pictures may differ (``REJECTION_REASONS``).
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import polars as pl

from actors.playing.judge_runner import judge_key
from actors.text.printable import list_first
from actors.text.redaction import redact_address
from envs.errors import RunFolderError
from envs.plural import pluralize
from envs.types import Ending
from orchestrator.datasets.sources import parse_address
from orchestrator.merging.answers import Source, complete_episodes, merge_verdicts, write_episodes
from orchestrator.planning import pictures
from orchestrator.planning.build_plan import stored_episodes
from orchestrator.planning.pictures import ShownPictures
from orchestrator.planning.plan import Plan
from orchestrator.storage import lock, reused, run_folder
from orchestrator.storage.episode_store import EpisodeStore, episodes, turns
from orchestrator.storage.loaded_weights import LoadedWeights
from orchestrator.storage.verdict_store import VerdictStore, verdicts
from sweeps.spec import Sweep

PLANNED_COLUMNS = ["key", "cell", "model", "scenario", "condition", "protocol", "sample_id", "seed"]
"""Columns of an episode that the plan determines."""
REJECTION_REASONS = {
    "failed": "failed there",
    "damaged": "are incomplete or not of this plan",
    "engine": "were played by another backend",
    "weights": "were played with other weights than this run's or this machine's",
    "pictures": "may have had other pictures",
}
"""Reason -> its text in messages."""
KEY_SETTINGS = ("sampling.", "seed ", "open_ended.sampling.", "models.", "conditions.")
"""Beginnings of the lines of ``run_folder.differences`` about settings that are part of every key."""


@dataclass(frozen=True)
class Reusable:
    """The episodes to take from one folder."""

    source: Source
    left: Counter[str]
    """Reason -> number of the folder's episodes with pending keys that are not taken."""
    differs: tuple[str, ...] = ()
    """If the folder has none of the keys: the settings that differ, one line each."""

    @property
    def lines(self) -> Iterator[str]:
        """Yield lines that say how many episodes are taken, and how many are not, with the reason."""
        reasons = f": {list_first(self.differs, separator='; ')}" if self.differs else ""
        yield f"{pluralize(self.source.own.height, 'episode')} of {self.source.name} can be reused{reasons}"
        yield from (
            f"{count:,} of {self.source.name} {REJECTION_REASONS[reason]}: not taken"
            for reason, count in self.left.items()
        )


def find_reusable(sweep: Sweep, plan: Plan, output: Path, folders: Sequence[tuple[str, Path]]) -> list[Reusable]:
    """Find the planned episodes that the run folder ``output`` lacks and one of ``folders`` (name as typed, path) has.

    The data of ``sweep`` must be pinned (``staging.pin_data``). Raises RunFolderError if a folder has no run or is ``output``.
    """
    wanted = _planned_rows(plan)
    if (output / "episodes").is_dir():
        wanted = wanted.join(stored_episodes(plan, output).select("key").collect(), on="key", how="anti")
    sources = []
    for name, folder in folders:
        if lock.real_path(folder) == lock.real_path(output):
            raise RunFolderError(
                f"--reuse {name} is the run's own folder; remove it: stored episodes are never replayed"
            )
        reusable = _find_in_folder(sweep, plan, wanted, name, folder, output)
        wanted = wanted.join(reusable.source.own, on="key", how="anti", maintain_order="left")
        sources.append(reusable)
    return sources


def reusable_from(sweep: Sweep, plan: Plan, name: str, folder: Path) -> Reusable:
    """Return all planned episodes that can be reused from a folder; raises RunFolderError if it has no run."""
    return _find_in_folder(sweep, plan, _planned_rows(plan), name, folder, folder)


def store_reused_episodes(store: EpisodeStore, reusables: Sequence[Reusable]) -> int:
    """Store the episodes and return their number; after a crash, call it again to store the rest."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    for reusable in reusables:
        if reusable.source.own.height:
            rows = reusable.source.own.select("key", pl.lit(None, pl.String).alias("judge"), "cell")
            reused.record_reused(store.folder, _reuse_records(rows, reusable, now))
            write_episodes(store, [reusable.source])
    return sum(reusable.source.own.height for reusable in reusables)


def store_reused_verdicts(sweep: Sweep, folder: Path, reusables: Sequence[Reusable]) -> int:
    """Store the verdicts that the sweep's judge gave on equal answers in other folders; return their number."""
    if not sweep.is_judged or sweep.judge is None:
        return 0
    judge, now, taken = judge_key(sweep.judge), datetime.now(UTC).isoformat(timespec="seconds"), 0
    for reusable in reusables:
        read = verdicts(folder).filter(pl.col("judge") == judge).select("key")
        equal_turns = turns(folder).join(turns(reusable.source.folder), on=["key", "turn", "reply"], how="semi")
        unread = equal_turns.join(read, on="key", how="anti").select("key").unique().collect()
        rows, _ = merge_verdicts([Source(reusable.source.folder, reusable.source.name, unread, unread)])
        rows = rows.filter((pl.col("judge") == judge) & pl.col("aggregate").is_not_null())
        if rows.height:
            reused.record_reused(folder, _reuse_records(rows.select("key", "judge", "cell"), reusable, now))
            verdict_store = VerdictStore(folder)
            verdict_store.append(rows.to_dict(as_series=False))
            verdict_store.flush()
            taken += rows.height
    return taken


def _reuse_records(rows: pl.DataFrame, reusable: Reusable, now: str) -> pl.DataFrame:
    return rows.with_columns(pl.lit(redact_address(reusable.source.name)).alias("folder"), pl.lit(now).alias("taken"))


def _planned_rows(plan: Plan) -> pl.DataFrame:
    """Return one row per planned episode: ``ordinal`` and ``PLANNED_COLUMNS``."""
    rows = []
    for index, cell in enumerate(plan.cells):
        names = (cell.key, cell.model.name, cell.scenario, cell.condition.name, cell.protocol.value)
        for key, sample in zip(plan.keys(index), plan.cell_samples(cell), strict=True):
            rows.append((key, *names, sample.id, plan.episode_seed(sample, cell.condition)))
    schema = {name: pl.Int64 if name in ("sample_id", "seed") else pl.String for name in PLANNED_COLUMNS}
    return pl.DataFrame(rows, schema=schema, orient="row").with_row_index("ordinal")


def _find_in_folder(sweep: Sweep, plan: Plan, wanted: pl.DataFrame, name: str, folder: Path, output: Path) -> Reusable:
    old = run_folder.stored_sweep(folder)
    rows = episodes(folder).join(wanted.lazy().select("key"), on="key", how="semi", maintain_order="left").collect()
    left = Counter[str]()

    def keep(rows: pl.DataFrame, reason: str, good: pl.DataFrame) -> pl.DataFrame:
        matching = rows.join(good, on="key", how="semi", maintain_order="left")
        left.update({reason: rows.height - matching.height} if matching.height < rows.height else {})
        return matching

    rows = keep(
        rows, "damaged", rows.join(wanted, on=PLANNED_COLUMNS, how="semi").filter(pl.col("ending").is_in([*Ending]))
    )
    rows = keep(rows, "failed", rows.filter(pl.col("ending") != Ending.FAILED))
    turn_rows = turns(folder).join(rows.lazy().select("key"), on="key", how="semi").select("key", "turn").collect()
    rows = keep(rows, "damaged", complete_episodes(rows, turn_rows))
    backends = {model.name: model.backend for model in old.models}
    same_backend = [model.name for model in sweep.models if backends.get(model.name) == model.backend]
    rows = keep(rows, "engine", rows.filter(pl.col("model").is_in(same_backend)))
    own_weights, weights = LoadedWeights(output), LoadedWeights(folder)
    other = [m.name for m in sweep.models if weights.mismatch(m) or own_weights.differs_from(weights, m)]
    rows = keep(rows, "weights", rows.filter(~pl.col("model").is_in(other)))
    planned = wanted.join(rows, on="key", how="semi")
    rows = keep(rows, "pictures", _episodes_with_same_pictures(sweep, old, plan, folder, planned))
    changed = (
        [] if rows.height or left else run_folder.differences(run_folder.settings(old), run_folder.settings(sweep))
    )
    differs = tuple(line for line in changed if line.startswith(KEY_SETTINGS))
    return Reusable(Source(folder, name, rows, rows), left, differs)


def _episodes_with_same_pictures(
    sweep: Sweep, old: Sweep, plan: Plan, folder: Path, rows: pl.DataFrame
) -> pl.DataFrame:
    """Return the keys of episodes whose pictures are all known to be unchanged since the other run."""
    location, pictures_shown = parse_address(sweep.data), ShownPictures(plan)
    if location is not None and location.scheme == "hf" and location.fixed and sweep.data == old.data:
        return rows.select("key")  # both runs used the same commit, which never changes
    tasks = [plan.task(ordinal) for ordinal in rows["ordinal"]]
    paths = [pictures_shown.paths(plan.cells[index], sample) for index, sample in tasks]
    unchanged = (
        _unchanged_pictures(sweep, folder, sorted(frozenset().union(*paths))) if location is None else frozenset[str]()
    )
    return rows.filter(pl.Series([needed <= unchanged for needed in paths], dtype=pl.Boolean)).select("key")


def _unchanged_pictures(sweep: Sweep, folder: Path, paths: Sequence[str]) -> frozenset[str]:
    """Return the pictures that have not changed since the run in ``folder``."""
    earlier = pictures.read_pictures(folder)
    recorded = [path for path in paths if path in earlier]
    now = pictures.scan_pictures(Path(sweep.data), recorded, earlier)
    return frozenset(picture.path for picture in now if picture.sum == earlier[picture.path].sum != pictures.CHANGED)
