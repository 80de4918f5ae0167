"""Which of several run folders' episodes and verdicts a merged one takes: equal answers once, different ones never unasked.

Two episodes of one key are equal if they ended alike and every turn is the same; seconds, tokens and cost may differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from actors.playing.records import EpisodeBatch
from envs.types import Ending
from orchestrator.storage.episode_store import EpisodeStore, turns
from orchestrator.storage.run_folder import planned_episodes
from orchestrator.storage.verdict_store import verdicts

ANSWER = ["ending", "correct", "sample_id", "seed", "turns"]
"""Columns of an episode that are its answer."""
BITS = ["category", "suggestion", "aggregate", "strict_category", "strict_suggestion", "strict_aggregate"]
KEY, JUDGED = ["key"], ["key", "judge"]
CHUNK = 10_000
"""Episodes that are written at once."""


@dataclass
class Source:
    """One folder, and what of it is taken."""

    folder: Path
    name: str
    episodes: pl.DataFrame
    """``EPISODES`` rows that belong to its plan."""
    own: pl.DataFrame = field(default_factory=pl.DataFrame)
    """Column ``key``: the episodes that are taken from this folder."""
    agreed: pl.DataFrame = field(default_factory=pl.DataFrame)
    """Column ``key``: those that are taken from this folder or are equal to the one that is taken."""

    @classmethod
    def of(cls, folder: Path, name: str) -> Source:
        """Of a run folder; raises RunFolderError."""
        planned = planned_episodes(folder).unique("key", keep="first", maintain_order=True).collect()
        return cls(folder, name, planned, planned.select("key"), planned.select("key"))

    @property
    def turns(self) -> pl.LazyFrame:
        """``TURNS`` rows of the episodes that are taken."""
        return turns(self.folder).join(self.own.lazy(), on="key", how="semi", maintain_order="left")


@dataclass(frozen=True)
class Conflict:
    """Answers of one key that differ between two folders."""

    one: str
    other: str
    kind: str
    """``episode`` or ``verdict``."""
    keys: tuple[str, ...]
    taken: str = ""
    """The folder whose answers are taken; empty where nobody said."""


def assign_episodes(sources: Sequence[Source], prefer: int | None = None) -> tuple[list[Conflict], int]:
    """Leave each key to one source (``Source.own``): the first that has it, a failed episode giving way to an answer.

    Answers that differ are conflicts; of each two folders the preferred one's are taken. Second, how many failed gave way.
    """
    conflicts, gave_way = [], 0
    for late_index, late in enumerate(sources):
        for early_index, early in enumerate(sources[:late_index]):
            shared = _keep_keys(early.own, _keep_keys(late.own, early.own))
            here, there = _keep_keys(early.episodes, shared), _keep_keys(late.episodes, shared)
            failed = here.filter(pl.col("ending") == Ending.FAILED).select("key")
            failed_there = there.filter(pl.col("ending") == Ending.FAILED).select("key")
            better = _drop_keys(failed, failed_there)
            differing = _drop_keys(_differing_keys(early, late, shared), pl.concat([failed, failed_there]))
            wins = prefer == late_index
            lost = pl.concat([better, differing]) if wins else better
            early.own, early.agreed = _drop_keys(early.own, lost), _drop_keys(early.agreed, lost)
            late.own = _drop_keys(late.own, _drop_keys(shared, lost))
            late.agreed = _drop_keys(late.agreed, pl.concat([failed_there, differing.clear() if wins else differing]))
            gave_way += better.height + _drop_keys(failed_there, failed).height
            if differing.height:
                taken = _preferred_name(sources, (early_index, late_index), prefer)
                conflicts.append(Conflict(early.name, late.name, "episode", _sorted_keys(differing), taken))
    return conflicts, gave_way


def merged_verdicts(sources: Sequence[Source], prefer: int | None = None) -> tuple[pl.DataFrame, list[Conflict]]:
    """Verdicts on the answers that are taken, each judge's once, a verdict before none; and those that differ."""
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
    """The name of the source that is preferred, where it is one of the two."""
    return sources[prefer].name if prefer in pair and prefer is not None else ""


def write_episodes(store: EpisodeStore, sources: Sequence[Source]) -> None:
    """Store the episodes that each source is left with, with their turns, durable at the end. Raises OSError.

    One whose turns are no longer there is left out: a driver has taken it back since its folder was read.
    """
    for source in sources:
        taken = source.episodes.join(source.own, on="key", how="semi", maintain_order="left")
        for chunk in taken.iter_slices(CHUNK):
            turn_rows = source.turns.join(
                chunk.lazy().select("key"), on="key", how="semi", maintain_order="left"
            ).collect()
            complete = chunk.join(complete_episodes(chunk, turn_rows), on="key", how="semi", maintain_order="left")
            turn_rows = turn_rows.join(complete, on="key", how="semi", maintain_order="left")
            store.append(EpisodeBatch([], complete.to_dict(as_series=False), turn_rows.to_dict(as_series=False)))
    store.flush()


def complete_episodes(rows: pl.DataFrame, turn_rows: pl.DataFrame) -> pl.DataFrame:
    """Column ``key``: the episodes with as many turns as they count; a turn that could not be asked has no row."""
    counts = turn_rows.group_by("key").agg(pl.col("turn").n_unique().alias("rows"))
    expected = pl.col("turns").cast(pl.Int64) - (pl.col("ending") == Ending.OVERFLOW).cast(pl.Int64)
    return rows.join(counts, on="key", how="left").filter(pl.col("rows").fill_null(0) == expected).select("key")


def _differing_keys(early: Source, late: Source, shared: pl.DataFrame) -> pl.DataFrame:
    """The keys whose episodes, or any of their turns, differ."""
    episodes = [_keep_keys(source.episodes, shared).select("key", *ANSWER) for source in (early, late)]
    turn_rows = [turns(source.folder).join(shared.lazy(), on="key", how="semi").collect() for source in (early, late)]
    differences = [
        left.join(right, on=left.columns, how="anti", nulls_equal=True).select("key")
        for pair in (episodes, turn_rows)
        for left, right in (pair, pair[::-1])
    ]
    return pl.concat(differences).unique()


def _keep_keys(rows: pl.DataFrame, keys: pl.DataFrame) -> pl.DataFrame:
    return rows.join(keys, on="key", how="semi", maintain_order="left")


def _drop_keys(rows: pl.DataFrame, keys: pl.DataFrame) -> pl.DataFrame:
    return rows.join(keys, on="key", how="anti", maintain_order="left")


def _sorted_keys(keys: pl.DataFrame) -> tuple[str, ...]:
    return tuple(keys["key"].unique().sort())
