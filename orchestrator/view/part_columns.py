"""The columns of one part that the list of episodes filters and sorts, about forty bytes per episode.

Texts, keys and names stay on disk: an episode holds the number of its cell, and its row in the part, where its texts are.
"""

from enum import IntFlag
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
LONG_REPLY = 200
"""Characters from which a reply counts as long."""
NOT_SCORED = -1
"""Value of ``right`` for an episode without a score."""


class Flag(IntFlag):
    """Properties of an episode that the list can filter by."""

    DISAGREES = 1
    EMPTY = 2
    REPEATED = 4
    LONG = 8
    ASKED = 16
    ABSTAINED = 32
    NAMED = 64
    UNPARSABLE = 128


FLAGS = {
    Flag.DISAGREES: "letter and text disagree",
    Flag.EMPTY: "empty reply",
    Flag.REPEATED: "same reply twice in a row",
    Flag.LONG: f"reply of {LONG_REPLY} characters or more",
}
ACTIONS = {
    Flag.ASKED: "asked for something",
    Flag.ABSTAINED: "abstained",
    Flag.NAMED: "named a category",
    Flag.UNPARSABLE: "named no option",
}
COLUMNS = pl.Schema(
    {
        "cell": pl.UInt32, "sample": pl.Int32, "kind": pl.UInt8, "right": pl.Int8, "turns": pl.UInt16, "flags": pl.UInt8,
        "seconds": pl.Float32, "read": pl.UInt32, "written": pl.UInt32, "row": pl.UInt32, "hash": pl.UInt64,
    }
)  # fmt: skip


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
    names = ["key", *CellNames._fields, "sample_id", "ending", "correct", "turns", "suggestions", "abstentions"]
    names += ["categories", "unparsable", "seconds", "prompt_tokens", "reply_tokens"]
    rows = scan_part(folder / "episodes" / part.name).select(names).collect().with_row_index("row")
    turns = scan_part(folder / "turns" / part.name).select(
        "key", "reply", "option", "category", "action", "move"
    ).collect()  # fmt: skip
    owner_rows = turns.select("key").join(rows.select("key", "row"), on="key", how="left", maintain_order="left")
    owners = owner_rows["row"].cast(pl.Int64).fill_null(-1).to_numpy().astype(np.int32)
    episodes = rows.select(
        _cell_numbers(rows, cells).alias("cell"),
        pl.col("sample_id").cast(pl.Int32, strict=False).fill_null(-1).alias("sample"),
        _kinds(rows, turns, owners).alias("kind"),
        _right().alias("right"),
        pl.col("turns").clip(0, 65_535).cast(pl.UInt16),
        (_action_flags() + pl.Series(_reply_flags(turns, owners, rows.height))).cast(pl.UInt8).alias("flags"),
        pl.col("seconds").cast(pl.Float32),
        *(
            pl.col(column).clip(0, 2**32 - 1).cast(pl.UInt32).alias(name)
            for column, name in (("prompt_tokens", "read"), ("reply_tokens", "written"))
        ),
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


def _right() -> pl.Expr:
    """Return 1 or 0 for a scored episode, ``NOT_SCORED`` for an error or an answer that a judge reads."""
    unscored = pl.col("correct").is_null() | pl.col("ending").is_in(ERRORS)
    return pl.when(unscored).then(NOT_SCORED).otherwise(pl.col("correct").cast(pl.Int8)).cast(pl.Int8)


def _action_flags() -> pl.Expr:
    columns = dict(zip(ACTIONS, ("suggestions", "abstentions", "categories", "unparsable"), strict=True))
    flags = [(pl.col(column) > 0).fill_null(False).cast(pl.UInt8) * int(flag) for flag, column in columns.items()]
    return pl.sum_horizontal(flags).cast(pl.UInt8)


def _reply_flags(turns: pl.DataFrame, owners: np.ndarray, height: int) -> np.ndarray:
    """Return the flags of each episode's replies.

    ``DISAGREES``: the reply names a suggestion and a category, such as one by its letter and the other by its text.
    """
    reply = turns["reply"].fill_null("")
    lengths = reply.str.len_chars().to_numpy()
    named = [(turns[side] != "mismatch").fill_null(False).to_numpy() for side in ("option", "category")]
    same = (reply == reply.shift(1)).fill_null(False).to_numpy() & (owners == np.roll(owners, 1))
    turn_flags = {
        Flag.DISAGREES: named[0] & named[1], Flag.EMPTY: lengths == 0, Flag.REPEATED: same, Flag.LONG: lengths >= LONG_REPLY,
    }  # fmt: skip
    flags = np.zeros(height, np.uint8)
    for flag, marked in turn_flags.items():
        holders = owners[marked & (owners >= 0)]
        flags[np.unique(holders)] |= np.uint8(flag)
    return flags


def _kinds(rows: pl.DataFrame, turns: pl.DataFrame, owners: np.ndarray) -> pl.Series:
    """Return the number of each episode's kind; whether the view of a wrong guess was clear is not known here."""
    last = np.full(rows.height, -1, np.int64)
    owned = np.flatnonzero(owners >= 0)
    last[owners[owned]] = owned  # the last turn stays, since turns are in order
    ends = turns.select("action", "category", "move")[np.maximum(last, 0)] if turns.height else None
    if ends is None:
        ends = pl.DataFrame(
            {name: pl.Series([None] * rows.height, dtype=pl.String) for name in ("action", "category", "move")}
        )
    has_turn = pl.Series(last >= 0)
    clear = pl.lit(None, dtype=pl.Boolean).alias("clear")
    frame = ends.with_columns(rows["ending"], clear).with_columns(pl.when(has_turn).then(wrong_kind()).alias("kind"))
    mapped = pl.when(pl.col("ending") == Ending.MAPPED).then(pl.lit(MAPPED)).otherwise(kind_of_ending())
    numbers = {kind: number for number, kind in enumerate(KINDS)}
    return frame.select(mapped.replace_strict(numbers, return_dtype=pl.UInt8).alias("kind"))["kind"]
