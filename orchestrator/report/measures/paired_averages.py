"""Average paired differences: of a model over scenarios, and of a condition over models and scenarios as random samples."""

from collections.abc import Sequence
from itertools import groupby

import polars as pl

from orchestrator.report.measures.estimates import suggestion_limits
from orchestrator.report.measures.families import correct_families, evidence_settings, holm_columns
from orchestrator.report.measures.paired_tests import (
    ASKING_COLUMNS,
    SuggestionLimits,
    asking_columns,
    compare_conditions,
    condition_pairs,
    model_pairs,
    paired_differences,
)
from orchestrator.report.run_data import RunData, cached_per_run
from orchestrator.report.statistics.exact_tests import holm
from orchestrator.report.statistics.intervals import Stratum, estimate_mean, score_tests
from orchestrator.report.statistics.means import crossed_mean
from sweeps.protocol import ZERO_SHOT
from sweeps.sections import MARGIN

PAIR_COLUMNS = ["model", "other", "protocol"]
"""Columns that name a pair of models."""
MEASURED = ("difference", "difference_low", "difference_high", "p", "equal_p", *ASKING_COLUMNS)


@cached_per_run
def compare_condition_averages(run_data: RunData) -> pl.DataFrame:
    """Compare averages of every other condition with zero-shot: one row per model x condition x protocol.

    Columns: scenarios and n (pairs) in the difference; difference of accuracy (points) and ps_difference (suggestions),
    each with its 95% interval, p and corrected p; equal_p (of a difference outside the margin); endpoint (primary, exploratory,
    or null where the sweep declares none); loops_difference (points of episodes that end at the turn limit) with its
    interval. For baselines, corrected p are null unless only they are planned; for open-ended answers, ps and loops are null.
    """
    pairs, family = condition_pairs(run_data)
    names, evidence = ["model", "condition", "protocol"], run_data.sweep.evidence
    averages = compare_averages(suggestion_limits(run_data), pairs, family, names, *evidence_settings(run_data))
    is_primary = pl.col("condition") == (evidence.primary if evidence else "")
    if (primary_rows := averages.filter(is_primary)).is_empty():
        return averages.with_columns(pl.lit(None, pl.String).alias("endpoint"))
    primary_rows = primary_rows.with_columns(_correct_alone(primary_rows, family, names))
    rest = averages.filter(~is_primary).with_columns(pl.lit("exploratory").alias("endpoint"))
    return pl.concat([primary_rows.with_columns(pl.lit("primary").alias("endpoint")), rest]).sort(names)


@cached_per_run
def compare_model_averages(
    run_data: RunData, condition: str = ZERO_SHOT, unanswered_as_wrong: bool = False
) -> pl.DataFrame:
    """Compare averages of every two models under one condition: one row per model x other x protocol, model minus other.

    ``unanswered_as_wrong`` counts refused and unprocessable episodes as wrong; ps and loops are null for models with any.
    """
    pairs, family = model_pairs(run_data, condition, unanswered_as_wrong)
    margin, tests = evidence_settings(run_data)
    number = 0 if unanswered_as_wrong else tests  # the tests behind ranks are a family of their own
    return compare_averages(suggestion_limits(run_data), pairs, family, PAIR_COLUMNS, margin, number)


def _correct_alone(rows: pl.DataFrame, family: pl.DataFrame, names: Sequence[str]) -> list[pl.Series]:
    """Return p of accuracy, corrected over the models of the primary endpoint alone; null for baselines."""
    own = family.join(rows, on=list(names), how="semi").select(names).unique()
    alone = correct_families(rows.drop("p_holm", "ps_p_holm", "equal_p_holm"), names, own, holm_columns)
    return [alone["p_holm"], alone["equal_p_holm"]]


def compare_averages(
    limits: SuggestionLimits,
    pairs: pl.DataFrame,
    family: pl.DataFrame,
    names: Sequence[str],
    margin: float = MARGIN,
    tests: int = 0,
) -> pl.DataFrame:
    """Return one row per comparison of tallied pairs by ``names``; the columns are those of ``compare_condition_averages``."""

    def test(strata: Sequence[Stratum]) -> tuple[float, ...]:
        return score_tests(strata, margin)

    rows = []
    for group, parts in groupby(paired_differences(pairs, [*names, "scenario"], limits), key=lambda part: part[0][:-1]):
        scenarios = [paired for _, paired in parts]
        asking = asking_columns([paired.asking for paired in scenarios if paired.asking is not None])
        accuracy = estimate_mean([paired.right for paired in scenarios], test)
        rows.append((*group, len(scenarios), sum(paired.n for paired in scenarios), *accuracy, *asking))
    counts = {"scenarios": pl.Int64, "n": pl.Int64}
    schema = {**dict.fromkeys(names, pl.String), **counts, **dict.fromkeys(MEASURED, pl.Float64)}
    averages = pl.DataFrame(rows, schema=schema, orient="row")
    return correct_families(averages, names, family.select(names).unique(), holm_columns, tests)


SCHEMA = {
    **dict.fromkeys(("condition", "protocol"), pl.String),
    **dict.fromkeys(("models", "scenarios", "left_out"), pl.Int64),
    **dict.fromkeys(
        ("difference", "difference_low", "difference_high", "p", "between_models", "between_scenarios", "rest"),
        pl.Float64,
    ),
}


@cached_per_run
def condition_effects(run_data: RunData) -> pl.DataFrame:
    """Return one row per condition with at least three models and three scenarios: the mean change against zero-shot.

    Columns: condition, protocol, models, scenarios, left_out (models that lack one of the scenarios), difference (points, on
    the same samples) with its 95% interval and p, then standard deviations: between_models, between_scenarios, and rest (what
    neither explains, sampling error included); p_holm over the conditions of a protocol. Baselines are left out.
    """
    changes = compare_conditions(run_data).filter(~pl.col("model").is_in(list(run_data.baselines)))
    rows = []
    for (condition, protocol), part in changes.group_by("condition", "protocol", maintain_order=True):
        scenarios, models = part["scenario"].n_unique(), part["model"].n_unique()
        full = part.filter(pl.len().over("model") == scenarios).sort("model", "scenario")
        mean = crossed_mean(full["difference"].to_numpy().reshape(-1, scenarios)) if full.height else None
        if mean is not None:
            number = full["model"].n_unique()
            rows.append((condition, protocol, number, scenarios, models - number, *mean))
    effects = pl.DataFrame(rows, schema=SCHEMA, orient="row")
    corrected = [
        part.with_columns(pl.Series("p_holm", holm(part["p"].to_numpy(), part.height), dtype=pl.Float64))
        for part in effects.partition_by("protocol", maintain_order=True)
    ]
    return pl.concat(corrected) if corrected else effects.with_columns(pl.lit(None, pl.Float64).alias("p_holm"))
