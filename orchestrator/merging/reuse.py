"""Reuses episodes and verdicts of other run folders that have the same keys (``run --reuse``).

An episode stays pending if it has failed there, or if its backend, weights or pictures may differ (``REJECTION_REASONS``).
"""

import os
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
from orchestrator.merging.answers import rows_of_keys, write_episodes, write_verdicts
from orchestrator.planning import pictures
from orchestrator.planning.build_plan import stored_episodes
from orchestrator.planning.plan import Plan
from orchestrator.storage import reused, run_folder
from orchestrator.storage.episode_store import EpisodeStore, episodes, key_frame
from orchestrator.storage.loaded_weights import LoadedWeights
from orchestrator.storage.part_files import hold_parts
from orchestrator.storage.verdict_store import verdicts
from sweeps.spec import Sweep

REJECTION_REASONS = {
    "failed": "failed there",
    "engine": "were played by another backend",
    "weights": "were played with other weights than this run's or this machine's",
    "pictures": "may have had other pictures",
}
"""Reason -> its text in messages."""
KEY_SETTINGS = ("sampling.", "seed ", "open_ended.sampling.", "models.", "conditions.")
"""Beginnings of the lines of ``run_folder.differences`` about settings that are part of every key."""


@dataclass(frozen=True)
class Reusable:
    """The episodes that may be taken from one folder."""

    name: str
    """The folder as typed."""
    own: pl.DataFrame
    """The episodes (columns ``EPISODES``)."""
    left: Counter[str]
    """Reason -> number of the folder's episodes with pending keys that are not taken."""
    differs: tuple[str, ...] = ()
    """If the folder has none of the keys: the settings that differ, one line each."""

    @property
    def lines(self) -> Iterator[str]:
        """Yield lines that say how many episodes are taken, and how many are not, with the reason."""
        reasons = f": {list_first(self.differs, separator='; ')}" if self.differs else ""
        yield f"{pluralize(self.own.height, 'episode')} of {self.name} can be reused{reasons}"
        for reason, count in self.left.items():
            yield f"{count:,} of {self.name} {REJECTION_REASONS[reason]}: not taken"


def take_over(sweep: Sweep, plan: Plan, store: EpisodeStore, folders: Sequence[tuple[str, Path]]) -> Iterator[str]:
    """Store the planned episodes that a run lacks and one of ``folders`` (name as typed, path) has, and their verdicts.

    A folder is asked only for what the run and the folders before it lack. Yields lines about each folder. After a crash, call it
    again to store the rest. Raises RunFolderError if a folder has no run or is the run's own.
    """
    for name, folder in folders:
        if os.path.realpath(folder) == os.path.realpath(store.folder):
            raise RunFolderError(
                f"--reuse {name} is the run's own folder; remove it: stored episodes are never replayed"
            )
        run_folder.stored_sweep(folder)  # a mistyped folder is refused before anything is copied
    with hold_parts(folder for _, folder in folders):
        for name, folder in folders:
            stored = stored_episodes(plan, store.folder).select("key").collect()
            reusable = find_reusable(sweep, plan, name, folder, store.folder, stored)
            _record(store.folder, name, reusable.own.with_columns(judge=pl.lit(None, pl.String)))
            write_episodes(store, folder, reusable.own)
            yield from reusable.lines
            if sweep.judge is not None and sweep.is_judged:
                rows = rows_of_keys(verdicts(folder), reusable.own)
                rows = rows.filter(pl.col("aggregate").is_not_null(), judge=judge_key(sweep.judge))
                _record(store.folder, name, rows)
                write_verdicts(store.folder, rows)
                yield from [f"{pluralize(rows.height, 'verdict')} of {name} reused"] if rows.height else ()


def _record(folder: Path, name: str, rows: pl.DataFrame) -> None:
    """Record the source of episodes or verdicts that are stored next."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    names = {"folder": pl.lit(redact_address(name)), "taken": pl.lit(now)}
    reused.record_reused(folder, rows.select("key", "judge", "cell", **names))


def find_reusable(
    sweep: Sweep, plan: Plan, name: str, folder: Path, output: Path, stored: pl.DataFrame | None = None
) -> Reusable:
    """Return the planned episodes of a folder that may be taken, except those ``stored`` in the run folder ``output``.

    The data of ``sweep`` must be pinned (``staging.pin_data``). Raises RunFolderError if the folder has no run.
    """
    old = run_folder.stored_sweep(folder)
    wanted = key_frame(plan.with_stops({}).all_keys()).with_row_index("ordinal")
    wanted = wanted if stored is None else wanted.join(stored, on="key", how="anti")
    rows = episodes(folder).join(wanted.lazy(), on="key", maintain_order="left").collect()
    backends = {model.name: model.backend for model in old.models}
    own_weights, weights = LoadedWeights(output), LoadedWeights(folder)
    other_engine = [model.name for model in sweep.models if backends.get(model.name) != model.backend]
    other_weights = [m.name for m in sweep.models if weights.mismatch(m) or own_weights.differs_from(weights, m)]
    same_pictures = pictures.find_unchanged(sweep, old, plan, folder, rows["ordinal"].to_list())
    reason = (
        pl.when(ending=Ending.FAILED).then(pl.lit("failed"))
        .when(pl.col("model").is_in(other_engine)).then(pl.lit("engine"))
        .when(pl.col("model").is_in(other_weights)).then(pl.lit("weights"))
        .when(~pl.col("ordinal").is_in(same_pictures)).then(pl.lit("pictures"))
    )  # fmt: skip
    rows = rows.with_columns(left=reason)
    own = rows.filter(pl.col("left").is_null()).drop("left", "ordinal")
    settings = () if rows.height else run_folder.differences(run_folder.settings(old), run_folder.settings(sweep))
    differs = tuple(line for line in settings if line.startswith(KEY_SETTINGS))
    return Reusable(name, own, Counter(rows["left"].drop_nulls()), differs)
