"""Percentages of prompt tokens and pictures that the engines reused from earlier requests.

Only vLLM reports them (and, for tokens, services that bill them). They may differ between runs with equal answers.
"""

import polars as pl

CACHED = ("prompt_cached", "pictures_cached")
COUNTS = (("prompt_tokens", "cached_tokens"), ("pictures", "cached_pictures"))
"""Per name in ``CACHED``, the columns of ``EpisodeRow`` with the total and with the cached part of it."""


def cached_percentages() -> list[pl.Expr]:
    """Return expressions for ``CACHED`` of a group of episodes; those without a report are left out of both sums."""
    return [_percentage(*map(pl.col, columns)).alias(name) for name, columns in zip(CACHED, COUNTS, strict=True)]


def _percentage(total_column: pl.Expr, cached: pl.Expr) -> pl.Expr:
    total = total_column.filter(cached.is_not_null()).sum()
    return pl.when(total > 0).then(100 * cached.sum() / total)
