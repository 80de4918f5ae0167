"""The published figures of the paper as one table (source: published_tables/README.md); no measure depends on them."""

from functools import cache
from pathlib import Path

import polars as pl

from sweeps.protocol import ZERO_SHOT

FOLDER = Path(__file__).with_name("published_tables")
AVERAGE = "avg"
ROUNDING = 0.05
"""Half of the last printed digit, the precision of a published figure."""
TABLES = {
    "mcqa": ("mcqa", ZERO_SHOT, True),
    "mcqa_hint": ("mcqa", "hint", True),
    "reference": ("mcqa", "reference", True),
    "mcqa_unfiltered": ("mcqa", ZERO_SHOT, False),
    "oeg": ("oeg", ZERO_SHOT, True),
    "oeg_hint": ("oeg", "hint", True),
    "oeg_multiturn": ("oeg-multi", ZERO_SHOT, True),
}
"""File -> protocol, condition, whether the samples are filtered. The paper does not say how answers of oeg-multi become moves,
nor whether the hint is shown: docs/decisions/0010-open-ended-turns.md."""
MEASURES = {
    "mcqa": {"acc": "acc", "psr": "ps"},
    "oeg": {"agg": "aggregate", "cc": "category", "ps": "suggestion"},
    "oeg-multi": {"acc": "acc", "psr": "ps"},
    "tools": {"acc": "acc", "psr": "ps"},
}
"""Protocol -> the paper's column -> our measure. The paper has no figures of tool calls."""


@cache
def published_figures() -> pl.DataFrame:
    """Return all figures: table, protocol, condition, filtered, paper (row), scenario or ``avg``, measure, published."""
    return pl.concat([_load_long(name) for name in TABLES]).sort("table", "paper", "scenario", "measure")


def published_table(name: str) -> pl.DataFrame:
    """Return one table as printed: ``model``, then one column per scenario and measure; raises FileNotFoundError."""
    return pl.read_csv(FOLDER / f"{name}.csv")


def _load_long(name: str) -> pl.DataFrame:
    protocol, condition, filtered = TABLES[name]
    wide = published_table(name)
    long = wide.unpivot(index="model", variable_name="column", value_name="published")
    parts = pl.col("column").str.split_exact(" ", 1).struct.rename_fields(["scenario", "measure"])
    named = long.with_columns(parts.alias("parts"), pl.col("published").cast(pl.Float64)).unnest("parts")
    return named.select(
        table=pl.lit(name), protocol=pl.lit(protocol), condition=pl.lit(condition), filtered=pl.lit(filtered),
        paper="model", scenario="scenario", measure=pl.col("measure").replace_strict(MEASURES[protocol]), published="published",
    )  # fmt: skip
