"""Tables on how certain the figures are: clusters of samples, mean effects, missing episodes, cells that stopped early."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from envs.plural import pluralize
from envs.types import UNSCORED
from orchestrator.precision.stopping import bounds
from orchestrator.report.measures.clustering import WIDER, clustering
from orchestrator.report.measures.estimates import estimate
from orchestrator.report.measures.missingness import missing_bounds
from orchestrator.report.measures.paired_averages import condition_effects
from orchestrator.report.paper.published import AVERAGE
from orchestrator.report.run_data import AUTOMATIC, CLUSTERS, RunData, cached_per_run
from orchestrator.report.scores.precision_stops import sort_by_draw, stopped_cells
from orchestrator.report.tables.parts import Row, format_limits, order_models
from orchestrator.report.tables.table import MISSING, Column, Line, Table, TableCell, line
from orchestrator.report.wording import format_p, format_signed
from sweeps.protocol import ZERO_SHOT, Protocol

CLUSTER_COLUMNS = (
    Column("scenario", number=False),
    Column("clusters", number=False),
    Column("number"),
    Column("largest", "samples of the largest cluster"),
    Column("icc", "intraclass correlation of right answers, over all cells of models"),
    Column("design effect", "variance of a mean over clusters, relative to independent samples"),
    Column("wider", "width of the interval over clusters, relative to the one over independent samples"),
    Column("counts", "whether intervals, tests and ranks are over these clusters", number=False),
)


def clustering_table(run_data: RunData) -> Table:
    """Return the clusters of each scenario that has any."""
    numbers = clustering(run_data)
    lines = tuple(_cluster_line(row) for row in numbers.iter_rows(named=True) if row["icc"] is not None)
    rule = {
        AUTOMATIC: f"intervals and tests are over clusters that widen them more than {WIDER} times (--cluster none: samples)",
        "": "intervals and tests are over independent samples, as asked",
    }.get(run_data.cluster, f"intervals and tests are over {run_data.cluster}s, as asked")
    title = f"samples of one object, picture or video are answered alike: {rule}"
    return Table("clusters", title, CLUSTER_COLUMNS, lines, numbers)


def _cluster_line(row: Row) -> Line:
    texts = (
        CLUSTERS[row["clustering"]][1],
        f"{row['clusters']:,} of {row['samples']:,}",
        f"{row['largest']:,}",
        f"{row['icc']:.2f}",
        f"{row['design_effect']:.1f}",
        f"{row['wider']:.2f}",
        "yes" if row["counts"] else "no",
    )
    return line(row["scenario"], map(TableCell, texts))


EFFECT_COLUMNS = (
    Column("condition", number=False),
    Column("models", "those that played every scenario under it and under zero-shot"),
    Column("scenarios"),
    Column("change", "mean over models and scenarios, points of acc on the same samples"),
    Column("95% interval", "for further models and scenarios like these", number=False),
    Column("p", "after Holm's correction over the conditions"),
    Column("between models", "standard deviation of the models' own changes, points"),
    Column("between scenarios", "standard deviation of the scenarios' own changes, points"),
    Column("rest", "standard deviation that neither explains, sampling error included"),
)


def effects_table(run_data: RunData) -> Table:
    """Return a line per condition with three models and three scenarios or more."""
    numbers = condition_effects(run_data)
    lines = tuple(_effect_line(row) for row in numbers.iter_rows(named=True))
    title = (
        "does a condition help? mean change against zero-shot, with models and scenarios both taken as drawn (two-way analysis "
        "of variance with random effects), points"
    )
    return Table("condition-effects", title, EFFECT_COLUMNS, lines, numbers, search=len(lines) > 1)


def _effect_line(row: Row) -> Line:
    name = row["condition"] if row["protocol"] == Protocol.MCQA else f"{row['condition']} ({row['protocol']})"
    cells = (
        TableCell(str(row["models"]), row["models"]),
        TableCell(str(row["scenarios"]), row["scenarios"]),
        TableCell(format_signed(row["difference"]), row["difference"]),
        TableCell(format_limits(row, "difference")),
        TableCell(format_p(row["p_holm"]), row["p_holm"]),
        *(TableCell(f"{row[part]:.1f}", row[part]) for part in ("between_models", "between_scenarios", "rest")),
    )
    return line(name, cells)


MISSING_COLUMNS = (
    Column("model", number=False, filter=True),
    Column("condition", number=False, filter=True),
    Column("scenario", number=False, filter=True),
    Column("measure", number=False, filter=True),
    Column("missing", "episodes, or pairs, without an answer or cut short by a limit"),
    Column("shown", "as in the other tables"),
    Column(
        "worst to best case",
        "if all missing episodes had the lowest, or highest value; in brackets the 95% intervals of both",
    ),
)
LABELS = {"acc": "accuracy", "ps": "suggestions", "loops": "loops"}
MOST_ROWS = 40
"""Number of rows shown; ``missing.csv`` has all."""


def missing_table(run_data: RunData) -> Table:
    """Return the bounds of accuracy: averages first, then cells, those with the most missing first."""
    numbers = missing_bounds(run_data)
    ranks = {name: number for number, name in enumerate(order_models(numbers["model"], run_data.baselines))}
    rows = numbers.filter(measure="acc").sort(
        pl.col("scenario") != AVERAGE, -pl.col("missing") / pl.col("n"), pl.col("model").replace_strict(ranks, default=0),
        maintain_order=True,
    )  # fmt: skip
    lines = tuple(map(_bounds_line, rows.head(MOST_ROWS).iter_rows(named=True)))
    notes = (f"{pluralize(rows.height - MOST_ROWS, 'more row')} in missing.csv",) if rows.height > MOST_ROWS else ()
    title = "figures with more than 1% of their episodes missing: worst and best case, with the 95% intervals of both"
    return Table("missing", title, MISSING_COLUMNS, lines, numbers, notes=notes, search=len(lines) > 1)


def _bounds_line(row: Row) -> tuple[TableCell, ...]:
    signed = bool(row["against"])

    def text(value: float) -> str:
        return format_signed(value) if signed else f"{value:.1f}"

    measure = f"change of {LABELS[row['measure']]}" if signed else LABELS[row["measure"]]
    share = 100 * row["missing"] / row["n"]
    return (
        *(TableCell(row[name], row[name]) for name in ("model", "condition", "scenario")),
        TableCell(measure, measure),
        TableCell(f"{row['missing']:,} of {row['n']:,}", share, f"{share:.1f}%"),
        MISSING if row["value"] is None else TableCell(text(row["value"]), row["value"]),
        TableCell(
            f"{text(row['least'])} to {text(row['most'])}",
            row["least"],
            f"{text(row['least_low'])} to {text(row['most_high'])}",
        ),
    )


PRECISION_SCHEMA = {
    **dict.fromkeys(("model", "condition", "against"), pl.String),
    **dict.fromkeys(("value", "low", "high"), pl.Float64),
    **dict.fromkeys(("samples", "full"), pl.Int64),
}
Cells = Mapping[str, Mapping[str, Any]]
"""Scenario -> row of a cell."""


@cached_per_run
def stopped_averages(run_data: RunData) -> pl.DataFrame:
    """Return a row per average that includes a stopped cell, and per condition against zero-shot if the rule has ``difference``.

    Columns: model, condition, against (empty for an accuracy), value with low and high (percent, or points), samples
    (planned) and full (size of the full sets). Empty if nothing stopped.
    """
    stopped, rule = stopped_cells(run_data.rows), run_data.sweep.precision
    if rule is None or not stopped:
        return pl.DataFrame(schema=PRECISION_SCHEMA)
    averages = estimate(run_data).averages.filter(protocol="mcqa").drop_nulls("acc")
    means = {(row["model"], row["condition"]): row for row in averages.iter_rows(named=True)}
    groups: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for row in run_data.rows.filter(protocol="mcqa").iter_rows(named=True):
        groups.setdefault((row["model"], row["condition"]), {})[row["scenario"]] = row
    rows = []
    for (model, condition), cells in groups.items():
        counts = sum(row["planned"] for row in cells.values()), sum(row["full"] for row in cells.values())
        if (model, condition) in means and any(row["cell"] in stopped for row in cells.values()):
            mean = means[model, condition]
            rows.append((model, condition, "", mean["acc"], mean["acc_low"], mean["acc_high"], *counts))
        base = groups.get((model, ZERO_SHOT), {})
        if rule.difference is not None and condition != ZERO_SHOT and set(cells) & set(base):
            rows.append((model, condition, ZERO_SHOT, *_difference(run_data, cells, base, rule.difference), *counts))
    return pl.DataFrame(rows, schema=PRECISION_SCHEMA, orient="row").sort("model", "condition", "against")


def _difference(run_data: RunData, cells: Cells, base: Cells, points: float) -> tuple[float | None, float, float]:
    """Return the mean difference over the shared scenarios, up to the first stop, and its interval; in points."""
    shared = [name for name in cells if name in base]
    pairs = [(_right_or_wrong(run_data, cells[name]), _right_or_wrong(run_data, base[name])) for name in shared]
    sizes = [cells[name]["full"] for name in shared]
    stops = [min(map(len, pair)) for pair, size in zip(pairs, sizes, strict=True) if min(map(len, pair)) < size]
    rounds = min(stops, default=max(sizes))
    strata = [left[:rounds][: len(right)] - right[:rounds][: len(left)] for left, right in pairs]
    low, high = bounds([(stratum + 1) / 2 for stratum in strata], sizes, rounds, points / 200)
    answered = [stratum[~np.isnan(stratum)] for stratum in strata]
    value = 100 * float(np.mean([part.mean() for part in answered])) if all(len(part) for part in answered) else None
    return value, 200 * low - 100, 200 * high - 100


def _right_or_wrong(run_data: RunData, row: Mapping[str, Any]) -> NDArray[np.float64]:
    """Return 1 or 0 for each episode of a cell in the order of the draw, nan if there is no answer."""
    episodes = sort_by_draw(run_data.episodes.filter(cell=row["cell"]), run_data.sweep.seed)
    answered = pl.when(~pl.col("ending").is_in(UNSCORED)).then(pl.col("correct").cast(pl.Float64))
    return episodes.select(answered.alias("correct"))["correct"].to_numpy()
