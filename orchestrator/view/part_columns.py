"""The columns of one part that the list of episodes filters and sorts, about twenty bytes per episode.

Texts, keys and names stay on disk: an episode holds the number of its cell, and its row in the part, where its texts are.
"""

import zlib
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from envs.types import ERRORS, Ending
from orchestrator.report.measures.endings import EndingKind, kind_of_ending, wrong_kind
from orchestrator.storage.part_files import Part, scan_part

MAPPED = "answered every picture"
"""Kind of a decision map, which has no single ending."""
KINDS = (*(kind.value for kind in EndingKind), MAPPED)
OUTCOMES = {"correct": 1, "not correct": 0, "without a score": -1}
"""Values of ``right`` by name; an error, or an answer that no judge has read, has no score."""
NOT_SCORED = OUTCOMES["without a score"]
COLUMNS = pl.Schema(
    {
        "cell": pl.UInt32, "sample": pl.Int32, "kind": pl.UInt8, "right": pl.Int8, "turns": pl.UInt16, "crc": pl.UInt32,
        "row": pl.UInt32, "hash": pl.UInt64,
    }
)  # fmt: skip
"""``crc`` is the CRC-32 of the key, which a page can compute; ``hash`` tells keys apart."""


class CellNames(NamedTuple):
    """The names that a cell's episodes share."""

    model: str
    scenario: str
    condition: str
    protocol: str


class PartColumns(NamedTuple):
    """The columns of a part, and which episode each row of its turns belongs to."""

    part: Part
    episodes: pl.DataFrame
    """``COLUMNS``; ``row`` is the row in the part."""
    owners: np.ndarray
    """Per row of the turns: the row of its episode, -1 without one."""


def read_part(folder: Path, part: Part, cells: dict[CellNames, int]) -> PartColumns:
    """Read the columns of a part; new cells get the next numbers in ``cells``. Raises ``storage.schemas.UNREADABLE``."""
    names = ["key", *CellNames._fields, "sample_id", "ending", "correct", "turns"]
    rows = scan_part(folder / "episodes" / part.name).select(names).collect().with_row_index("row")
    turns = scan_part(folder / "turns" / part.name).select("key", "category", "action", "move").collect()
    owner_rows = turns.select("key").join(rows.select("key", "row"), on="key", how="left", maintain_order="left")
    owners = owner_rows["row"].cast(pl.Int64).fill_null(-1).to_numpy().astype(np.int32)
    unscored = pl.col("correct").is_null() | pl.col("ending").is_in(ERRORS)
    episodes = rows.select(
        _cell_numbers(rows, cells).alias("cell"),
        pl.col("sample_id").cast(pl.Int32, strict=False).fill_null(-1).alias("sample"),
        _kinds(rows, turns, owners).alias("kind"),
        pl.when(unscored).then(NOT_SCORED).otherwise(pl.col("correct").cast(pl.Int8)).alias("right"),
        pl.col("turns").clip(0, 65_535),
        pl.Series("crc", [zlib.crc32(key.encode()) for key in rows["key"]], dtype=pl.UInt32),
        "row",
        pl.col("key").hash().alias("hash"),
    )
    return PartColumns(part, episodes.cast(COLUMNS), owners)


def _cell_numbers(rows: pl.DataFrame, cells: dict[CellNames, int]) -> pl.Series:
    names = rows.select(pl.col(*CellNames._fields).fill_null(""))
    distinct = names.unique(maintain_order=True)
    for values in distinct.iter_rows():
        cells.setdefault(CellNames(*values), len(cells))
    numbers = pl.Series("cell", [cells[CellNames(*values)] for values in distinct.iter_rows()], dtype=pl.UInt32)
    return names.join(distinct.with_columns(numbers), on=CellNames._fields, how="left", maintain_order="left")["cell"]


def _kinds(rows: pl.DataFrame, turns: pl.DataFrame, owners: np.ndarray) -> pl.Series:
    """Return the number of each episode's kind; whether the view of a wrong guess was clear is not known here."""
    last = np.full(rows.height, -1, np.int64)
    owned = np.flatnonzero(owners >= 0)
    last[owners[owned]] = owned  # the last turn stays, since turns are in order
    names = ("action", "category", "move")
    ends = pl.DataFrame({name: pl.Series([None] * rows.height, dtype=pl.String) for name in names})
    if turns.height:
        ends = turns.select(names)[np.maximum(last, 0)]
    clear = pl.lit(None, dtype=pl.Boolean).alias("clear")
    frame = ends.with_columns(rows["ending"], clear)
    frame = frame.with_columns(pl.when(pl.Series(last >= 0)).then(wrong_kind()).alias("kind"))
    mapped = pl.when(pl.col("ending") == Ending.MAPPED).then(pl.lit(MAPPED)).otherwise(kind_of_ending())
    numbers = {kind: number for number, kind in enumerate(KINDS)}
    return frame.select(mapped.replace_strict(numbers, return_dtype=pl.UInt8).alias("kind"))["kind"]
