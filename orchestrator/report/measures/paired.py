"""Paired comparisons of conditions, and of models, on the same samples, and the two families in which they are corrected.

An episode without its partner, or one that ended in an error, is in no pair. Accuracy is tested by McNemar's exact test (1947)
in a cell of independent samples, and by Student's t over clusters, or over scenarios as strata, elsewhere; suggestions by
``skewed_test``. Episodes that end at the turn limit are a share of their own, with an interval and no test.

The primary endpoint is the average accuracy of each model under one condition against zero-shot. Everything else that can have a
star is one exploratory family: accuracy and suggestions, in cells and on average, between conditions and between models.
Baselines are reference points and not hypotheses: their p is null, unless nothing else is planned.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from orchestrator.report.measures.clustering import cluster_numbers, outcomes
from orchestrator.report.run_data import RunData, cached_per_run
from orchestrator.report.statistics.clustered import (
    Floats,
    Mean,
    average_means,
    equivalence_test,
    estimate_mean,
    skewed_test,
    t_interval,
    t_test,
)
from orchestrator.report.statistics.exact_tests import ALPHA, holm, mcnemar
from sweeps.protocol import ZERO_SHOT, Protocol
from sweeps.sections import MARGIN
from sweeps.spec import Sweep

SAMPLE_COLUMNS = ("scenario", "protocol", "sample_id")
CELL, PAIR = ["model", "scenario", "condition", "protocol"], ["model", "other", "scenario", "protocol"]
DIFFERENCE = ("difference", "difference_low", "difference_high")
ASKING = ("ps_difference", "ps_low", "ps_high", "ps_p", "loops_difference", "loops_low", "loops_high")
P_COLUMNS = ("p", "ps_p", "equal_p")


class PairedDifferences(NamedTuple):
    """The mean differences of the pairs of one scenario: first minus other."""

    counts: dict[str, float]
    """n (pairs), acc and acc_other (percent), gained and lost (discordant pairs)."""
    right: Mean
    """Of accuracy, in points."""
    suggestions: Mean | None
    """None for open-ended answers."""
    loops: Mean | None
    """Of endings at the turn limit, in points."""
    exact_p: float | None
    """McNemar's p; None where samples are clustered."""


class Comparisons(NamedTuple):
    """The paired comparisons of a run, as ``compare`` returns them, with the corrected p: p_holm, ps_p_holm, equal_p_holm."""

    conditions: pl.DataFrame
    """One row per model x scenario x condition x protocol, against zero-shot."""
    condition_averages: pl.DataFrame
    """One row per model x condition x protocol; ``endpoint`` is primary or exploratory."""
    models: pl.DataFrame
    """One row per model x other x scenario x protocol under zero-shot, model minus other; ``model`` comes first by name."""
    model_averages: pl.DataFrame


@cached_per_run
def comparisons(run_data: RunData) -> Comparisons:
    """Compare conditions and models, and correct all their p."""
    margin = run_data.sweep.evidence.margin if run_data.sweep.evidence else MARGIN
    conditions, averages = compare(condition_pairs(run_data), CELL, margin)
    primary = pl.when(pl.col("condition") == primary_condition(run_data.sweep)).then(pl.lit("primary"))
    averages = averages.with_columns(primary.otherwise(pl.lit("exploratory")).alias("endpoint"))
    frames = [conditions, averages, *compare(model_pairs(run_data, ZERO_SHOT), PAIR, margin)]
    tested = set(run_data.models_or_baselines(run_data.planned)["model"])
    return Comparisons(*correct_together(frames, tested, count_tests(run_data)))


def condition_pairs(run_data: RunData) -> pl.DataFrame:
    """Return tallied pairs of every other condition with zero-shot (``tally_pairs``)."""
    scored = outcomes(run_data)
    base = scored.filter(condition=ZERO_SHOT).drop("condition", "cluster")
    pairs = scored.filter(pl.col("condition") != ZERO_SHOT).join(base, on=["model", *SAMPLE_COLUMNS], suffix="_other")
    return tally_pairs(pairs.lazy(), CELL)


def model_pairs(run_data: RunData, condition: str, unanswered_as_wrong: bool = False) -> pl.DataFrame:
    """Return tallied pairs of every two models under one condition (``tally_pairs``)."""
    scored = outcomes(run_data, unanswered_as_wrong).lazy().filter(pl.col("condition") == condition).drop("condition")
    return tally_pairs(pair_models(scored, list(SAMPLE_COLUMNS)), PAIR)


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
    cells, averages = list[dict[str, Any]](), list[dict[str, Any]]()
    for group, rows in pairs.sort(*groups, "scenario", *rest).group_by(groups, maintain_order=True):
        key, parts = dict(zip(groups, group, strict=True)), list[PairedDifferences]()
        for (scenario,), part in rows.group_by(["scenario"], maintain_order=True):
            parts.append(scenario_differences(part))
            cells.append({**key, "scenario": scenario, **parts[-1].counts, **_measure(parts[-1:], margin)})
        counts = {"scenarios": len(parts), "n": sum(part.counts["n"] for part in parts)}
        averages.append({**key, **counts, **_measure(parts, margin)})
    floats, texts = dict.fromkeys((*DIFFERENCE, "p", "equal_p", *ASKING), pl.Float64), dict.fromkeys(names, pl.String)
    in_cells = {"n": pl.Int64, "acc": pl.Float64, "acc_other": pl.Float64, **dict.fromkeys(DIFFERENCE, pl.Float64)}
    cell_schema = {**texts, **in_cells, "gained": pl.Int64, "lost": pl.Int64, **floats}
    schema = {**dict.fromkeys(groups, pl.String), "scenarios": pl.Int64, "n": pl.Int64, **floats}
    return pl.DataFrame(cells, schema=cell_schema).sort(names), pl.DataFrame(averages, schema=schema)


def scenario_differences(pairs: pl.DataFrame) -> PairedDifferences:
    """Return the differences of tallied pairs of one scenario."""
    first, second = (pairs[name].cast(pl.Int64).to_numpy() for name in ("correct", "correct_other"))
    gains, counts, groups = first - second, pairs["count"].to_numpy(), cluster_numbers(pairs)
    n, gained, lost = int(counts.sum()), int(counts[gains > 0].sum()), int(counts[gains < 0].sum())
    shares = {"acc": 100 * int(counts @ first) / n, "acc_other": 100 * int(counts @ second) / n}
    exact = None if groups is not None else float(mcnemar(np.array(gained), np.array(lost)))
    suggestions = loops = None
    if not pairs["steps"].null_count():
        suggestions = estimate_mean(pairs["steps"].to_numpy(), groups, counts)
        loops = estimate_mean(100 * pairs["loops"].to_numpy(), groups, counts, unit=100)
    right = estimate_mean(100 * gains, groups, counts, unit=100)
    return PairedDifferences({"n": n, **shares, "gained": gained, "lost": lost}, right, suggestions, loops, exact)


def _measure(parts: Sequence[PairedDifferences], margin: float) -> dict[str, float | None]:
    """Return the differences and p of the average over strata; the exact test is that of a single stratum."""
    right = average_means([part.right for part in parts])
    value, low, high = t_interval(right, -100, 100)
    p, exact = t_test(right), parts[0].exact_p if len(parts) == 1 else None
    if exact is not None and not np.isnan(p):
        p = max(p, exact)
        low, high = (min(low, 0.0), max(high, 0.0)) if p >= ALPHA else (low, high)
    tests = {"p": p, "equal_p": equivalence_test(right, margin)}
    measured = dict(zip(DIFFERENCE, (value, low, high), strict=True)) | tests
    asking = [(part.suggestions, part.loops) for part in parts if part.suggestions and part.loops]
    if asking:
        suggestions, loops = (average_means(means) for means in zip(*asking, strict=True))
        measured |= dict(zip(ASKING, (*skewed_test(suggestions), *t_interval(loops, -100, 100)), strict=True))
    return {name: None if np.isnan(figure) else figure for name, figure in measured.items()}


def is_significant(p: float | None) -> bool:
    """Return True if a corrected p is below alpha; None, of a comparison outside the family, is not significant."""
    return p is not None and p < ALPHA


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
    tables, families = list[Floats](), list[Any]()
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
        adjusted[chosen] = holm(p[chosen], declared if name == "exploratory" else 0)
    ends = np.cumsum([frame.height for frame in frames])[:-1]
    return [
        frame.with_columns(
            pl.Series(f"{name}{end}", column, nan_to_null=True)
            for end, table in (("", before), ("_holm", after))
            for name, column in zip(P_COLUMNS, table.T, strict=True)
        )
        for frame, before, after in zip(frames, tables, np.split(adjusted.reshape(-1, 3), ends), strict=True)
    ]


def rank_bounds(names: Sequence[str], tests: Iterable[tuple[str, str, float, float]]) -> dict[str, tuple[int, int]]:
    """Return the ranks of each model that tests do not exclude: (first, second, difference, p), corrected over all pairs."""
    pairs = list(tests)
    better, worse = dict.fromkeys(names, 0), dict.fromkeys(names, 0)
    for (first, second, difference, _), p in zip(pairs, holm(np.array([p for *_, p in pairs])).tolist(), strict=True):
        if is_significant(p):
            above, below = (first, second) if difference > 0 else (second, first)
            worse[above] += 1
            better[below] += 1
    return {name: (1 + better[name], len(names) - worse[name]) for name in names}
