"""Frames as CSV that a spreadsheet can open: no text of a model or data file is computed as a formula."""

from __future__ import annotations

import polars as pl

FORMULA = r"^(\s*[=+\-@＝＋－＠]|[\t\r\n])"
"""Beginning of a text that spreadsheets compute (OWASP, "CSV Injection"); some skip white space, or read full-width signs."""


def csv_text(frame: pl.DataFrame, digits: int | None = 6) -> str:
    """Return the frame as CSV with so many decimals; a text that begins like a formula gets an apostrophe before it."""
    texts = pl.col(pl.String)
    safe = pl.when(texts.str.contains(FORMULA)).then(pl.lit("'") + texts).otherwise(texts).name.keep()
    return frame.with_columns(safe).write_csv(float_precision=digits)
