"""The smallest true difference that a comparison detects in 80% of cases, per scenario and on average."""

from collections.abc import Iterator

import polars as pl
from scipy.stats import norm  # type: ignore[import-untyped]

from envs import in_paper_order
from orchestrator.report.comparisons.run_comparison import NAMES, RunComparison
from orchestrator.report.measures.estimates import GROUP, estimate
from orchestrator.report.run_data import RunData
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


def unpaired_power(run_data: RunData) -> pl.DataFrame:
    """Return the columns of ``paired_power`` for one run: differences from an unpaired second run of the same size."""
    frames = [frame.drop_nulls(["acc", "acc_low"]) for frame in estimate(run_data)]
    cells = frames[0].select(*GROUP, "scenario", "scored", "acc_low", "acc_high")
    sizes = cells.group_by(GROUP).agg(pl.col("scored").sum())
    averages = frames[1].join(sizes, on=list(GROUP), maintain_order="left").with_columns(scenario=pl.lit(AVERAGE))
    least = _reach(1) * 2**0.5 * (pl.col("acc_high") - pl.col("acc_low")) / (2 * Z)
    rows = pl.concat([cells, averages.select(cells.columns)]).with_columns(run=pl.lit(""), n="scored", least=least)
    return rows.select(list(SCHEMA))


def _reach(family: int) -> float:
    """Return the smallest difference, in standard errors, that is detected as the first of a family."""
    return float(norm.isf(ALPHA / max(family, 1) / 2) + norm.isf(1 - POWER))


def power_table(power: pl.DataFrame, paired: bool) -> Table:
    """Return the least differences, a line per run, model and condition."""
    scenarios = [*in_paper_order(power.filter(pl.col("scenario") != AVERAGE)["scenario"]), AVERAGE]
    kind = (
        "paired, with the discordant pairs observed" if paired else "by one test, from an unpaired run of the same size"
    )
    notes = (f"Points of accuracy that get a star in {POWER:.0%} of cases; {kind}.",)

    def lines() -> Iterator[Line]:
        for names, part in power.group_by(NAMES, maintain_order=True):
            label = ", ".join(str(name) for name in names if name not in ("", "mcqa"))
            yield line(label, scenario_cells(part, scenarios, lambda row: number_cell(row["least"])))

    return Table(
        "power", "Least true difference that is found", columns("model", scenarios), tuple(lines()), power, notes=notes
    )
