"""Families of tests that are corrected together (Holm 1979), and the settings of ``[evidence]`` that define them."""

from collections.abc import Callable, Sequence

import polars as pl

from orchestrator.report.run_data import RunData
from orchestrator.report.statistics.exact_tests import holm
from sweeps.protocol import ZERO_SHOT
from sweeps.sections import MARGIN


def evidence_settings(run_data: RunData) -> tuple[float, int]:
    """Return the margin of equivalence, and the number of exploratory tests (0 without a primary endpoint).

    All tests of accuracy and of suggestions except the primary endpoint are one family: those of cells and of averages, between
    conditions and between models.
    """
    evidence = run_data.sweep.evidence
    if evidence is None or not evidence.primary:
        return (MARGIN if evidence is None else evidence.margin), 0
    cells = run_data.models_or_baselines(run_data.planned).select("model", "scenario", "condition", "protocol")
    changes = declared_changes(cells)
    pairs = pair_models(cells.filter(condition=ZERO_SHOT).lazy(), ["scenario", "protocol"]).collect()
    averages = changes.select("model", "condition", "protocol").unique()
    primary = averages.filter(condition=evidence.primary).height
    model_averages = pairs.select("model", "other", "protocol").n_unique()
    return evidence.margin, 2 * (changes.height + averages.height + pairs.height + model_averages) - primary


def declared_changes(cells: pl.DataFrame) -> pl.DataFrame:
    """Return the planned cells of other conditions than zero-shot that have a zero-shot cell to compare with."""
    base, others = cells.filter(condition=ZERO_SHOT), cells.filter(pl.col("condition") != ZERO_SHOT)
    return others.join(base, on=["model", "scenario", "protocol"], how="semi")


def pair_models(rows: pl.LazyFrame, same: list[str]) -> pl.LazyFrame:
    """Return every pair of models once, the first by name as ``model``."""
    pairs = rows.join(rows.rename({"model": "other"}), on=same, suffix="_other")
    return pairs.filter(pl.col("model") < pl.col("other"))


def correct_families(
    rows: pl.DataFrame,
    names: Sequence[str],
    family: pl.DataFrame,
    corrected: Callable[[pl.DataFrame, int], list[pl.Series]],
    number: int = 0,
) -> pl.DataFrame:
    """Add the columns that ``corrected`` returns for the tests of a protocol and their family's size; null outside ``family``.

    The size is ``number``, which includes the tests of other tables, or if that is 0, the rows of the protocol in ``family``.
    """
    tests = rows.join(family, on=list(names), how="semi", maintain_order="left")
    sizes = dict(family.group_by("protocol").len().iter_rows())
    parts = tests.partition_by("protocol") or [tests]
    columns = [
        part.select(names).with_columns(corrected(part, number or sizes.get(part["protocol"].first(), 0)))
        for part in parts
    ]
    return rows.join(pl.concat(columns), on=list(names), how="left", maintain_order="left")


def holm_columns(tests: pl.DataFrame, family: int) -> list[pl.Series]:
    """Return Holm's adjusted ``p_holm``, ``ps_p_holm`` and ``equal_p_holm``; null without p."""
    columns = []
    for name in ("p", "ps_p", "equal_p"):
        adjusted = iter(holm(tests[name].drop_nulls().to_numpy(), family).tolist())
        values = [None if p is None else next(adjusted) for p in tests[name].to_list()]
        columns.append(pl.Series(f"{name}_holm", values, dtype=pl.Float64))
    return columns
