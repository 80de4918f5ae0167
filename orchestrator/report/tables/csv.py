"""Frames as CSV files: a spreadsheet never evaluates text from a model or a data file."""

import polars as pl

from actors.text.formulas import FORMULA


def csv_text(frame: pl.DataFrame, digits: int | None = 6) -> str:
    """Return the frame as CSV with ``digits`` decimals; numbers too small for them are in scientific notation.

    A text that begins like a formula gets a leading apostrophe.
    """
    texts = pl.col(pl.String)
    safe = pl.when(texts.str.contains(FORMULA)).then(pl.lit("'") + texts).otherwise(texts).name.keep()
    return frame.with_columns(safe, *_format_tiny(frame, digits)).write_csv(float_precision=digits)


def _format_tiny(frame: pl.DataFrame, digits: int | None) -> list[pl.Series]:
    """Return as text each column with a nonzero number that ``digits`` decimals would print as 0, written as ``2.1e-09``."""
    if digits is None:
        return []
    least, columns = 0.5 * 10**-digits, list[pl.Series]()
    for column in frame.select(pl.selectors.float()):
        tiny = (column.abs() < least) & (column != 0)
        if tiny.any():
            numbers = (None if n is None else f"{n:.1e}" if 0 < abs(n) < least else f"{n:.{digits}f}" for n in column)
            columns.append(pl.Series(column.name, list(numbers)))
    return columns
