"""How sure the order of models is: the chance to be best, the ranks that are not excluded, the chance to beat the next.

Only models whose cells are complete are ranked, all over the same samples; equal runs give equal figures. Ranks come from
the corrected paired tests of all pairs: all true ranks lie in their bounds in 95% of runs (Klein, Wright and Wieczorek 2020,
J. R. Stat. Soc. C 69:589-606; Mogstad, Romano, Shaikh and Wilhelm 2024, Rev. Econ. Stud. 91:476-518). Probabilities come
from a Bayesian bootstrap of the samples of each scenario (Rubin 1981, Ann. Stat. 9:130-134) and from how far the models lie
apart for these samples (``shrunken``): where the gaps are within the noise, the first of many is mostly first by luck.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

from orchestrator.report.intervals import Floats
from orchestrator.report.metrics import lacking
from orchestrator.report.outcomes import groups_of, outcomes
from orchestrator.report.paired_averages import averages_between
from orchestrator.report.paired_tests import ZERO_SHOT, significant
from orchestrator.report.run_data import RunData, once

DRAWS = 4_000
AT_ONCE = 500
"""Draws made together, to bound memory."""
PRIOR = 2.0
"""Imagined samples a scenario, on which each model is right half the time and every two differ half the time: before
anything is played any accuracy is as likely (Beta(1, 1)), and of two models neither is thought the better."""
PATTERNS = 64
"""Imagined answer patterns that share the prior: half of them drawn, half their complements."""
SPREADS = np.geomspace(0.01, 300, 60)
"""Standard deviations between models that are thought possible, in standard errors."""
BEATS = ["model", "other", "protocol"]
"""Columns that name a pair of models."""
SCHEMA = {
    **dict.fromkeys(("model", "protocol"), pl.String),
    "average": pl.Float64,
    **dict.fromkeys(("models", "rank", "rank_low", "rank_high"), pl.Int64),
    "p_best": pl.Float64,
    "next": pl.String,
    **dict.fromkeys(("p_beats_next", "difference", "difference_low", "difference_high"), pl.Float64),
}


class _Order(NamedTuple):
    """Ranked models, best first."""

    names: list[str]
    averages: Floats
    """Observed, in percent (models,)."""
    draws: Floats
    """Of the true averages, in percent (draws, models)."""


@once
def ranking(run_data: RunData, condition: str = ZERO_SHOT) -> pl.DataFrame:
    """One row protocol x model with complete cells, best first; protocols with fewer than two such models are left out.

    Columns: average over scenarios (percent: accuracy, or the judge's aggregate), models (ranked), rank, rank_low and
    rank_high (95% for all models together), p_best, and against the ``next`` model: p_beats_next, difference (points)
    with difference_low and difference_high; null for the last one. Probabilities are shares.
    """
    pairs = averages_between(run_data, condition)
    rows = []
    for protocol, order in _orders(run_data, condition).items():
        tests = _both_ways(pairs.filter(protocol=protocol)).filter(pl.col("other").is_in(order.names))
        rows += _ranked(protocol, order, tests)
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def beats(run_data: RunData, condition: str = ZERO_SHOT) -> pl.DataFrame:
    """One row model x other x protocol of ranked models: p_beats, the chance that model's true average is above other's."""
    rows = []
    for protocol, order in _orders(run_data, condition).items():
        for place, name in enumerate(order.names):
            above = (order.draws[:, [place]] > order.draws).mean(axis=0)
            found = zip(order.names, above.tolist(), strict=True)
            rows += [(name, other, protocol, share) for other, share in found if other != name]
    schema = {**dict.fromkeys(BEATS, pl.String), "p_beats": pl.Float64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def chance(share: float) -> str:
    """A probability in percent; none is said to be certain."""
    return "> 99%" if share > 0.99 else "< 1%" if share < 0.01 else f"{100 * share:.0f}%"


def posterior(answers: Sequence[tuple[Floats, Floats]], seed: int = 0) -> Floats:
    """Draws (draws, models) of the models' true averages over scenarios, as shares.

    ``answers``, one pair a scenario: right answers (clusters, models) and samples (clusters,) of each cluster, a sample alone
    being a cluster of one. Weights of clusters are drawn from the flat Dirichlet distribution, ``PRIOR`` beside them.
    """
    rng, models = np.random.default_rng(seed), answers[0][0].shape[1]
    drawn = rng.random((PATTERNS // 2, models)) < 0.5
    imagined = np.vstack([drawn, ~drawn]).astype(np.float64)
    averages = np.zeros((DRAWS, models))
    for right, sizes in answers:
        unit = sizes.mean()
        for first in range(0, DRAWS, AT_ONCE):
            weights = rng.standard_exponential((AT_ONCE, len(sizes)))
            beside = unit * rng.gamma(PRIOR / PATTERNS, size=(AT_ONCE, PATTERNS))
            totals = weights @ sizes + beside.sum(axis=1)
            averages[first : first + AT_ONCE] += (weights @ right + beside @ imagined) / totals[:, None]
    return averages / len(answers)


def shrunken(draws: Floats, seed: int = 0) -> Floats:
    """Draws (draws, models) of true averages, given ``draws`` of them in which nothing is known of models beforehand.

    True averages are thought normal around a common one. Their standard deviation is not known: half-Cauchy, of the scale of
    one standard error (Gelman 2006, Bayesian Anal. 1:515-534; van Zwet and Gelman 2022, Bayesian Anal. 17:729-752), so that
    the chance to be best of two or twenty models is right on average whether they differ much or hardly at all.
    """
    rng, (number, models) = np.random.default_rng(seed), draws.shape
    variances, axes = np.linalg.eigh(np.cov(draws, rowvar=False))
    variances = np.maximum(variances, np.finfo(float).tiny)
    level, at = axes.T @ np.ones(models), axes.T @ draws.mean(axis=0)
    error = float(np.sqrt((variances.sum() - variances @ level**2 / models) / (models - 1)))
    wide = variances + (error * SPREADS[:, None]) ** 2
    known = (level**2 / wide).sum(axis=1)
    means = (level * at / wide).sum(axis=1) / known
    away = at - means[:, None] * level
    log = -0.5 * (np.log(wide).sum(axis=1) + np.log(known) + (away**2 / wide).sum(axis=1)) + np.log(
        SPREADS / (1 + SPREADS**2)
    )
    chances = np.exp(log - log.max())
    place = rng.choice(len(SPREADS), number, p=chances / chances.sum())
    mean = (means + rng.standard_normal((number, len(SPREADS))) / np.sqrt(known))[np.arange(number), place]
    kept = 1 - variances / wide[place]
    drawn = mean[:, None] * level + kept * (at - mean[:, None] * level)
    return np.asarray((drawn + np.sqrt(variances * kept) * rng.standard_normal((number, models))) @ axes.T)


@once
def _orders(run_data: RunData, condition: str) -> dict[str, _Order]:
    """Protocol -> its ranked models, where there are two or more."""
    scored, found = outcomes(run_data).filter(condition=condition), {}
    for protocol in scored["protocol"].unique().sort():
        names = _complete(run_data, condition, protocol)
        answers = scored.filter(pl.col("model").is_in(names), protocol=protocol)
        scenarios = [_right(part, names) for part in answers.partition_by("scenario", maintain_order=True)]
        if len(names) < 2 or not all(len(sizes) for _, sizes in scenarios):
            continue
        averages = 100 * np.mean([right.sum(axis=0) / sizes.sum() for right, sizes in scenarios], axis=0)
        best = sorted(range(len(names)), key=lambda place: (-averages[place], names[place]))
        draws = shrunken(100 * posterior(scenarios)[:, best])
        found[protocol] = _Order([names[one] for one in best], averages[best], draws)
    return found


def _complete(run_data: RunData, condition: str, protocol: str) -> list[str]:
    """Models, or baselines without the oracle where there is none, that have played and read all that any of them plans."""
    rows = run_data.rows.filter(condition=condition, protocol=protocol)
    models = rows.filter(~pl.col("model").is_in(list(run_data.baselines)))
    rows = rows.filter(~pl.col("model").is_in(run_data.playing("oracle"))) if models.is_empty() else models
    done = rows.filter(lacking(rows.columns) == 0).group_by("model").agg(pl.col("scenario").n_unique())
    return sorted(done.filter(pl.col("scenario") == rows["scenario"].n_unique())["model"])


def _right(answers: pl.DataFrame, names: Sequence[str]) -> tuple[Floats, Floats]:
    """Right answers (clusters, models) and samples (clusters,) of one scenario, over the samples that all models answered."""
    wide = answers.pivot("model", on_columns=names, index=["sample_id", "cluster"], values="correct").sort("sample_id")
    shared = wide.drop_nulls(list(names))
    right, groups = shared.select(pl.col(names).cast(pl.Float64)).to_numpy(), groups_of(shared)
    if groups is None:
        return right, np.ones(len(right))
    _, place = np.unique(groups, return_inverse=True)
    sums = np.zeros((int(place.max()) + 1, len(names)))
    np.add.at(sums, place, right)
    return sums, np.bincount(place).astype(np.float64)


def _both_ways(pairs: pl.DataFrame) -> pl.DataFrame:
    """Every comparison from both sides: model, other, difference, its bounds, p_holm."""
    one = pairs.select("model", "other", "difference", "difference_low", "difference_high", "p_holm")
    turned = one.select(
        pl.col("other").alias("model"), pl.col("model").alias("other"), -pl.col("difference"),
        (-pl.col("difference_high")).alias("difference_low"), (-pl.col("difference_low")).alias("difference_high"), "p_holm",
    )  # fmt: skip
    return pl.concat([one, turned])


def _ranked(protocol: str, order: _Order, tests: pl.DataFrame) -> list[tuple[object, ...]]:
    names, draws = order.names, order.draws
    best = np.bincount(draws.argmax(axis=1), minlength=len(names)) / len(draws)
    rows: list[tuple[object, ...]] = []
    for place, name in enumerate(names):
        mine = {row["other"]: row for row in tests.filter(model=name).iter_rows(named=True)}
        sure = [row["difference"] for row in mine.values() if significant(row["p_holm"])]
        low, high = 1 + sum(gap < 0 for gap in sure), len(names) - sum(gap > 0 for gap in sure)
        beside: tuple[object, ...] = (None,) * 5
        if place + 1 < len(names):
            other = mine[names[place + 1]]
            above = float((draws[:, place] > draws[:, place + 1]).mean())
            beside = (other["other"], above, other["difference"], other["difference_low"], other["difference_high"])
        average, share = float(order.averages[place]), float(best[place])
        rows.append((name, protocol, average, len(names), place + 1, low, high, share, *beside))
    return rows
