"""Paired comparisons of conditions, and of models, on the same samples, the two families in which they are corrected, and ranks.

An episode without its partner, or one that ended in an error, is in no pair. Accuracy is tested by McNemar's exact test (1947)
in a cell of independent samples, and by Student's t over clusters, or over scenarios as strata, elsewhere; suggestions by
``skewed_test``. Episodes that end at the turn limit are a share of their own, with an interval and no test.

The primary endpoint is the average accuracy of each model under one condition against zero-shot. Everything else that can have a
star is one exploratory family: accuracy and suggestions, in cells and on average, between conditions and between models.
Baselines are reference points and not hypotheses: their p is null, unless nothing else is planned.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from orchestrator.report.measures.clustering import attach, independent_units, number_groups, outcomes
from orchestrator.report.run_data import RunData, cached_per_run
from orchestrator.report.scores.metrics import missing_episodes
from orchestrator.report.statistics import clustered as stats
from sweeps.protocol import ZERO_SHOT, Protocol
from sweeps.sections import MARGIN
from sweeps.spec import Sweep

SAMPLE_COLUMNS = ("scenario", "protocol", "sample_id")
CELL, PAIR = ["model", "scenario", "condition", "protocol"], ["model", "other", "scenario", "protocol"]
DIFFERENCE = ("difference", "difference_low", "difference_high")
ASKING = ("ps_difference", "ps_low", "ps_high", "ps_p", "loops_difference", "loops_low", "loops_high")
P_COLUMNS = ("p", "ps_p", "equal_p")
RANKS = {
    **dict.fromkeys(("model", "protocol"), pl.String),
    "average": pl.Float64,
    **dict.fromkeys(("models", "n", "rank", "rank_low", "rank_high"), pl.Int64),
}


class Comparisons(NamedTuple):
    """The paired comparisons of a run, as ``compare`` returns them, with the corrected p: p_holm, ps_p_holm, equal_p_holm."""

    conditions: pl.DataFrame
    """One row per model x scenario x condition x protocol, against zero-shot."""
    condition_averages: pl.DataFrame
    """One row per model x condition x protocol; ``endpoint`` is primary or exploratory."""
    models: pl.DataFrame
    """One row per model x other x scenario x protocol under zero-shot, model minus other; ``model`` comes first by name."""
    model_averages: pl.DataFrame


def equality_margin(sweep: Sweep) -> float:
    """Return the points of accuracy within which a sweep calls two means equal."""
    return sweep.evidence.margin if sweep.evidence else MARGIN


@cached_per_run
def comparisons(run_data: RunData) -> Comparisons:
    """Compare every other condition with zero-shot and every two models, and correct all their p."""
    scored = outcomes(run_data)
    base = scored.filter(condition=ZERO_SHOT).drop("condition", "cluster")
    pairs = scored.filter(pl.col("condition") != ZERO_SHOT).join(base, on=["model", *SAMPLE_COLUMNS], suffix="_other")
    conditions, averages = compare(tally_pairs(pairs.lazy(), CELL), CELL, equality_margin(run_data.sweep))
    primary = pl.when(pl.col("condition") == primary_condition(run_data.sweep)).then(pl.lit("primary"))
    averages = averages.with_columns(primary.otherwise(pl.lit("exploratory")).alias("endpoint"))
    frames = [conditions, averages, *compare_models(run_data)]
    tested = set(run_data.models_or_baselines(run_data.planned)["model"])
    return Comparisons(*correct_together(frames, tested, count_tests(run_data)))


@cached_per_run
def compare_models(run_data: RunData, unanswered_as_wrong: bool = False) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Compare every two models under zero-shot (``compare``)."""
    scored = outcomes(run_data, unanswered_as_wrong)
    if unanswered_as_wrong and scored.height == outcomes(run_data).height:
        return compare_models(run_data)
    own = scored.lazy().filter(pl.col("condition") == ZERO_SHOT).drop("condition")
    pairs = tally_pairs(pair_models(own, list(SAMPLE_COLUMNS)), PAIR)
    return compare(pairs, PAIR, equality_margin(run_data.sweep))


def pair_models(rows: pl.LazyFrame, same: list[str]) -> pl.LazyFrame:
    """Return every pair of models once, the first by name as ``model``."""
    pairs = rows.join(rows.rename({"model": "other"}), on=same, suffix="_other")
    return pairs.filter(pl.col("model") < pl.col("other"))


def tally_pairs(pairs: pl.LazyFrame, names: Sequence[str]) -> pl.DataFrame:
    """Count equal pairs, to save memory: columns ``names``, correct, correct_other, steps, loops, cluster, count.

    ``steps`` is turns minus turns_other, ``loops`` the difference of endings at the turn limit.
    """
    looped, looped_other = (pl.col(name).cast(pl.Int64) for name in ("looped", "looped_other"))
    steps, loops = (pl.col("turns") - pl.col("turns_other")).alias("steps"), (looped - looped_other).alias("loops")
    tallies = pairs.group_by(*names, "correct", "correct_other", steps, loops, "cluster").len("count")
    return tallies.with_columns(pl.col("count").cast(pl.Int64)).collect(engine="streaming")


def compare(pairs: pl.DataFrame, names: Sequence[str], margin: float = MARGIN) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return one row per comparison of tallied pairs by ``names``, one of which is scenario, and their averages over scenarios.

    Columns of cells: n (pairs), acc and acc_other (percent; for open-ended answers the judge's aggregate), gained and lost
    (discordant pairs), difference (points), ps_difference (suggestions) and loops_difference (points of episodes that end at the
    turn limit) with their 95% intervals; p, ps_p, and equal_p (of a difference outside ``margin`` points). Those of suggestions
    and loops are null for open-ended answers. Averages have scenarios, n, and the differences and p.
    """
    groups = [name for name in names if name != "scenario"]
    rest = [name for name in pairs.columns if name not in names]  # sums of floats depend on their order
    pairs = pairs.sort(*groups, "scenario", *rest)
    owners, cells = number_groups(pairs, [*groups, "scenario"])
    strata, averages = number_groups(cells, groups)
    units = independent_units(pairs, owners, cells.height)
    first, second = (pairs[name].cast(pl.Int64).to_numpy() for name in ("correct", "correct_other"))
    gained, lost = (units.sum(side).astype(np.int64) for side in (first > second, first < second))
    steps, loops = (pairs[name].cast(pl.Float64).fill_null(np.nan).to_numpy() for name in ("steps", "loops"))
    means = units.means(100 * (first - second), 100), units.means(steps), units.means(100 * loops, 100)
    exact = np.where(units.is_independent, stats.mcnemar(gained, lost), np.nan)
    only = np.where(np.bincount(strata) == 1, np.bincount(strata, exact), np.nan)
    acc, acc_other = (100 * units.sum(side) / units.total for side in (first, second))
    counts = {"n": units.total.astype(np.int64), "acc": acc, "acc_other": acc_other}
    measured = _measure(means, exact, margin)
    changes = {name: measured.pop(name) for name in DIFFERENCE}
    columns = {**counts, **changes, "gained": gained, "lost": lost, **measured}
    n = {"scenarios": np.bincount(strata), "n": np.bincount(strata, units.total).astype(np.int64)}
    mean_columns = n | _measure([stats.average_strata(mean, strata) for mean in means], only, margin)
    return attach(cells.select(names), columns).sort(names), attach(averages, mean_columns)


@stats.unknown_is_nan
def _measure(means: Sequence[stats.Mean], exact: stats.Floats, margin: float) -> dict[str, stats.Floats]:
    """Return the differences and p of accuracy, suggestions and loops; ``exact`` is McNemar's p, NaN where it does not hold."""
    right, suggestions, loops = means
    value, low, high = stats.t_interval(right, -100, 100)
    p = stats.t_test(right)
    p = np.where(np.isnan(p), p, np.fmax(p, exact))
    includes_zero = ~np.isnan(exact) & (p >= stats.ALPHA)
    low, high = (np.where(includes_zero, cut(end, 0.0), end) for cut, end in ((np.minimum, low), (np.maximum, high)))
    tests = {"p": p, "equal_p": stats.equivalence_test(right, margin)}
    *asking, ps_p = stats.skewed_test(suggestions)
    asking += np.where(np.isnan(suggestions.value), np.nan, ps_p), *stats.t_interval(loops, -100, 100)
    return dict(zip((*DIFFERENCE, *tests, *ASKING), (value, low, high, *tests.values(), *asking), strict=True))


def is_significant(p: float | None) -> bool:
    """Return True if a corrected p is below alpha; None, of a comparison outside the family, is not significant."""
    return p is not None and p < stats.ALPHA


def primary_condition(sweep: Sweep) -> str:
    """Return the condition of the primary endpoint: the sweep's own choice, else hint, else the first but zero-shot."""
    if sweep.evidence and sweep.evidence.primary:
        return sweep.evidence.primary
    names = [condition.name for condition in sweep.conditions if condition.name != ZERO_SHOT]
    return "hint" if "hint" in names else next(iter(names), "")


def count_tests(run_data: RunData) -> int:
    """Return the number of exploratory tests that the plan declares, whether they have data yet or not."""
    cells = run_data.models_or_baselines(run_data.planned).select(CELL)
    base, others = cells.filter(condition=ZERO_SHOT), cells.filter(pl.col("condition") != ZERO_SHOT)
    changes = others.join(base, on=["model", "scenario", "protocol"], how="semi")
    pairs = pair_models(base.lazy(), ["scenario", "protocol"]).collect()
    averages = changes.select("model", "condition", "protocol").unique()
    frames = (changes, averages, pairs, pairs.select("model", "other", "protocol").unique())
    primary = averages.filter(condition=primary_condition(run_data.sweep)).height
    return sum(2 * frame.height - frame.filter(protocol=Protocol.OEG.value).height for frame in frames) - primary


def correct_together(frames: Sequence[pl.DataFrame], tested: set[str], declared: int = 0) -> list[pl.DataFrame]:
    """Return the frames with p of ``tested`` models corrected (Holm 1979), and null p of others.

    Rows with ``endpoint`` primary are a family of their own in accuracy. The exploratory family has ``declared`` tests, or as
    many as there are p if that is more. Tests of equivalence are corrected apart, over all rows.
    """
    tables, families = list[stats.Floats](), list[Any]()
    for frame in frames:
        sides = pl.col([name for name in ("model", "other") if name in frame.columns])
        is_tested = pl.when(pl.all_horizontal(sides.is_in(list(tested))))
        tables.append(frame.select(is_tested.then(pl.col(P_COLUMNS)).name.keep()).to_numpy().astype(np.float64))
        families.append(np.tile(["exploratory", "exploratory", "equal"], (frame.height, 1)))
        if "endpoint" in frame.columns:
            families[-1][(frame["endpoint"] == "primary").to_numpy(), 0] = "primary"
    p, family = np.concatenate(tables).ravel(), np.concatenate(families).ravel()
    adjusted = p.copy()
    for name in ("exploratory", "primary", "equal"):
        chosen = (family == name) & ~np.isnan(p)
        adjusted[chosen] = stats.holm(p[chosen], declared if name == "exploratory" else 0)
    ends = np.cumsum([frame.height for frame in frames])[:-1]
    names = [f"{name}{end}" for end in ("", "_holm") for name in P_COLUMNS]
    both = np.split(np.hstack([p.reshape(-1, 3), adjusted.reshape(-1, 3)]), ends)
    columns = (pl.DataFrame(part, names, orient="row", nan_to_null=True).get_columns() for part in both)
    return [frame.with_columns(own) for frame, own in zip(frames, columns, strict=True)]


# -- ranks -------------------------------------------------------------------------------------------------------------
def rank_bounds(names: Sequence[str], tests: pl.DataFrame) -> dict[str, tuple[int, int]]:
    """Return the ranks of each model that tests (model, other, difference, p) do not exclude, corrected over all pairs."""
    better, worse = dict.fromkeys(names, 0), dict.fromkeys(names, 0)
    tests = tests.select("model", "other", "difference", p=stats.holm(tests["p"].to_numpy()))
    for first, second, difference, p in tests.iter_rows():
        if is_significant(p):
            above, below = (first, second) if difference > 0 else (second, first)
            worse[above] += 1
            better[below] += 1
    return {name: (1 + better[name], len(names) - worse[name]) for name in names}


@cached_per_run
def ranking(run_data: RunData) -> pl.DataFrame:
    """Return one row per protocol and model with complete cells under zero-shot, best first; a protocol needs two such models.

    A refused or unprocessable episode counts as wrong for its model, and its sample stays in the ranking. The scenarios are
    fixed, the samples are not: all true ranks lie in their bounds in 95% of runs, by tests that are corrected over all pairs
    (Klein, Wright and Wieczorek 2020, J. R. Stat. Soc. C 69:589-606). Columns: average over scenarios (percent: accuracy, or
    the judge's aggregate), models (ranked), n (shared samples), rank, rank_low and rank_high (95% for all models together).
    """
    _, tests = compare_models(run_data, unanswered_as_wrong=True)
    tests = tests.with_columns(pl.col("p").fill_null(1.0))
    scored, rows = outcomes(run_data, unanswered_as_wrong=True).filter(condition=ZERO_SHOT), []
    for protocol in scored["protocol"].unique().sort():
        names = _complete_models(run_data, protocol)
        averages, samples = _shared_averages(scored.filter(protocol=protocol), names)
        if len(averages) < 2:
            continue
        own = tests.filter(pl.col("model").is_in(names) & pl.col("other").is_in(names), protocol=protocol)
        bounds = rank_bounds(names, own)
        for rank, name in enumerate(sorted(names, key=lambda name: (-averages[name], name)), 1):
            rows.append((name, protocol, averages[name], len(names), samples, rank, *bounds[name]))
    return pl.DataFrame(rows, schema=RANKS, orient="row")


def _complete_models(run_data: RunData, protocol: str) -> list[str]:
    """Return the models (or, if there are none, the baselines except the oracle) with complete cells in all scenarios."""
    cells = run_data.rows.filter(condition=ZERO_SHOT, protocol=protocol)
    rows = run_data.models_or_baselines(cells.filter(~pl.col("model").is_in(run_data.models_of_policy("oracle"))))
    done = rows.filter(missing_episodes(rows.columns) == 0).group_by("model").agg(pl.col("scenario").n_unique())
    return sorted(done.filter(pl.col("scenario") == rows["scenario"].n_unique())["model"])


def _shared_averages(scored: pl.DataFrame, names: Sequence[str]) -> tuple[dict[str, float], int]:
    """Return each model's average over scenarios on the samples that all models answered, and the number of those samples."""
    rows, sample = scored.filter(pl.col("model").is_in(list(names))), ["scenario", "sample_id"]
    shared = rows.filter(pl.len().over(sample) == len(names))
    if shared["scenario"].n_unique() < rows["scenario"].n_unique():
        return {}, 0
    percent = (100 * pl.col("correct").mean()).alias("correct")
    means = shared.group_by("model", "scenario").agg(percent).sort("model", "scenario")
    averages = dict(means.group_by("model", maintain_order=True).agg(pl.col("correct").mean()).iter_rows())
    return averages, shared.select(sample).n_unique()
