"""The record of episodes and verdicts that a run folder took over from another one.

``reused.parquet`` gets its row before the episode is stored; a row without a stored episode is ignored.
"""

from contextlib import suppress
from pathlib import Path

import polars as pl

from envs.plural import pluralize
from orchestrator.storage import checksums
from orchestrator.storage.episode_store import episodes
from orchestrator.storage.schemas import UNREADABLE

FILE = "reused.parquet"
REUSED = pl.Schema({"key": pl.String, "judge": pl.String, "cell": pl.String, "folder": pl.String, "taken": pl.String})
"""One row per episode (``judge`` is null) or verdict; ``folder`` as typed; ``taken`` in UTC, ISO 8601."""


def read_reused(folder: Path) -> pl.DataFrame:
    """Return the ``REUSED`` rows of stored episodes and their verdicts; no rows if the file is absent or damaged."""
    rows = _read_rows(folder)
    return rows.join(episodes(folder).select("key").collect(), on="key", how="semi") if rows.height else rows


def record_reused(folder: Path, rows: pl.DataFrame) -> None:
    """Add rows (``REUSED``) of episodes about to be stored; the last row per episode or verdict counts. Raises OSError."""
    if rows.height:
        _write_rows(folder, pl.concat([_read_rows(folder), rows.select(REUSED.names())]))


def drop_unstored(folder: Path) -> None:
    """Drop the rows of episodes that are not stored. The caller must hold the folder's lock."""
    if (stored_rows := read_reused(folder)).height < _read_rows(folder).height:
        _write_rows(folder, stored_rows)


def reused_per_cell(folder: Path) -> dict[str, int]:
    """Return the number of reused episodes per cell."""
    return dict(_read_episode_rows(folder).group_by("cell").len().sort("cell").iter_rows())


def sentences(folder: Path) -> list[str]:
    """Return sentences per source and day: ``1,200 reused episodes played in outputs/paper, taken over on 2026-11-22``."""
    rows = _read_episode_rows(folder).with_columns(pl.col("taken").str.slice(0, 10))
    counts = rows.group_by("folder", "taken", maintain_order=True).len()
    return [
        f"{pluralize(count, 'reused episode')} played in {source}, taken over on {day}"
        for source, day, count in counts.iter_rows()
    ]


def _read_episode_rows(folder: Path) -> pl.DataFrame:
    return read_reused(folder).filter(pl.col("judge").is_null())


def _read_rows(folder: Path) -> pl.DataFrame:
    with suppress(*UNREADABLE):
        rows = pl.read_parquet(checksums.read_verified(folder / FILE))
        if rows.schema == REUSED:
            return rows
    return REUSED.to_frame()


def _write_rows(folder: Path, rows: pl.DataFrame) -> None:
    last = rows.unique(["key", "judge"], keep="last", maintain_order=True)
    checksums.write(folder / FILE, last)
