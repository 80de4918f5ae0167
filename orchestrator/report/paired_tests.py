"""Paired tests: what a condition changes, and how models differ, on the same samples.

An episode without its partner, or one that ended in an error, is in no pair. Accuracy: McNemar's exact test (1947), a
binomial of the discordant pairs. Suggestions: the exact sign-flip test of the difference in turns. Of samples in clusters
both are sign-flip tests of the clusters' sums. Holm (1979) over the comparisons of models that the sweep declares, those of
multiple choice and of open-ended answers apart; baselines are reference points, not hypotheses, and are not corrected.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.stats import binom  # type: ignore[import-untyped]

from orchestrator.report.estimates import suggestion_limits
from orchestrator.report.intervals import Floats, Stratum, Whole, histogram, score_interval
from orchestrator.report.outcomes import groups_of, outcomes
from orchestrator.report.run_data import RunData, once

ALPHA, POWER = 0.05, 0.8
DETECTABLE_DIGITS = 1e-4
"""Precision of the detectable difference, as a share."""
FFT_ERROR = 1e-12
"""Absolute error that the sign-flip p may have, and the least p that is reported."""
ZERO_SHOT = "zero-shot"
SAMPLE = ("scenario", "protocol", "sample_id")
SUGGESTIONS = ("ps_difference", "ps_low", "ps_high", "ps_p")
MEASURED = ("effective", "difference_low", "difference_high", "p", *SUGGESTIONS)
Limits = Mapping[tuple[str, str], int]
"""(scenario, condition) -> the most suggestions of an episode (``suggestion_limits``)."""


@once
def against(run_data: RunData, condition: str = ZERO_SHOT) -> pl.DataFrame:
    """Every other condition against one, sample by sample: one row model x scenario x condition x protocol.

    Columns: n (pairs), acc and acc_other (percent, of ``condition``; of open-ended answers the judge's aggregate), difference
    (points) with difference_low and difference_high (Tango's interval), gained and lost (discordant pairs), p, p_holm,
    detectable (points, at the level of one comparison of the family; see ``detectable``), ps_difference with ps_low, ps_high,
    ps_p, ps_p_holm. Of baselines p_holm, ps_p_holm and detectable are null, unless nothing but baselines is planned; of
    open-ended answers all of ps.
    """
    pairs, family = pairs_of_conditions(run_data, condition)
    return compared_pairs(pairs, ["model", "scenario", "condition", "protocol"], family, suggestion_limits(run_data))


@once
def between(run_data: RunData, condition: str = ZERO_SHOT) -> pl.DataFrame:
    """Every model against every other under one condition: one row model x other x scenario x protocol.

    ``model`` comes before ``other`` by name; differences are model less other. Columns as in ``against``.
    """
    pairs, family = pairs_of_models(run_data, condition)
    return compared_pairs(pairs, ["model", "other", "scenario", "protocol"], family, suggestion_limits(run_data))


@once
def pairs_of_conditions(run_data: RunData, condition: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Episodes of every other condition beside the same model and sample under ``condition``; and the declared comparisons."""
    scored = outcomes(run_data)
    base = scored.filter(pl.col("condition") == condition).drop("condition", "cluster")
    pairs = scored.filter(pl.col("condition") != condition).join(base, on=["model", *SAMPLE], suffix="_other")
    planned = _in_family(run_data)
    base_cells = planned.filter(pl.col("condition") == condition)
    others = planned.filter(pl.col("condition") != condition)
    family = others.join(base_cells, on=["model", "scenario", "protocol"], how="semi")
    return pairs, family.select("model", "scenario", "condition", "protocol")


@once
def pairs_of_models(run_data: RunData, condition: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Episodes of every two models on the same sample under one condition; and the declared comparisons."""
    mine = outcomes(run_data).filter(pl.col("condition") == condition).drop("condition")
    planned = _in_family(run_data).filter(pl.col("condition") == condition).select("model", "scenario", "protocol")
    family = _model_pairs(planned, ["scenario", "protocol"])
    return _model_pairs(mine, list(SAMPLE)), family.select("model", "other", "scenario", "protocol")


def _model_pairs(rows: pl.DataFrame, same: list[str]) -> pl.DataFrame:
    """Every pair of models once, the first by name as ``model``."""
    pairs = rows.join(rows.rename({"model": "other"}), on=same, suffix="_other")
    return pairs.filter(pl.col("model") < pl.col("other"))


def significant(p: float | None) -> bool:
    """Whether a corrected p is below alpha; a comparison that is outside the family, with no corrected p, is not."""
    return p is not None and p < ALPHA


def mcnemar(gained: NDArray[np.int64], lost: NDArray[np.int64]) -> Floats:
    """Exact two-sided p of equal chances for gained and lost; 1 where no pair is discordant."""
    return np.asarray(np.minimum(1.0, 2 * binom.cdf(np.minimum(gained, lost), gained + lost, 0.5)), dtype=np.float64)


def sign_flip(steps: NDArray[np.int64], counts: NDArray[np.int64]) -> float:
    """Exact two-sided p of the sum of whole differences, each as likely with either sign (Fisher's randomization test, 1935).

    ``steps`` are the distinct differences of pairs, ``counts`` how many pairs have each. The null says that the two answers
    to a sample could be exchanged. The distribution of the sum is the product of the characteristic functions of the
    single signs, inverted by one FFT; p has an absolute error below 1e-12 and is never less than that.
    """
    sizes = np.abs(steps)
    total = int(counts @ sizes)
    if not total:
        return 1.0
    turn = np.arange(total // 2 + 1)
    waves = np.ones(len(turn), dtype=np.complex128)
    for size, count in zip(sizes, counts, strict=True):
        waves *= (0.5 + 0.5 * np.exp(-2j * np.pi * (turn * size % (total + 1)) / (total + 1))) ** count
    chances = np.fft.irfft(waves, total + 1)
    extreme = (total + abs(int(counts @ steps))) // 2
    return float(np.clip(2 * chances[extreme:].sum(), FFT_ERROR, 1.0))


def holm(p: Floats, family: int = 0) -> Floats:
    """Holm's step-down adjustment (1979): the chance of any false finding in the family stays below alpha.

    ``family`` counts all declared comparisons, those that are not played yet included; left out, the list is the family.
    """
    order = np.argsort(p, kind="stable")
    remaining = np.arange(max(family, len(p)), 0, -1)[: len(p)]
    stepped = np.maximum.accumulate(p[order] * remaining)
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(stepped, 1.0)
    return adjusted


def detectable(n: int, discordant: float, alpha: float = ALPHA, power: float = POWER) -> float | None:
    """The smallest true difference (points) that McNemar's exact test finds with this power among ``n`` pairs.

    ``discordant`` is the share of discordant pairs, ``alpha`` the level that p must not exceed: for one comparison of a
    family, alpha divided by the family. None where not even a difference in which all discordant pairs agree is found.
    """
    if n <= 0 or not 0 < discordant <= 1 or mcnemar_power(n, discordant, discordant, alpha) < power:
        return None
    low, high = 0.0, discordant
    while high - low > DETECTABLE_DIGITS:
        middle = (low + high) / 2
        low, high = (low, middle) if mcnemar_power(n, discordant, middle, alpha) >= power else (middle, high)
    return 100 * high


def mcnemar_power(n: int, discordant: float, difference: float, alpha: float) -> float:
    """The chance that the exact test of ``n`` pairs has p <= ``alpha``, given the share of discordant pairs and the difference.

    Sums over the number of discordant pairs, a binomial (Connor 1987, Biometrics 43:207-211, has the approximation).
    """
    spread = 6 * np.sqrt(n * discordant * (1 - discordant)) + 1
    pairs = np.arange(max(0, int(n * discordant - spread)), min(n, int(n * discordant + spread)) + 1)
    fewest = binom.ppf(alpha / 2, pairs, 0.5)
    fewest = np.where(binom.cdf(fewest, pairs, 0.5) > alpha / 2, fewest - 1, fewest)
    share = (discordant + difference) / (2 * discordant)
    found = binom.sf(pairs - fewest - 1, pairs, share) + binom.cdf(fewest, pairs, share)
    return float((binom.pmf(pairs, n, discordant) * found).sum())


def _in_family(run_data: RunData) -> pl.DataFrame:
    """The planned cells whose comparisons are corrected together: of models, or of baselines where there is no model."""
    models = run_data.planned.filter(~pl.col("model").is_in(list(run_data.baselines)))
    return run_data.planned if models.is_empty() else models


def compared_pairs(pairs: pl.DataFrame, names: Sequence[str], family: pl.DataFrame, limits: Limits) -> pl.DataFrame:
    """One row a comparison; ``family`` holds the names of all declared ones, and only they are corrected together."""
    rows = pairs.group_by(names).agg(_counts()).sort(names)
    rows = rows.join(_differences(pairs, names, limits), on=list(names), how="left", maintain_order="left")
    tests = rows.join(family, on=list(names), how="semi", maintain_order="left")
    sizes = dict(family.group_by("protocol").len().iter_rows())
    parts = [_corrected(part, names, sizes[part["protocol"][0]]) for part in tests.partition_by("protocol")]
    corrected = pl.concat(parts or [_corrected(tests, names, 0)])
    rows = rows.join(corrected, on=list(names), how="left", maintain_order="left")
    first = [*names, "n", "acc", "acc_other", "difference", "difference_low", "difference_high", "gained", "lost"]
    return rows.select(*first, "p", "p_holm", "detectable", *SUGGESTIONS, "ps_p_holm")


def _corrected(rows: pl.DataFrame, names: Sequence[str], family: int) -> pl.DataFrame:
    """p_holm, ps_p_holm and detectable of the tests of the family."""
    shares = ((rows["gained"] + rows["lost"]) / rows["n"]).to_list()
    alpha = ALPHA / max(family, 1)
    least = [detectable(int(n), share, alpha) for n, share in zip(rows["effective"].to_list(), shares, strict=True)]
    adjusted = [with_holm(rows, name, family) for name in ("p", "ps_p")]
    return rows.select(*names).with_columns(*adjusted, pl.Series("detectable", least, dtype=pl.Float64))


def with_holm(rows: pl.DataFrame, name: str, family: int) -> pl.Series:
    """Holm's adjusted p of a column, as ``<name>_holm``; null where the column is."""
    known = rows[name].drop_nulls().to_numpy()
    adjusted = iter(holm(known, family).tolist())
    values = [None if p is None else next(adjusted) for p in rows[name].to_list()]
    return pl.Series(f"{name}_holm", values, dtype=pl.Float64)


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


def paired_strata(pairs: pl.DataFrame, most: int) -> tuple[Stratum, Stratum | None]:
    """The differences of one group of pairs: of accuracy in points, and of suggestions, of which an episode has ``most``.

    Open-ended answers have no suggestions.
    """
    gains, steps, groups = _gains(pairs), _steps(pairs), groups_of(pairs)
    right = histogram(100 * gains, -100, 100, groups)
    return right, None if steps is None else histogram(steps, -most, most, groups)


def _gains(pairs: pl.DataFrame) -> Whole:
    return (pairs["correct"].cast(pl.Int64) - pairs["correct_other"].cast(pl.Int64)).to_numpy()


def _steps(pairs: pl.DataFrame) -> Whole | None:
    return None if pairs["turns"].null_count() else (pairs["turns"] - pairs["turns_other"]).to_numpy()


def _exact_p(differences: Whole, groups: Whole | None) -> float:
    """The sign-flip test of differences (n,), or of their sums over clusters; of gains and losses it is McNemar's."""
    sums = differences if groups is None else np.bincount(groups, differences).astype(np.int64)
    return sign_flip(*np.unique(sums, return_counts=True))


def _differences(pairs: pl.DataFrame, names: Sequence[str], limits: Limits) -> pl.DataFrame:
    """The intervals and p of both differences, and the mean difference in suggestions."""
    most: dict[str, int] = {}
    for (scenario, _), limit in limits.items():
        most[scenario] = max(limit, most.get(scenario, 0))
    rows = []
    for group, part in pairs.sort(names).group_by(names, maintain_order=True):
        (right, steps), differences = paired_strata(part, most[part["scenario"][0]]), _steps(part)
        asked: tuple[float | None, ...] = (None,) * len(SUGGESTIONS)
        if steps is not None and differences is not None:
            asked = (steps.mean, *score_interval([steps]), _exact_p(differences, groups_of(part)))
        rows.append((*group, float(right.counts.sum()), *score_interval([right]), _p(part), *asked))
    schema = {**dict.fromkeys(names, pl.String), **dict.fromkeys(MEASURED, pl.Float64)}
    return pl.DataFrame(rows, schema=schema, orient="row")


def _p(pairs: pl.DataFrame) -> float:
    """The exact p of a difference in accuracy."""
    gains, groups = _gains(pairs), groups_of(pairs)
    if groups is not None:
        return _exact_p(gains, groups)
    return float(mcnemar((gains > 0).sum(), (gains < 0).sum()))
