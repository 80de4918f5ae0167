"""Chooses episodes and verdicts from several run folders; if answers to a key differ, the preferred folder's is taken.

Two episodes of a key are equal if their ending and all turns are equal; seconds, tokens and cost may differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from actors.playing.records import EpisodeBatch
from envs.types import Ending
from orchestrator.storage.episode_store import EpisodeStore, options, turns
from orchestrator.storage.run_folder import planned_episodes
from orchestrator.storage.verdict_store import verdicts

ANSWER = ["ending", "correct", "sample_id", "seed", "turns"]
"""Columns of an episode that must be equal in equal episodes."""
BITS = ["category", "suggestion", "aggregate", "strict_category", "strict_suggestion", "strict_aggregate"]
KEY, JUDGED = ["key"], ["key", "judge"]
CHUNK = 10_000
"""Number of episodes that are written at once."""


@dataclass
class Source:
    """A run folder and the keys to take from it."""

    folder: Path
    name: str
    episodes: pl.DataFrame
    """The stored episodes of its plan (columns ``EPISODES``)."""
    own: pl.DataFrame
    """Column ``key``: the episodes to take from this folder."""
    agreed: pl.DataFrame
    """Column ``key``: ``own``, and episodes of this folder that equal an episode taken from another folder."""

    @classmethod
    def of(cls, folder: Path, name: str) -> Source:
        """Read a run folder, at first with all its episodes to take; raises RunFolderError."""
        planned = planned_episodes(folder).unique("key", keep="first", maintain_order=True).collect()
        return cls(folder, name, planned, planned.select("key"), planned.select("key"))


@dataclass(frozen=True)
class Conflict:
    """The keys whose answers, or verdicts, differ between two folders."""

    one: str
    other: str
    kind: str
    """``episode`` or ``verdict``."""
    keys: tuple[str, ...]
    taken: str = ""
    """The folder whose answers are taken; empty if neither of the two is preferred."""


def assign_episodes(sources: Sequence[Source], prefer: int | None = None) -> tuple[list[Conflict], int]:
    """Assign each key to one source (``Source.own``): the first that has an answer, or else the first that has a failed episode.

    Differing answers are conflicts and are taken from the source with the index ``prefer``. Returns the conflicts, and the
    number of failed episodes that an answer replaces.
    """
    conflicts, replaced = [], 0
    for late_index, late in enumerate(sources):
        for early_index, early in enumerate(sources[:late_index]):
            shared = _keep_keys(early.own, _keep_keys(late.own, early.own))
            failed, late_failed = (_failed_keys(source, shared) for source in (early, late))
            better = _drop_keys(failed, late_failed)
            differing = _drop_keys(_differing_keys(early, late, shared), pl.concat([failed, late_failed]))
            wins = prefer == late_index
            lost = pl.concat([better, differing]) if wins else better
            early.own, early.agreed = _drop_keys(early.own, lost), _drop_keys(early.agreed, lost)
            late.own = _drop_keys(late.own, _drop_keys(shared, lost))
            late.agreed = _drop_keys(late.agreed, pl.concat([late_failed, differing.clear() if wins else differing]))
            replaced += better.height + _drop_keys(late_failed, failed).height
            if differing.height:
                taken = _preferred_name(sources, (early_index, late_index), prefer)
                conflicts.append(Conflict(early.name, late.name, "episode", _sorted_keys(differing), taken))
    return conflicts, replaced


def merge_verdicts(sources: Sequence[Source], prefer: int | None = None) -> tuple[pl.DataFrame, list[Conflict]]:
    """Return one verdict per judge and taken answer, and the conflicts; an unreadable verdict gives way to a readable one."""
    frames = [
        verdicts(source.folder).join(source.agreed.lazy(), on="key", how="semi", maintain_order="left").collect()
        for source in sources
    ]
    conflicts = []
    for late_index, late in enumerate(frames):
        for early_index, early in enumerate(frames[:late_index]):
            both = [frame.filter(pl.col("aggregate").is_not_null()).select(*JUDGED, *BITS) for frame in (early, late)]
            shared = both[0].join(both[1], on=JUDGED, how="semi")
            differing = shared.join(both[1], on=[*JUDGED, *BITS], how="anti", nulls_equal=True).select("key").unique()
            if differing.height:
                taken = _preferred_name(sources, (early_index, late_index), prefer)
                names = sources[early_index].name, sources[late_index].name
                conflicts.append(Conflict(*names, "verdict", _sorted_keys(differing), taken))
    order = sorted(range(len(frames)), key=lambda index: index != prefer)
    rows = pl.concat([frames[index] for index in order])
    rows = rows.sort(pl.col("aggregate").is_null(), maintain_order=True)
    return rows.unique(JUDGED, keep="first", maintain_order=True), conflicts


def _preferred_name(sources: Sequence[Source], pair: tuple[int, int], prefer: int | None) -> str:
    """Return the name of the preferred source if it is one of the pair, else an empty text."""
    return sources[prefer].name if prefer in pair and prefer is not None else ""


def write_episodes(store: EpisodeStore, sources: Sequence[Source]) -> None:
    """Write the ``own`` episodes of each source, with their turns and options, to disk; raises OSError.

    An episode with missing turns is skipped: a driver has removed it since the folder was read.
    """
    for source in sources:
        taken = _keep_keys(source.episodes, source.own)
        for chunk in taken.iter_slices(CHUNK):
            turn_rows = _rows_of_keys(turns(source.folder), chunk)
            complete = _keep_keys(chunk, complete_episodes(chunk, turn_rows))
            turn_rows = _keep_keys(turn_rows, complete)
            option_rows = _rows_of_keys(options(source.folder), complete)
            tables = [rows.to_dict(as_series=False) for rows in (complete, turn_rows, option_rows)]
            store.append(EpisodeBatch([], tables[0], tables[1], options=tables[2]))
    store.flush()


def complete_episodes(rows: pl.DataFrame, turn_rows: pl.DataFrame) -> pl.DataFrame:
    """Return the keys of the episodes whose turns are all in ``turn_rows``; a turn that overflowed has no row."""
    counts = turn_rows.group_by("key").agg(pl.col("turn").n_unique().alias("rows"))
    expected = pl.col("turns").cast(pl.Int64) - (pl.col("ending") == Ending.OVERFLOW).cast(pl.Int64)
    return rows.join(counts, on="key", how="left").filter(pl.col("rows").fill_null(0) == expected).select("key")


def _differing_keys(early: Source, late: Source, shared: pl.DataFrame) -> pl.DataFrame:
    """Return the keys whose episodes or turns differ between two sources."""
    episodes = [_keep_keys(source.episodes, shared).select("key", *ANSWER) for source in (early, late)]
    turn_rows = [turns(source.folder).join(shared.lazy(), on="key", how="semi").collect() for source in (early, late)]
    differences = [
        left.join(right, on=left.columns, how="anti", nulls_equal=True).select("key")
        for pair in (episodes, turn_rows)
        for left, right in (pair, pair[::-1])
    ]
    return pl.concat(differences).unique()


def _failed_keys(source: Source, keys: pl.DataFrame) -> pl.DataFrame:
    return _keep_keys(source.episodes, keys).filter(pl.col("ending") == Ending.FAILED).select("key")


def _keep_keys(rows: pl.DataFrame, keys: pl.DataFrame) -> pl.DataFrame:
    return rows.join(keys, on="key", how="semi", maintain_order="left")


def _rows_of_keys(rows: pl.LazyFrame, keys: pl.DataFrame) -> pl.DataFrame:
    return rows.join(keys.lazy().select("key"), on="key", how="semi", maintain_order="left").collect()


def _drop_keys(rows: pl.DataFrame, keys: pl.DataFrame) -> pl.DataFrame:
    return rows.join(keys, on="key", how="anti", maintain_order="left")


def _sorted_keys(keys: pl.DataFrame) -> tuple[str, ...]:
    return tuple(keys["key"].unique().sort())
