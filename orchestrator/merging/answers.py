"""Chooses one answer per key among the folders of a ``merge``, and writes answers of other folders, also for ``run --reuse``.

An answer comes before a failed episode, then the preferred folder, then the order of the folders. Two episodes of a key are
equal if their ending and all turns are equal; seconds, tokens and cost may differ.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from actors.playing.records import EpisodeBatch
from envs.types import Ending
from orchestrator.gold.gold_check import FOLDER as GOLD
from orchestrator.inspection.certificate import add_certificate, read_certificates
from orchestrator.storage import safe_write
from orchestrator.storage.episode_store import EpisodeStore, options, turns
from orchestrator.storage.verdict_store import VerdictStore, verdicts

ANSWER = ["ending", "correct", "sample_id", "seed", "turns"]
"""Columns of an episode that must be equal in equal episodes."""
BITS = ["category", "suggestion", "aggregate", "strict_category", "strict_suggestion", "strict_aggregate"]
JUDGED = ["key", "judge"]
CHUNK = 10_000
"""Number of episodes that are written at once."""
log = logging.getLogger(__name__)


@dataclass
class Source:
    """A run folder and what to take from it."""

    folder: Path
    own: pl.DataFrame
    """The episodes to take (columns ``EPISODES``), at first all that are planned."""
    agreed: pl.DataFrame = field(default_factory=pl.DataFrame)
    """``own``, and the episodes that equal one taken from another folder: their verdicts count, too."""


def assign_episodes(sources: Sequence[Source], prefer: int = 0) -> tuple[list[str], int]:
    """Assign each key to one source; return keys with differing answers, and how many failed episodes an answer replaces."""
    columns = (pl.struct(*ANSWER).hash().alias("answer"), (pl.col("ending") == Ending.FAILED).alias("failed"))
    rows = _join_sources([source.own.select("key", *columns) for source in sources])
    shared = rows.filter(pl.col("key").is_duplicated()).select("key").unique()
    played = [rows_of_keys(turns(source.folder), shared) for source in sources]
    hashed = [turn_rows.select("key", pl.struct(pl.all()).hash().alias("played")) for turn_rows in played]
    replies = _join_sources([turn_rows.group_by("key").agg(pl.col("played").sort()) for turn_rows in hashed])
    rows = rows.join(replies, on=["key", "source"], how="left")
    rows = rows.sort("failed", pl.col("source") != prefer, "source")
    taken = rows.unique("key", keep="first", maintain_order=True)
    rows = rows.join(taken, on="key", suffix="_taken", maintain_order="left")
    is_taken = pl.col("source") == pl.col("source_taken")
    is_equal = pl.all_horizontal(pl.col(name).eq_missing(pl.col(f"{name}_taken")) for name in ("answer", "played"))
    agrees = is_taken | (is_equal & ~pl.col("failed"))
    for number, source in enumerate(sources):
        of_source = rows.filter(pl.col("source") == number)
        source.agreed = rows_of_keys(source.own.lazy(), of_source.filter(agrees))
        source.own = rows_of_keys(source.own.lazy(), of_source.filter(is_taken))
    replaced = rows.filter(pl.col("failed") & ~pl.col("failed_taken"))["key"].n_unique()
    return rows.filter(~agrees & ~pl.col("failed"))["key"].unique().sort().to_list(), replaced


def merge_verdicts(sources: Sequence[Source], prefer: int = 0) -> tuple[pl.DataFrame, list[str]]:
    """Return one verdict per judge and taken answer, a readable one if possible, and the keys whose verdicts differ."""
    rows = _join_sources([rows_of_keys(verdicts(source.folder), source.agreed) for source in sources])
    rows = rows.sort(pl.col("aggregate").is_null(), pl.col("source") != prefer, "source", maintain_order=True)
    taken = rows.unique(JUDGED, keep="first", maintain_order=True)
    readable = rows.filter(pl.col("aggregate").is_not_null())
    differing = readable.join(taken, on=[*JUDGED, *BITS], how="anti", nulls_equal=True)
    return taken.drop("source"), differing["key"].unique().sort().to_list()


def write_episodes(store: EpisodeStore, folder: Path, own: pl.DataFrame) -> None:
    """Write these episodes of a folder, with their turns and options, to disk; raises OSError.

    The folder's parts are held (``hold_parts``), so that no driver removes the turns of an episode meanwhile.
    """
    for chunk in own.iter_slices(CHUNK):
        frames = (chunk, rows_of_keys(turns(folder), chunk), rows_of_keys(options(folder), chunk))
        played, turn_columns, option_columns = (rows.to_dict(as_series=False) for rows in frames)
        store.append(EpisodeBatch([], played, turn_columns, options=option_columns))
    store.flush()


def write_verdicts(folder: Path, rows: pl.DataFrame) -> None:
    """Write verdicts (``VERDICTS``) on stored episodes."""
    if rows.height:
        store = VerdictStore(folder)
        store.append(rows.to_dict(as_series=False))
        store.flush()


def write_checks(folders: Sequence[Path], into: Path) -> None:
    """Write what the models received (certificates), and the judges' verdicts on gold answers."""
    for folder in folders:
        for model, certificate in read_certificates(folder).items():
            if changed := add_certificate(into, model, certificate):
                log.warning("%s did not receive the same in all folders: %s", model, "; ".join(changed))
    gold = pl.concat([verdicts(folder / GOLD).collect() for folder in folders])
    if gold.height:
        safe_write.make_folder(into / GOLD)
        write_verdicts(into / GOLD, gold.unique(JUDGED, keep="first", maintain_order=True))


def _join_sources(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Return the rows of all sources; column ``source`` is the index of each row's source."""
    return pl.concat([rows.with_columns(pl.lit(number).alias("source")) for number, rows in enumerate(frames)])


def rows_of_keys(rows: pl.LazyFrame, keys: pl.DataFrame) -> pl.DataFrame:
    """Return the rows that belong to these keys, in their own order."""
    return rows.join(keys.lazy().select("key"), on="key", how="semi", maintain_order="left").collect()
