"""How much of what was asked the engines had from earlier requests: prompt tokens and pictures, as percent of all.

A model's own engine tells it (vLLM; of tokens also services that bill them), so it differs from run to run for the same answers.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

from orchestrator.storage.episode_store import episodes

CACHED = ("prompt_cached", "pictures_cached")
COUNTS = (("prompt_tokens", "cached_tokens"), ("pictures", "cached_pictures"))
"""The columns of ``EpisodeRow`` behind ``CACHED``: all, and those that were cached."""
WORDS = ("prompt tokens from the engine's cache", "pictures preprocessed before")


def cached() -> list[pl.Expr]:
    """``CACHED`` of a group of episodes; null where no engine told, and an episode of which none did is in neither sum.

    Percent of the prompt tokens whose attention the engine had from an earlier request, and of pictures preprocessed for one.
    """
    return [_share(pl.col(every), pl.col(some)).alias(name) for name, (every, some) in zip(CACHED, COUNTS, strict=True)]


def shares(folder: Path, by: str = "cell") -> dict[str, dict[str, float | None]]:
    """Cell (or another column) -> ``CACHED`` of its stored episodes; only of those of which an engine told one."""
    rows = episodes(folder).group_by(by).agg(cached()).filter(pl.any_horizontal(pl.col(CACHED).is_not_null()))
    return {row.pop(by): row for row in rows.sort(by).collect().to_dicts()}


def told(shares: dict[str, float | None]) -> str:
    """``62% of prompt tokens from the engine's cache, 75% of pictures preprocessed before``; empty where nothing was reused."""
    found = zip((shares[name] for name in CACHED), WORDS, strict=True)
    return ", ".join(f"{share:.0f}% of {what}" for share, what in found if share)


def sentences(folder: Path) -> list[str]:
    """Of each model that reused something: what."""
    return [f"{model}: {line}" for model, found in shares(folder, "model").items() if (line := told(found))]


def _share(every: pl.Expr, some: pl.Expr) -> pl.Expr:
    whole = every.filter(some.is_not_null()).sum()
    return pl.when(whole > 0).then(100 * some.sum() / whole)
