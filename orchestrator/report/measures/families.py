"""The tests of a run and the two families in which they are corrected (Holm 1979).

The primary endpoint is the average accuracy of each model under one condition against zero-shot. Everything else that can have a
star is one exploratory family: accuracy and suggestions, in cells and on average, between conditions and between models.
Baselines are reference points and not hypotheses: their p is null, unless nothing else is planned.
"""

from collections.abc import Sequence
from typing import NamedTuple

import polars as pl

from orchestrator.report.measures.paired_tests import (
    compare_averages,
    compare_pairs,
    condition_pairs,
    model_pairs,
    pair_models,
)
from orchestrator.report.run_data import RunData, cached_per_run
from orchestrator.report.statistics.exact_tests import holm
from sweeps.protocol import ZERO_SHOT, Protocol
from sweeps.sections import MARGIN
from sweeps.spec import Sweep

HINT = "hint"
P_COLUMNS = ("p", "ps_p", "equal_p")


class Comparisons(NamedTuple):
    """The paired comparisons of a run: columns of ``compare_pairs`` or ``compare_averages``, and the corrected p.

    These are p_holm, ps_p_holm and equal_p_holm.
    """

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
    pairs, versus = condition_pairs(run_data), model_pairs(run_data, ZERO_SHOT)
    cell, pair = ["model", "scenario", "condition", "protocol"], ["model", "other", "scenario", "protocol"]
    averages = compare_averages(pairs, [name for name in cell if name != "scenario"], margin)
    primary = pl.when(pl.col("condition") == primary_condition(run_data.sweep)).then(pl.lit("primary"))
    averages = averages.with_columns(primary.otherwise(pl.lit("exploratory")).alias("endpoint"))
    frames = [
        compare_pairs(pairs, cell, margin),
        averages,
        compare_pairs(versus, pair, margin),
        compare_averages(versus, [name for name in pair if name != "scenario"], margin),
    ]
    tested = set(run_data.models_or_baselines(run_data.planned)["model"])
    return Comparisons(*correct_together(frames, tested, count_tests(run_data)))


def primary_condition(sweep: Sweep) -> str:
    """Return the condition of the primary endpoint: the sweep's own choice, else hint, else the first but zero-shot."""
    if sweep.evidence and sweep.evidence.primary:
        return sweep.evidence.primary
    names = [condition.name for condition in sweep.conditions if condition.name != ZERO_SHOT]
    return HINT if HINT in names else next(iter(names), "")


def declared_changes(cells: pl.DataFrame) -> pl.DataFrame:
    """Return the planned cells of other conditions than zero-shot that have a zero-shot cell to compare with."""
    base, others = cells.filter(condition=ZERO_SHOT), cells.filter(pl.col("condition") != ZERO_SHOT)
    return others.join(base, on=["model", "scenario", "protocol"], how="semi")


def count_tests(run_data: RunData) -> int:
    """Return the number of exploratory tests that the plan declares, whether they have data yet or not."""
    cells = run_data.models_or_baselines(run_data.planned).select("model", "scenario", "condition", "protocol")
    changes = declared_changes(cells)
    pairs = pair_models(cells.filter(condition=ZERO_SHOT).lazy(), ["scenario", "protocol"]).collect()
    averages = changes.select("model", "condition", "protocol").unique()
    frames = (changes, averages, pairs, pairs.select("model", "other", "protocol").unique())
    primary = averages.filter(condition=primary_condition(run_data.sweep)).height
    return sum(2 * frame.height - frame.filter(protocol=Protocol.OEG.value).height for frame in frames) - primary


def correct_together(frames: Sequence[pl.DataFrame], tested: set[str], declared: int = 0) -> list[pl.DataFrame]:
    """Return the frames with p of ``tested`` models corrected, and null p of others.

    Rows with ``endpoint`` primary are a family of their own in accuracy. The exploratory family has ``declared`` tests, or as
    many as there are p if that is more. Tests of equivalence are corrected apart, over all rows.
    """
    rows = pl.concat(
        [frame.with_columns(pl.lit(number).alias("_frame")) for number, frame in enumerate(frames)], how="diagonal"
    ).with_row_index("_row")
    sides = [name for name in ("model", "other") if name in rows.columns]
    is_tested = pl.all_horizontal(pl.col(name).is_in(list(tested)).fill_null(True) for name in sides)
    rows = rows.with_columns(pl.when(is_tested).then(pl.col(P_COLUMNS)).name.keep())
    primary = pl.col("endpoint").eq("primary").fill_null(False) if "endpoint" in rows.columns else pl.lit(False)
    tests = rows.select("_row", "p", "ps_p", "equal_p", primary.alias("primary"))
    long = pl.concat(
        [tests.select("_row", pl.lit(name).alias("name"), pl.col(name).alias("p"), "primary") for name in P_COLUMNS]
    ).drop_nulls("p")
    alone = (pl.col("name") == "p") & pl.col("primary")
    equal = pl.col("name") == "equal_p"
    families = [(long.filter(alone), 0), (long.filter(~alone & ~equal), declared), (long.filter(equal), 0)]
    corrected = pl.concat(
        [part.with_columns(pl.Series("holm", holm(part["p"].to_numpy(), size), pl.Float64)) for part, size in families]
    )
    for name in P_COLUMNS:
        columns = corrected.filter(name=name).select("_row", pl.col("holm").alias(f"{name}_holm"))
        rows = rows.join(columns, on="_row", how="left", maintain_order="left")
    added = [f"{name}_holm" for name in P_COLUMNS]
    return [rows.filter(_frame=number).select(*frame.columns, *added) for number, frame in enumerate(frames)]
