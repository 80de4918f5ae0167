"""Uncertainty of the ranking of models: the chance to be best, the bounds of ranks, the chance to beat the next model.

Only models with complete cells are ranked, over the same samples; equal runs give equal figures. A refused or unprocessable
episode counts as wrong for its model, and the sample stays in the ranking; ``rank_least`` and ``rank_most`` bound the rank
whatever the missing answers would have been. Bounds of ranks come from paired tests, corrected over all pairs: all true ranks
lie in their bounds in 95% of runs (Klein, Wright and Wieczorek 2020, J. R. Stat. Soc. C 69:589-606; Mogstad, Romano, Shaikh and
Wilhelm 2024, Rev. Econ. Stud. 91:476-518). Probabilities come from a Bayesian bootstrap of the samples of each scenario (Rubin
1981, Ann. Stat. 9:130-134), shrunk by the spread between models (``shrink_draws``): if the gaps between models are within the
noise, the first of many models is mostly first by luck.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

from orchestrator.report.measures.missingness import possible_ranks
from orchestrator.report.measures.outcomes import cluster_numbers, outcomes
from orchestrator.report.measures.paired_averages import PAIR_COLUMNS, compare_model_averages
from orchestrator.report.measures.paired_tests import is_significant
from orchestrator.report.run_data import RunData, cached_per_run
from orchestrator.report.scores.metrics import missing_episodes
from orchestrator.report.statistics.intervals import Floats
from sweeps.protocol import ZERO_SHOT

DRAWS = 4_000
FEWEST_FOR_BEST = 4
"""Fewest models for which the probability to be best is shown; with fewer, the prior weighs too much, and the intervals of
pairs say more."""
AT_ONCE = 500
"""Draws computed at once, to bound memory."""
PRIOR = 2.0
"""Prior samples per scenario, on which each model is right half the time and every two models differ half the time: a
uniform prior of accuracy (Beta(1, 1)) that favors no model."""
PATTERNS = 64
"""Answer patterns that share the prior: half of them random, half their complements."""
SPREADS = np.geomspace(0.01, 300, 60)
"""Possible standard deviations between models, in standard errors."""
SCHEMA = {
    **dict.fromkeys(("model", "protocol"), pl.String),
    "average": pl.Float64,
    **dict.fromkeys(("models", "n", "rank", "rank_low", "rank_high"), pl.Int64),
    "p_best": pl.Float64,
    "next": pl.String,
    **dict.fromkeys(("p_beats_next", "difference", "difference_low", "difference_high"), pl.Float64),
    **dict.fromkeys(("rank_least", "rank_most"), pl.Int64),
}


class _Order(NamedTuple):
    """Ranked models, best first."""

    names: list[str]
    averages: Floats
    """Observed averages in percent (models,)."""
    draws: Floats
    """Draws of the true averages in percent (draws, models)."""
    samples: int
    """Samples that all ranked models have, over all scenarios."""


@cached_per_run
def ranking(run_data: RunData, condition: str = ZERO_SHOT) -> pl.DataFrame:
    """Return one row per protocol and model with complete cells, best first; a protocol needs two such models.

    Columns: average over scenarios (percent: accuracy, or the judge's aggregate), models (ranked), n (shared samples), rank,
    rank_low and rank_high (95% for all models together), p_best; next (the model ranked below), p_beats_next, difference (points,
    from the next) with difference_low and difference_high, all null for the last model; rank_least and rank_most (null unless
    more than 1% is missing from a cell). Probabilities are shares.
    """
    pairs = compare_model_averages(run_data, condition, unanswered_as_wrong=True)
    rows = []
    for protocol, order in _ranked_models(run_data, condition).items():
        tests = _both_ways(pairs.filter(protocol=protocol)).filter(pl.col("other").is_in(order.names))
        possible = possible_ranks(run_data, condition, protocol, order.names)
        rows += [(*row, *possible.get(str(row[0]), (None, None))) for row in _ranking_rows(protocol, order, tests)]
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def win_probabilities(run_data: RunData) -> pl.DataFrame:
    """Return p_beats per model x other x protocol: the chance that model's true zero-shot average is above that of other."""
    rows = []
    for protocol, order in _ranked_models(run_data, ZERO_SHOT).items():
        for position, name in enumerate(order.names):
            above = (order.draws[:, [position]] > order.draws).mean(axis=0)
            shares = zip(order.names, above.tolist(), strict=True)
            rows += [(name, opponent, protocol, share) for opponent, share in shares if opponent != name]
    schema = {**dict.fromkeys(PAIR_COLUMNS, pl.String), "p_beats": pl.Float64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def format_probability(share: float) -> str:
    """Return a probability in percent, never as certain."""
    return "> 99%" if share > 0.99 else "< 1%" if share < 0.01 else f"{100 * share:.0f}%"


def posterior_draws(answers: Sequence[tuple[Floats, Floats]], seed: int = 0) -> Floats:
    """Return draws (draws, models) of the models' true averages over scenarios, as shares.

    ``answers`` has one pair per scenario: right answers (clusters, models) and samples (clusters,) of each cluster; an
    independent sample is a cluster of one. Weights of clusters are drawn from the flat Dirichlet distribution, with ``PRIOR``.
    """
    rng, models = np.random.default_rng(seed), answers[0][0].shape[1]
    patterns = rng.random((PATTERNS // 2, models)) < 0.5
    imagined = np.vstack([patterns, ~patterns]).astype(np.float64)
    averages = np.zeros((DRAWS, models))
    for right, sizes in answers:
        unit = sizes.mean()
        for first in range(0, DRAWS, AT_ONCE):
            weights = rng.standard_exponential((AT_ONCE, len(sizes)))
            prior_weights = unit * rng.gamma(PRIOR / PATTERNS, size=(AT_ONCE, PATTERNS))
            totals = weights @ sizes + prior_weights.sum(axis=1)
            averages[first : first + AT_ONCE] += (weights @ right + prior_weights @ imagined) / totals[:, None]
    return averages / len(answers)


def shrink_draws(draws: Floats, seed: int = 0) -> Floats:
    """Return draws (draws, models) of true averages, shrunk towards their mean, from ``draws`` without such a prior.

    True averages are normal around a common mean. Their standard deviation has a half-Cauchy prior with the scale of
    one standard error (Gelman 2006, Bayesian Anal. 1:515-534; van Zwet and Gelman 2022, Bayesian Anal. 17:729-752), so that
    the chance to be best is calibrated for two or twenty models, whether they differ much or hardly at all.
    """
    rng, (number, models) = np.random.default_rng(seed), draws.shape
    variances, axes = np.linalg.eigh(np.cov(draws, rowvar=False))  # along these axes, errors are independent
    variances = np.maximum(variances, np.finfo(float).tiny)
    level, observed = axes.T @ np.ones(models), axes.T @ draws.mean(axis=0)
    error = float(np.sqrt((variances.sum() - variances @ level**2 / models) / (models - 1)))
    marginal = variances + (error * SPREADS[:, None]) ** 2
    precision = (level**2 / marginal).sum(axis=1)
    means = (level * observed / marginal).sum(axis=1) / precision
    residuals = observed - means[:, None] * level
    misfit = np.log(marginal).sum(axis=1) + np.log(precision) + (residuals**2 / marginal).sum(axis=1)
    log_chances = np.log(SPREADS / (1 + SPREADS**2)) - misfit / 2
    chances = np.exp(log_chances - log_chances.max())
    picks = rng.choice(len(SPREADS), number, p=chances / chances.sum())
    mean = (means + rng.standard_normal((number, len(SPREADS))) / np.sqrt(precision))[np.arange(number), picks]
    weight = 1 - variances / marginal[picks]
    centers = mean[:, None] * level + weight * (observed - mean[:, None] * level)
    return np.asarray((centers + np.sqrt(variances * weight) * rng.standard_normal((number, models))) @ axes.T)


@cached_per_run
def _ranked_models(run_data: RunData, condition: str) -> dict[str, _Order]:
    """Return the ranked models of each protocol that has two or more."""
    scored, orders = outcomes(run_data, unanswered_as_wrong=True).filter(condition=condition), {}
    for protocol in scored["protocol"].unique().sort():
        names = _complete_models(run_data, condition, protocol)
        answers = scored.filter(pl.col("model").is_in(names), protocol=protocol)
        scenarios = [_answer_matrix(part, names) for part in answers.partition_by("scenario", maintain_order=True)]
        if len(names) < 2 or not all(len(sizes) for _, sizes in scenarios):
            continue
        averages = 100 * np.mean([right.sum(axis=0) / sizes.sum() for right, sizes in scenarios], axis=0)
        best = sorted(range(len(names)), key=lambda index: (-averages[index], names[index]))
        draws = shrink_draws(100 * posterior_draws(scenarios)[:, best])
        samples = int(sum(sizes.sum() for _, sizes in scenarios))
        orders[protocol] = _Order([names[position] for position in best], averages[best], draws, samples)
    return orders


def _complete_models(run_data: RunData, condition: str, protocol: str) -> list[str]:
    """Return the models (or, if there are none, the baselines except the oracle) with complete cells in all scenarios."""
    cells = run_data.rows.filter(condition=condition, protocol=protocol)
    rows = run_data.models_or_baselines(cells.filter(~pl.col("model").is_in(run_data.models_of_policy("oracle"))))
    done = rows.filter(missing_episodes(rows.columns) == 0).group_by("model").agg(pl.col("scenario").n_unique())
    return sorted(done.filter(pl.col("scenario") == rows["scenario"].n_unique())["model"])


def _answer_matrix(answers: pl.DataFrame, names: Sequence[str]) -> tuple[Floats, Floats]:
    """Return right answers (clusters, models) and samples (clusters,) of one scenario, over samples that all models answered."""
    wide = answers.pivot("model", on_columns=names, index=["sample_id", "cluster"], values="correct").sort("sample_id")
    shared = wide.drop_nulls(list(names))
    right, groups = shared.select(pl.col(names).cast(pl.Float64)).to_numpy(), cluster_numbers(shared)
    if groups is None:
        return right, np.ones(len(right))
    _, indices = np.unique(groups, return_inverse=True)
    sums = np.zeros((int(indices.max()) + 1, len(names)))
    np.add.at(sums, indices, right)
    return sums, np.bincount(indices).astype(np.float64)


def _both_ways(pairs: pl.DataFrame) -> pl.DataFrame:
    """Return every comparison from both sides: model, other, difference, its bounds, p_holm."""
    forward = pairs.select("model", "other", "difference", "difference_low", "difference_high", "p_holm")
    backward = forward.select(
        pl.col("other").alias("model"), pl.col("model").alias("other"), -pl.col("difference"),
        (-pl.col("difference_high")).alias("difference_low"), (-pl.col("difference_low")).alias("difference_high"), "p_holm",
    )  # fmt: skip
    return pl.concat([forward, backward])


def _ranking_rows(protocol: str, order: _Order, tests: pl.DataFrame) -> list[tuple[object, ...]]:
    names, draws = order.names, order.draws
    best = np.bincount(draws.argmax(axis=1), minlength=len(names)) / len(draws)
    rows: list[tuple[object, ...]] = []
    for position, name in enumerate(names):
        tests_by_other = {row["other"]: row for row in tests.filter(model=name).iter_rows(named=True)}
        gaps = [row["difference"] for row in tests_by_other.values() if is_significant(row["p_holm"])]
        low, high = 1 + sum(gap < 0 for gap in gaps), len(names) - sum(gap > 0 for gap in gaps)
        versus_next: tuple[object, ...] = (None,) * 5
        if position + 1 < len(names):
            test = tests_by_other[names[position + 1]]
            above = float((draws[:, position] > draws[:, position + 1]).mean())
            versus_next = (test["other"], above, *(test[f"difference{end}"] for end in ("", "_low", "_high")))
        average, share = float(order.averages[position]), float(best[position])
        counts = (len(names), order.samples, position + 1, low, high)
        rows.append((name, protocol, average, *counts, share, *versus_next))
    return rows
