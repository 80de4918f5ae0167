"""Warnings on cells whose replies say little about the model: unreadable, empty, cut off, or errors."""

import shlex
from collections.abc import Container, Iterator, Sequence
from pathlib import Path

import polars as pl

from actors.text.printable import printable
from envs.plural import pluralize
from envs.types import Action
from orchestrator.storage.episode_store import turns

MOST_PERCENT = 20.0
"""Largest percentage of such replies in a cell that needs no warning."""
LONGEST = 120
"""Characters of a reply that are quoted."""


def unreadable_lines(rows: pl.DataFrame, folder: Path, left_out: Container[str] = ()) -> Iterator[str]:
    """Yield one sentence per model with such a cell, from rows of results; ``left_out`` are the baselines."""
    if "unreadable" not in rows.columns:
        return
    unread = (pl.col("unreadable").fill_null(0) * pl.col("scored") / 100).round() + pl.col("overflow")
    counted = rows.filter(pl.col("finished") > 0).with_columns((unread + pl.col("errors")).cast(pl.Int64).alias("lost"))
    bad = counted.filter(100 * pl.col("lost") > MOST_PERCENT * pl.col("finished"))
    worst = bad.sort(-pl.col("lost") / pl.col("finished"), "cell")
    for (model,), part in worst.group_by(["model"], maintain_order=True):
        if model not in left_out:
            row = part.row(0, named=True)
            yield (
                f"{model}: in {pluralize(part.height, 'cell')} more than {MOST_PERCENT:.0f}% of the replies are unreadable, "
                f"empty, cut off or errors; in {row['scenario']}, {row['condition']} {row['lost']:,} of {row['finished']:,}"
                f"{_quote_reply(folder, part['cell'].to_list())}. See them: proactive-sweep view {shlex.quote(str(folder))}"
            )


def _quote_reply(folder: Path, cells: Sequence[str]) -> str:
    """Return one unreadable reply of these cells; empty if all are errors or silent."""
    own = pl.col("key").str.replace(r"/[^/]*$", "").is_in(cells)
    unparsable = turns(folder).filter(own, pl.col("reply") != "", pl.col("action") == Action.UNPARSABLE)
    texts = unparsable.sort("key", "turn").select("reply").head(1).collect()["reply"].to_list()
    if not texts:
        return ""
    text = " ".join(printable(texts[0] or "").split())
    return f', such as "{text[:LONGEST]}{"…" * (len(text) > LONGEST)}"'
