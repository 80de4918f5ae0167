"""Which episodes and verdicts of a run folder were played in another one, and taken over from there.

``reused.parquet`` has a row before what it is about is stored; a row whose episode is not stored counts for nothing.
"""

from __future__ import annotations

import logging
from pathlib import Path

import polars as pl

from orchestrator.storage import checksums
from orchestrator.storage.episode_store import UNREADABLE, episodes, move_aside

FILE = "reused.parquet"
REUSED = pl.Schema({"key": pl.String, "judge": pl.String, "cell": pl.String, "folder": pl.String, "taken": pl.String})
"""One row an episode, ``judge`` null, or a verdict; ``folder`` as it was named; ``taken``: when, UTC, ISO 8601."""

log = logging.getLogger(__name__)


def reused(folder: Path) -> pl.DataFrame:
    """``REUSED`` rows of stored episodes and their verdicts; none where the file is absent or damaged."""
    noted = _noted(folder)
    if not noted.height:
        return noted
    return noted.join(episodes(folder).select("key").collect(), on="key", how="semi", maintain_order="left")


def note(folder: Path, rows: pl.DataFrame) -> None:
    """Add rows (``REUSED``) of what is about to be stored; the later row of one episode or verdict counts. Raises OSError."""
    _write(folder, pl.concat([_noted(folder), rows.select(REUSED.names())]))


def settle(folder: Path) -> None:
    """Forget rows whose episodes are not stored, for from now on these are played here; whoever calls has the folder's lock."""
    if not (folder / FILE).exists():
        return
    if FILE in checksums.damaged(folder):
        log.error("%s is damaged and moved to damaged/: what came from other folders is not known any more", FILE)
        move_aside(folder, folder / FILE)
        return
    kept = reused(folder)
    if kept.height < _noted(folder).height:
        _write(folder, kept)


def per_cell(folder: Path) -> dict[str, int]:
    """Cell -> episodes taken over."""
    return dict(_episodes(folder).group_by("cell").len().sort("cell").iter_rows())


def sentences(folder: Path) -> list[str]:
    """``1,200 episodes were played in outputs/paper and taken over on 2026-11-22``, one a folder and day."""
    rows = _episodes(folder).with_columns(day=pl.col("taken").str.slice(0, 10))
    counts = rows.group_by("folder", "day", maintain_order=True).len()
    return [
        f"{count:,} {'episode was' if count == 1 else 'episodes were'} played in {source} and taken over on {day}"
        for source, day, count in counts.iter_rows()
    ]


def _episodes(folder: Path) -> pl.DataFrame:
    return reused(folder).filter(pl.col("judge").is_null())


def _noted(folder: Path) -> pl.DataFrame:
    try:
        found = pl.read_parquet(checksums.content(folder / FILE))
    except UNREADABLE:
        return pl.DataFrame(schema=REUSED)
    return found if found.schema == REUSED else pl.DataFrame(schema=REUSED)


def _write(folder: Path, rows: pl.DataFrame) -> None:
    last = rows.unique(["key", "judge"], keep="last", maintain_order=True)
    checksums.write_table(folder / FILE, last, compression="zstd")
