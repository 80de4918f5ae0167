"""Labels: people's verdicts on a run's answers, stored as ``labels.csv`` in its folder; its judge is corrected by them."""

from collections.abc import Iterable
from pathlib import Path

import polars as pl

from envs import regular
from envs.errors import RunFolderError
from orchestrator.storage import safe_write

FILE, MAX_BYTES = "labels.csv", 1 << 28
BITS = ("category", "suggestion")
COLUMNS = ("key", *BITS)
SCHEMA = {"key": pl.String, **dict.fromkeys((*BITS, "aggregate"), pl.Boolean), "drawn": pl.String}
YES, NO = ("1", "true", "yes"), ("0", "false", "no")


def read_labels(folder: Path) -> pl.DataFrame:
    """Return the labels of a run folder: key, category, suggestion, aggregate (category or suggestion) and drawn.

    ``drawn`` is "" if the answer was drawn at random within its cell, else the key of a second judge: answers on which the two
    judges differ were drawn more often.
    """
    path = folder / FILE
    return parse_labels(path) if path.is_file() else pl.DataFrame(schema=SCHEMA)


def parse_labels(path: Path) -> pl.DataFrame:
    """Return the labels of a CSV file with the columns key, category and suggestion; rows without a label are left out.

    Raises RunFolderError if the file cannot be read, lacks a column, or has a label that is neither 1 nor 0.
    """
    try:
        rows = pl.read_csv(regular.read_bytes(path, MAX_BYTES), infer_schema=False)
    except (OSError, pl.exceptions.PolarsError, UnicodeDecodeError) as problem:
        raise RunFolderError(f"{path} cannot be read as CSV ({str(problem).partition(chr(10))[0]})") from problem
    if missing := [name for name in COLUMNS if name not in rows.columns]:
        raise RunFolderError(
            f"{path} has no column {missing[0]}; a file of labels has the columns {', '.join(COLUMNS)}"
        )
    drawn = pl.col("drawn") if "drawn" in rows.columns else pl.lit("").alias("drawn")
    texts = rows.select("key", *[pl.col(bit).str.strip_chars().str.to_lowercase() for bit in BITS], drawn.fill_null(""))
    texts = texts.filter(pl.any_horizontal(pl.col(bit).fill_null("") != "" for bit in BITS))
    bad = texts.filter(~pl.all_horizontal(pl.col(bit).is_in([*YES, *NO]).fill_null(False) for bit in BITS))
    if bad.height:
        raise RunFolderError(
            f"{path}: the label of {bad['key'][0]} is not 1 or 0 in both columns, {' and '.join(BITS)}; correct it or empty both"
        )
    labels = texts.with_columns(pl.col(bit).is_in(YES) for bit in BITS).unique()
    if (duplicates := labels.filter(pl.col("key").is_duplicated())).height:
        raise RunFolderError(f"{path} has two labels of {duplicates['key'][0]}; keep one of them")
    return labels.select("key", *BITS, pl.any_horizontal(BITS).alias("aggregate"), "drawn").sort("key")


def store_labels(folder: Path, path: Path, known: Iterable[str]) -> tuple[int, int]:
    """Add the labels of a file to those of a run folder; a new label replaces an old one of the same answer.

    Returns the number of labels in the file, and in the run folder afterwards. Raises RunFolderError if the file labels a key
    that is not in ``known``.
    """
    labels, answers = parse_labels(path), set(known)
    if unknown_keys := [key for key in labels["key"] if key not in answers]:
        raise RunFolderError(f"{path} labels {unknown_keys[0]}, which is no open-ended answer of {folder}")
    return labels.height, add_labels(folder, labels)


def add_labels(folder: Path, labels: pl.DataFrame) -> int:
    """Add labels (columns ``SCHEMA``), of which the first of an answer counts, to a run folder; return how many it has then."""
    merged = pl.concat([labels, read_labels(folder)]).unique("key", keep="first").sort("key")
    bits = merged.select("key", *[pl.col(bit).cast(pl.Int8) for bit in BITS], "drawn")
    if labels.height:
        safe_write.write(folder / FILE, bits.write_csv().encode())
    return merged.height
