"""The smallest true difference that a comparison detects in 80% of cases, per scenario and on average."""

import polars as pl
from scipy.stats import norm  # type: ignore[import-untyped]

from envs import in_paper_order
from orchestrator.report.comparisons.run_comparison import NAMES, RunComparison
from orchestrator.report.statistics.exact_tests import ALPHA, POWER, detectable
from orchestrator.report.statistics.proportion import Z
from orchestrator.report.tables.parts import AVERAGE, number_cell, scenario_cells
from orchestrator.report.tables.table import Line, Table, columns, line

SCHEMA = {**dict.fromkeys((*NAMES, "scenario"), pl.String), "n": pl.Int64, "least": pl.Float64}


def paired_power(comparison: RunComparison) -> pl.DataFrame:
    """Return the smallest difference (points) that gets a star, per run, model, condition and scenario (or ``avg``).

    It is that of the test and family which `compare` stars, at Holm's first step: in a scenario McNemar's exact test with the
    observed share of discordant pairs, for the average a normal test with the standard error of the interval. ``least`` is null
    where no difference is detected in 80% of cases.
    """
    rows, (cells, averages) = [], (comparison.cells, comparison.averages)
    tests = sum(
        frame[name].count() for frame, name in ((cells, "p_holm"), (cells, "ps_p_holm"), (averages, "ps_p_holm"))
    )
    for row in cells.iter_rows(named=True):
        share = max(row["gained"] + row["lost"], 1) / row["n"]
        least = detectable(row["n"], share, ALPHA / max(tests, 1))
        rows.append((*(row[name] for name in NAMES), row["scenario"], row["n"], least))
    reach = _reach(averages["p_holm"].count())
    for row in averages.iter_rows(named=True):
        least = reach * (row["difference_high"] - row["difference_low"]) / (2 * Z)
        rows.append((*(row[name] for name in NAMES), AVERAGE, row["n"], least))
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def _reach(family: int) -> float:
    """Return the smallest difference, in standard errors, that is detected as the first of a family."""
    return float(norm.isf(ALPHA / max(family, 1) / 2) + norm.isf(1 - POWER))


def power_table(power: pl.DataFrame) -> Table:
    """Return the least differences, a line per run, model and condition."""
    scenarios = [*in_paper_order(power.filter(pl.col("scenario") != AVERAGE)["scenario"]), AVERAGE]
    lines = list[Line]()
    for names, part in power.group_by(NAMES, maintain_order=True):
        label = ", ".join(str(name) for name in names if name != "mcqa")
        lines.append(line(label, scenario_cells(part, scenarios, lambda row: number_cell(row["least"]))))
    notes = (
        f"Points of accuracy that get a star in {POWER:.0%} of cases; paired, with the discordant pairs observed.",
    )
    title = "Least true difference that is found"
    return Table("power", title, columns("model", scenarios), tuple(lines), power, notes=notes)
