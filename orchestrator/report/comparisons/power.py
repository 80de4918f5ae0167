"""The smallest true difference of averages that a comparison detects in 80% of cases."""

import polars as pl
from scipy.stats import norm  # type: ignore[import-untyped]

from orchestrator.report.comparisons.run_comparison import NAMES, RunComparison
from orchestrator.report.statistics.exact_tests import ALPHA
from orchestrator.report.statistics.proportion import Z
from orchestrator.report.tables.parts import number_cell
from orchestrator.report.tables.table import Table, columns, line

POWER = 0.8


def paired_power(comparison: RunComparison) -> pl.DataFrame:
    """Return ``NAMES``, n and least: the smallest average difference (points) that gets a star in 80% of cases.

    It is that of a normal test with the standard error of the interval, at Holm's first step over all averages.
    """
    averages = comparison.averages
    tests = max(averages["p_holm"].count(), 1)
    reach = float(norm.isf(ALPHA / tests / 2) + norm.isf(1 - POWER))
    width = pl.col("difference_high") - pl.col("difference_low")
    return averages.select(*NAMES, "n", least=reach * width / (2 * Z))


def power_table(power: pl.DataFrame) -> Table:
    """Return the least differences, a line per run, model and condition."""
    lines = []
    for row in power.iter_rows(named=True):
        label = ", ".join(row[name] for name in NAMES if row[name] != "mcqa")
        lines.append(line(label, [number_cell(row["n"], ",d"), number_cell(row["least"])]))
    notes = (f"Points of average accuracy that get a star in {POWER:.0%} of cases.",)
    heads = columns("model", ("samples", "points"))
    return Table("power", "Least true difference that is found", heads, tuple(lines), power, notes=notes)
