"""A comparison is of the same samples: an episode without its partner, or one that ended in an error, is in no pair.

Accuracy: McNemar's exact test (1947), a binomial of the discordant pairs; Holm (1979) over all comparisons of one table.
Suggestions: paired bootstrap of the difference in turns.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.stats import binom, norm  # type: ignore[import-untyped]

from orchestrator.report.bootstrap import RESAMPLES, Floats, bounds, generator, resampled
from orchestrator.report.run_data import RunData

ALPHA, POWER = 0.05, 0.8
ZERO_SHOT = "zero-shot"
SAMPLE = ("scenario", "protocol", "sample_id")
COMPARED = ("correct", "turns", "correct_other", "turns_other")


def against(run_data: RunData, condition: str = ZERO_SHOT, resamples: int = RESAMPLES, seed: int = 0) -> pl.DataFrame:
    """Every other condition against one, sample by sample: one row model x scenario x condition x protocol.

    Columns: n (pairs), acc and acc_other (percent, of ``condition``), difference (points), gained and lost (discordant
    pairs), p, p_holm, detectable (points; see ``detectable``), ps_difference with ps_low, ps_high, ps_p, ps_p_holm.
    """
    scored = run_data.scored.select("model", "condition", *SAMPLE, "correct", "turns")
    base = scored.filter(pl.col("condition") == condition).drop("condition")
    pairs = scored.filter(pl.col("condition") != condition).join(base, on=["model", *SAMPLE], suffix="_other")
    return _compared(pairs, ["model", "scenario", "condition", "protocol"], resamples, seed)


def between(run_data: RunData, condition: str = ZERO_SHOT, resamples: int = RESAMPLES, seed: int = 0) -> pl.DataFrame:
    """Every model against every other under one condition: one row model x other x scenario x protocol.

    ``model`` comes before ``other`` by name; differences are model less other. Columns as in ``against``.
    """
    mine = run_data.scored.filter(pl.col("condition") == condition).select("model", *SAMPLE, "correct", "turns")
    pairs = mine.join(mine.rename({"model": "other"}), on=list(SAMPLE), suffix="_other")
    names = ["model", "other", "scenario", "protocol"]
    return _compared(pairs.filter(pl.col("model") < pl.col("other")), names, resamples, seed)


def mcnemar(gained: NDArray[np.int64], lost: NDArray[np.int64]) -> Floats:
    """Exact two-sided p of equal chances for gained and lost; 1 where no pair is discordant."""
    return np.asarray(np.minimum(1.0, 2 * binom.cdf(np.minimum(gained, lost), gained + lost, 0.5)), dtype=np.float64)


def holm(p: Floats) -> Floats:
    """Holm's step-down adjustment (1979): the chance of any false finding in the whole list stays below alpha."""
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(stepped, 1.0)
    return adjusted


def detectable(n: int, discordant: float, alpha: float = ALPHA, power: float = POWER) -> float | None:
    """The smallest true difference (points) that n pairs find with this power, given the share of discordant pairs.

    Solves n d^2 = (z_a sqrt(s) + z_b sqrt(s - d^2))^2 for d, with s the discordant share, z_a the normal quantile of
    1 - alpha/2 and z_b that of the power (Connor 1987, Biometrics 43:207-211; Miettinen 1968). None where not even a
    difference in which all discordant pairs agree would be found.
    """
    if n <= 0 or not 0 < discordant <= 1:
        return None
    za, zb = norm.ppf(1 - alpha / 2), norm.ppf(power)
    under = discordant * (n + zb**2 - za**2)
    if under < 0:
        return None
    found = (za * np.sqrt(discordant * n) + zb * np.sqrt(under)) / (n + zb**2)
    return float(100 * found) if found <= discordant else None


def _compared(pairs: pl.DataFrame, names: Sequence[str], resamples: int, seed: int) -> pl.DataFrame:
    counts = pairs.group_by(names).agg(_counts()).sort(names)
    difference = pairs.select(*names, (pl.col("turns") - pl.col("turns_other")).cast(pl.Int64).alias("step"))
    suggestions = _suggestions(difference, names, resamples, seed)
    gained, lost = counts["gained"].to_numpy(), counts["lost"].to_numpy()
    p = mcnemar(gained, lost)
    shares = zip(counts["n"].to_list(), ((gained + lost) / np.maximum(counts["n"].to_numpy(), 1)).tolist(), strict=True)
    least = pl.Series("detectable", [detectable(n, share) for n, share in shares], dtype=pl.Float64)
    rows = counts.with_columns(pl.Series("p", p), pl.Series("p_holm", holm(p)), least)
    return rows.join(suggestions, on=list(names), how="left", maintain_order="left")


def _counts() -> list[pl.Expr]:
    right, other = pl.col("correct"), pl.col("correct_other")
    return [
        pl.len().cast(pl.Int64).alias("n"),
        (100 * right.mean()).alias("acc"),
        (100 * other.mean()).alias("acc_other"),
        (100 * (right.cast(pl.Int64).sum() - other.cast(pl.Int64).sum()) / pl.len()).alias("difference"),
        (right & ~other).sum().cast(pl.Int64).alias("gained"),
        (~right & other).sum().cast(pl.Int64).alias("lost"),
    ]


def _suggestions(steps: pl.DataFrame, names: Sequence[str], resamples: int, seed: int) -> pl.DataFrame:
    """Paired bootstrap of the mean difference in suggestions; its p cannot fall below 2 / (resamples + 1)."""
    rows = []
    counted = steps.group_by(*names, "step").len("count").sort(*names, "step")
    for group, part in counted.group_by(names, maintain_order=True):
        values, counts = part.select("step").to_numpy(), part["count"].cast(pl.Int64).to_numpy()
        total = counts.sum()
        drawn = resampled(values, counts, resamples, generator(seed, "\n".join(map(str, group))))[:, 0] / total
        tail = min((drawn <= 0).sum(), (drawn >= 0).sum())
        low, high = bounds(drawn)
        p = min(1.0, 2 * (1 + int(tail)) / (resamples + 1))
        rows.append((*group, float(counts @ values[:, 0] / total), low, high, p))
    measured = ("ps_difference", "ps_low", "ps_high", "ps_p")
    schema = {**dict.fromkeys(names, pl.String), **dict.fromkeys(measured, pl.Float64)}
    found = pl.DataFrame(rows, schema=schema, orient="row")
    return found.with_columns(pl.Series("ps_p_holm", holm(found["ps_p"].to_numpy()), dtype=pl.Float64))
