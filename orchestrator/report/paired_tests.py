"""Paired tests: what a condition changes, and how models differ, on the same samples.

An episode without its partner, or one that ended in an error, is in no pair. Accuracy: McNemar's exact test (1947), a
binomial of the discordant pairs. Suggestions: the exact sign-flip test of the difference in turns. Of samples in clusters
both are sign-flip tests of the clusters' sums. Holm (1979) over the comparisons of models that the sweep declares, those of
multiple choice and of open-ended answers apart; baselines are reference points, not hypotheses, and are not corrected.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.stats import binom  # type: ignore[import-untyped]

from orchestrator.report.estimates import suggestion_limits
from orchestrator.report.intervals import Floats, Stratum, Whole, histogram, histogram_of, score_interval
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


class Paired(NamedTuple):
    """The differences of one group of pairs: first less other."""

    n: int
    """Pairs."""
    right: Stratum
    """Of accuracy, in points."""
    steps: Stratum | None
    """Of suggestions; None of open-ended answers, which have none."""
    gains: tuple[Whole, Whole]
    """What the exact test of accuracy looks at: distinct differences, of clusters their sums, and how often each was seen."""
    flips: tuple[Whole, Whole] | None
    """The same of suggestions."""
    clustered: bool


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
    """Every other condition beside ``condition``, on the same model and sample (``kinds``); and the declared comparisons."""
    scored = outcomes(run_data)
    base = scored.filter(pl.col("condition") == condition).drop("condition", "cluster")
    pairs = scored.filter(pl.col("condition") != condition).join(base, on=["model", *SAMPLE], suffix="_other")
    planned = _in_family(run_data)
    base_cells = planned.filter(pl.col("condition") == condition)
    others = planned.filter(pl.col("condition") != condition)
    family = others.join(base_cells, on=["model", "scenario", "protocol"], how="semi")
    names = ["model", "scenario", "condition", "protocol"]
    return kinds(pairs.lazy(), names), family.select(names)


@once
def pairs_of_models(run_data: RunData, condition: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Every two models on the same samples under one condition (``kinds``); and the declared comparisons."""
    mine = outcomes(run_data).lazy().filter(pl.col("condition") == condition).drop("condition")
    planned = _in_family(run_data).filter(pl.col("condition") == condition).select("model", "scenario", "protocol")
    family = _model_pairs(planned.lazy(), ["scenario", "protocol"]).collect()
    names = ["model", "other", "scenario", "protocol"]
    return kinds(_model_pairs(mine, list(SAMPLE)), names), family.select(names)


def kinds(pairs: pl.LazyFrame, names: Sequence[str]) -> pl.DataFrame:
    """How many pairs are alike, so that nobody need hold each: ``names``, correct, correct_other, steps, cluster, count.

    ``pairs`` have turns and turns_other, of which ``steps`` is the difference. One row a kind that occurs, in any order.
    """
    steps = (pl.col("turns") - pl.col("turns_other")).alias("steps")
    alike = pairs.group_by(*names, "correct", "correct_other", steps, "cluster").len("count")
    return alike.with_columns(pl.col("count").cast(pl.Int64)).collect(engine="streaming")


def _model_pairs(rows: pl.LazyFrame, same: list[str]) -> pl.LazyFrame:
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
    pairs, fewest, chances = _discordant_pairs(n, discordant, alpha)
    share = (discordant + difference) / (2 * discordant)
    found = binom.sf(pairs - fewest - 1, pairs, share) + binom.cdf(fewest, pairs, share)
    return float((chances * found).sum())


@lru_cache(maxsize=1)
def _discordant_pairs(n: int, discordant: float, alpha: float) -> tuple[Whole, Floats, Floats]:
    """Numbers of discordant pairs that occur; of each the most on the smaller side that the test still finds, and its chance."""
    spread = 6 * np.sqrt(n * discordant * (1 - discordant)) + 1
    pairs = np.arange(max(0, int(n * discordant - spread)), min(n, int(n * discordant + spread)) + 1)
    fewest = binom.ppf(alpha / 2, pairs, 0.5)
    fewest = np.where(binom.cdf(fewest, pairs, 0.5) > alpha / 2, fewest - 1, fewest)
    return pairs, fewest, binom.pmf(pairs, n, discordant)


def _in_family(run_data: RunData) -> pl.DataFrame:
    """The planned cells whose comparisons are corrected together: of models, or of baselines where there is no model."""
    models = run_data.planned.filter(~pl.col("model").is_in(list(run_data.baselines)))
    return run_data.planned if models.is_empty() else models


def compared_pairs(pairs: pl.DataFrame, names: Sequence[str], family: pl.DataFrame, limits: Limits) -> pl.DataFrame:
    """One row a comparison of ``kinds`` by ``names``; ``family`` names all declared ones, which alone are corrected, together."""
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
    count, right, other = pl.col("count"), pl.col("correct"), pl.col("correct_other")
    rights, others = (count.filter(answers).sum() for answers in (right, other))
    return [
        count.sum().alias("n"),
        (100 * (rights / count.sum())).alias("acc"),
        (100 * (others / count.sum())).alias("acc_other"),
        (100 * (rights - others) / count.sum()).alias("difference"),
        count.filter(right & ~other).sum().alias("gained"),
        count.filter(~right & other).sum().alias("lost"),
    ]


def paired_strata(pairs: pl.DataFrame, most: int) -> tuple[Stratum, Stratum | None]:
    """The differences of one group of single pairs: of accuracy in points, and of suggestions, of which an episode has ``most``.

    Open-ended answers have no suggestions.
    """
    steps = pairs.with_columns(steps=pl.col("turns") - pl.col("turns_other"), count=pl.lit(1, pl.Int64))
    found = _paired(steps, most)
    return found.right, found.steps


def differences(pairs: pl.DataFrame, names: Sequence[str], limits: Limits) -> Iterator[tuple[tuple[str, ...], Paired]]:
    """Each group of ``kinds`` with these names, scenario among them, in their order."""
    most: dict[str, int] = {}
    for (scenario, _), limit in limits.items():
        most[scenario] = max(limit, most.get(scenario, 0))
    at = list(names).index("scenario")
    for group, part in pairs.sort(names).group_by(names, maintain_order=True):
        named = tuple(map(str, group))
        yield named, _paired(part, most[named[at]])


def _paired(pairs: pl.DataFrame, most: int) -> Paired:
    """The differences of kinds of pairs of one scenario."""
    gains = (pairs["correct"].cast(pl.Int64) - pairs["correct_other"].cast(pl.Int64)).to_numpy()
    counts, groups = pairs["count"].to_numpy(), groups_of(pairs)
    n, right = int(counts.sum()), _stratum(100 * gains, counts, 100, groups)
    if pairs["steps"].null_count():
        return Paired(n, right, None, _tested(gains, counts, groups), None, groups is not None)
    steps = pairs["steps"].to_numpy()
    tested = [_tested(values, counts, groups) for values in (gains, steps)]
    return Paired(n, right, _stratum(steps, counts, most, groups), tested[0], tested[1], groups is not None)


def _stratum(values: Whole, counts: Whole, most: int, groups: Whole | None) -> Stratum:
    if groups is None:
        return histogram_of(values, counts, -most, most)
    return histogram(np.repeat(values, counts), -most, most, np.repeat(groups, counts))


def _tested(values: Whole, counts: Whole, groups: Whole | None) -> tuple[Whole, Whole]:
    """Distinct values, or sums of clusters, and how often each was seen."""
    if groups is not None:
        sums = np.bincount(groups, values * counts).astype(np.int64)
        return np.unique(sums, return_counts=True)
    distinct, place = np.unique(values, return_inverse=True)
    return distinct, np.bincount(place, counts).astype(np.int64)


def _differences(pairs: pl.DataFrame, names: Sequence[str], limits: Limits) -> pl.DataFrame:
    """The intervals and p of both differences, and the mean difference in suggestions."""
    rows = []
    for group, found in differences(pairs, names, limits):
        asked: tuple[float | None, ...] = (None,) * len(SUGGESTIONS)
        if found.steps is not None and found.flips is not None:
            asked = (found.steps.mean, *score_interval([found.steps]), sign_flip(*found.flips))
        rows.append((*group, float(found.right.counts.sum()), *score_interval([found.right]), _p(found), *asked))
    schema = {**dict.fromkeys(names, pl.String), **dict.fromkeys(MEASURED, pl.Float64)}
    return pl.DataFrame(rows, schema=schema, orient="row")


def _p(found: Paired) -> float:
    """The exact p of a difference in accuracy; the sign-flip test of gains and losses is McNemar's."""
    if found.clustered:
        return sign_flip(*found.gains)
    gains, counts = found.gains
    return float(mcnemar(counts[gains > 0].sum(), counts[gains < 0].sum()))
