"""The choice of episodes and verdicts from several run folders: equal answers once, differing ones only by preference.

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
"""Columns of an episode that must be equal."""
BITS = ["category", "suggestion", "aggregate", "strict_category", "strict_suggestion", "strict_aggregate"]
KEY, JUDGED = ["key"], ["key", "judge"]
CHUNK = 10_000
"""Episodes per write."""


@dataclass
class Source:
    """A run folder and the keys to take from it."""

    folder: Path
    name: str
    episodes: pl.DataFrame
    """``EPISODES`` rows of its plan."""
    own: pl.DataFrame
    """Column ``key``: the episodes to take from this folder."""
    agreed: pl.DataFrame
    """Column ``key``: ``own``, and the episodes equal to one taken from another folder."""

    @classmethod
    def of(cls, folder: Path, name: str) -> Source:
        """Read a run folder; raises RunFolderError."""
        planned = planned_episodes(folder).unique("key", keep="first", maintain_order=True).collect()
        return cls(folder, name, planned, planned.select("key"), planned.select("key"))


@dataclass(frozen=True)
class Conflict:
    """Answers of one key that differ between two folders."""

    one: str
    other: str
    kind: str
    """``episode`` or ``verdict``."""
    keys: tuple[str, ...]
    taken: str = ""
    """The preferred folder; empty if neither is preferred."""


def assign_episodes(sources: Sequence[Source], prefer: int | None = None) -> tuple[list[Conflict], int]:
    """Assign each key to one source (``Source.own``): the first that has it, but an answer before a failed episode.

    Returns the conflicts (differing answers, taken from the preferred source) and the number of replaced failed episodes.
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
    """Return one verdict per judge and taken answer, parsed before unparsed ones, and the conflicts."""
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
    order = sorted(range(len(frames)), key=lambda late_index: late_index != prefer)
    rows = pl.concat([frames[late_index] for late_index in order])
    rows = rows.sort(pl.col("aggregate").is_null(), maintain_order=True)
    return rows.unique(JUDGED, keep="first", maintain_order=True), conflicts


def _preferred_name(sources: Sequence[Source], pair: tuple[int, int], prefer: int | None) -> str:
    """Return the name of the preferred source if it is one of the two."""
    return sources[prefer].name if prefer in pair and prefer is not None else ""


def write_episodes(store: EpisodeStore, sources: Sequence[Source]) -> None:
    """Store the ``own`` episodes of each source with their turns and options, durably. Raises OSError.

    Episodes with missing turns are skipped: a driver removed them after the folder was read.
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
    """Return the keys of episodes with all their turns; a turn that overflowed has no row."""
    counts = turn_rows.group_by("key").agg(pl.col("turn").n_unique().alias("rows"))
    expected = pl.col("turns").cast(pl.Int64) - (pl.col("ending") == Ending.OVERFLOW).cast(pl.Int64)
    return rows.join(counts, on="key", how="left").filter(pl.col("rows").fill_null(0) == expected).select("key")


def _differing_keys(early: Source, late: Source, shared: pl.DataFrame) -> pl.DataFrame:
    """Return the keys whose episodes or turns differ."""
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
