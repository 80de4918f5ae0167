"""A measure is a function: stored episodes and turns -> one value an episode; its mean and interval stand beside acc and ps."""

import polars as pl


def asked_and_right(episodes: pl.LazyFrame, turns: pl.LazyFrame) -> pl.LazyFrame:
    """Percent of episodes that asked at least once and ended right."""
    good = (pl.col("suggestions") > 0) & pl.col("correct")
    return episodes.filter(pl.col("correct").is_not_null()).select("key", value=100.0 * good)
