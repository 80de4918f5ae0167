"""Percentages of prompt tokens and pictures that the engines reused from earlier requests.

Only vLLM reports them (and, for tokens, services that bill them). They may differ between runs with equal answers.
"""

import polars as pl

CACHED = {"prompt_cached": ("prompt_tokens", "cached_tokens"), "pictures_cached": ("pictures", "cached_pictures")}
"""Name -> the columns of ``EpisodeRow`` with the total and with the cached part of it."""


def cached_percentages() -> list[pl.Expr]:
    """Return expressions for ``CACHED`` of a group of episodes; those without a report are left out of both sums."""
    expressions = []
    for name, (total_column, cached) in CACHED.items():
        total = pl.col(total_column).filter(pl.col(cached).is_not_null()).sum()
        expressions.append(pl.when(total > 0).then(100 * pl.col(cached).sum() / total).alias(name))
    return expressions
