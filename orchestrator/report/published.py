"""The published figures of the paper as one table.

Data with their source (published_tables/README.md), never part of a measure of ours.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import polars as pl

FOLDER = Path(__file__).with_name("published_tables")
AVERAGE = "avg"
ROUNDING = 0.05
"""Half of the last printed digit: a published figure is known no better."""
TABLES = {
    "mcqa": ("mcqa", "zero-shot", True),
    "mcqa_hint": ("mcqa", "hint", True),
    "reference": ("mcqa", "reference", True),
    "mcqa_unfiltered": ("mcqa", "zero-shot", False),
    "oeg": ("oeg", "zero-shot", True),
    "oeg_hint": ("oeg", "hint", True),
    "oeg_multiturn": ("oeg-multi", "zero-shot", True),
}
"""File -> protocol, condition, whether of the filtered samples. How the last one's answers became moves is not published, and
whether with the hint neither: docs/decisions/0010-open-ended-turns.md."""
MEASURES = {
    "mcqa": {"acc": "acc", "psr": "ps"},
    "oeg": {"agg": "aggregate", "cc": "category", "ps": "suggestion"},
    "oeg-multi": {"acc": "acc", "psr": "ps"},
    "tools": {"acc": "acc", "psr": "ps"},
}
"""Protocol -> the paper's column -> our measure; of tool calls there is no figure, and ``compare`` says so."""


@cache
def figures() -> pl.DataFrame:
    """Every published figure: table, protocol, condition, filtered, paper (row), scenario (or ``avg``), measure, published."""
    return pl.concat([_long(name) for name in TABLES]).sort("table", "paper", "scenario", "measure")


def table(name: str) -> pl.DataFrame:
    """One file as it is printed: ``model``, then a column a scenario and measure; FileNotFoundError for another name."""
    return pl.read_csv(FOLDER / f"{name}.csv")


@cache
def averages() -> pl.DataFrame:
    """Averages over models that the paper's text gives: condition, scenario, measure, models (null if not said), value."""
    return table("averages")


def _long(name: str) -> pl.DataFrame:
    protocol, condition, filtered = TABLES[name]
    wide = table(name)
    long = wide.unpivot(index="model", variable_name="column", value_name="published")
    parts = pl.col("column").str.split_exact(" ", 1).struct.rename_fields(["scenario", "measure"])
    named = long.with_columns(parts.alias("parts"), pl.col("published").cast(pl.Float64)).unnest("parts")
    return named.select(
        pl.lit(name).alias("table"),
        pl.lit(protocol).alias("protocol"),
        pl.lit(condition).alias("condition"),
        pl.lit(filtered).alias("filtered"),
        pl.col("model").alias("paper"),
        "scenario",
        pl.col("measure").replace_strict(MEASURES[protocol]),
        "published",
    )
