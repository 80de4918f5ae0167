"""The smallest true difference that a comparison detects in 80% of cases, per scenario and on average."""

import polars as pl
from scipy.stats import norm  # type: ignore[import-untyped]

from envs import in_paper_order
from orchestrator.report.comparisons.run_comparison import NAMES, RunComparison
from orchestrator.report.measures.estimates import GROUP, estimate
from orchestrator.report.run_data import RunData
from orchestrator.report.statistics.exact_tests import ALPHA, POWER, detectable
from orchestrator.report.statistics.proportion import Z
from orchestrator.report.tables.parts import AVERAGE, Row, scenario_cells
from orchestrator.report.tables.table import Table, TableCell, columns, line

SCHEMA = {
    **dict.fromkeys(("run", "model", "condition", "protocol", "scenario"), pl.String),
    "n": pl.Int64,
    "least": pl.Float64,
}


def paired_power(comparison: RunComparison) -> pl.DataFrame:
    """Return the smallest difference (points) that gets a star, per run, model, condition and scenario (or ``avg``).

    It is that of the test and family which `compare` stars, at Holm's first step: in a scenario McNemar's exact test with the
    observed share of discordant pairs, for the average a normal test with the standard error of the interval. ``least`` is null
    where no difference is detected in 80% of cases.
    """
    rows, tests = [], comparison.cells.select(pl.col("p_holm", "ps_p_holm").count()).row(0)
    family, averages = (
        max(sum(tests) + comparison.averages["ps_p_holm"].count(), 1),
        comparison.averages["p_holm"].count(),
    )
    reach = _reach(max(averages, 1))
    for row in comparison.cells.iter_rows(named=True):
        share = (row["gained"] + row["lost"]) / row["n"]
        least = detectable(row["n"], max(share, 1 / row["n"]), ALPHA / family)
        rows.append((*(row[name] for name in NAMES), row["scenario"], row["n"], least))
    for row in comparison.averages.iter_rows(named=True):
        error = (row["difference_high"] - row["difference_low"]) / (2 * Z)
        rows.append((*(row[name] for name in NAMES), AVERAGE, row["n"], reach * error))
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def unpaired_power(run_data: RunData) -> pl.DataFrame:
    """Return the columns of ``paired_power`` for one run: differences from an unpaired second run of the same size."""
    cells, averages = (frame.drop_nulls("acc_low") for frame in estimate(run_data))
    rows = []
    for row in cells.drop_nulls("acc").iter_rows(named=True):
        rows.append(("", *(row[name] for name in GROUP), row["scenario"], row["scored"], _least_unpaired(row)))
    for row in averages.drop_nulls("acc").iter_rows(named=True):
        same = [pl.col(name) == row[name] for name in GROUP]
        n = int(cells.filter(same)["scored"].sum())
        rows.append(("", *(row[name] for name in GROUP), AVERAGE, n, _least_unpaired(row)))
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def _reach(family: int) -> float:
    """Return the smallest difference, in standard errors, that is detected as the first of a family."""
    return float(norm.isf(ALPHA / family / 2) + norm.isf(1 - POWER))


def _least_unpaired(row: Row) -> float:
    """Return the smallest detected difference between two accuracies whose intervals are both as wide as the row's."""
    return _reach(1) * 2**0.5 * float(row["acc_high"] - row["acc_low"]) / (2 * Z)


def power_table(power: pl.DataFrame, paired: bool) -> Table:
    """Return the least differences, a line per run, model and condition."""
    scenarios = in_paper_order(power.filter(pl.col("scenario") != AVERAGE)["scenario"])
    lines = []
    for (run, model, condition, protocol), part in power.group_by(NAMES, maintain_order=True):
        cells = scenario_cells(part.drop_nulls("least"), [*scenarios, AVERAGE], _least_cell)
        label = ", ".join(str(name) for name in (run, model, condition, "" if protocol == "mcqa" else protocol) if name)
        lines.append(line(label, cells))
    kind = (
        "paired, with the discordant pairs observed" if paired else "by one test, from an unpaired run of the same size"
    )
    notes = (f"Points of accuracy that get a star in {POWER:.0%} of cases; {kind}.",)
    heads = columns("model", [*scenarios, AVERAGE])
    return Table("power", "Least true difference that is found", heads, tuple(lines), power, notes=notes)


def _least_cell(row: Row) -> TableCell:
    return TableCell(f"{row['least']:.1f}", row["least"])
