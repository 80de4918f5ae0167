"""Shares of open-ended answers, corrected for the judge's errors: by the gold check, and by labelled answers of the run.

The gold check's sensitivity and specificity hold for the run only if the judge errs on its answers as on the gold answers;
labels drawn at random from the run need no such assumption (``orchestrator.report.statistics.judge_error``).
"""

import numpy as np
import polars as pl

from orchestrator.gold.gold_check import GoldScore
from orchestrator.gold.labels import read_labels
from orchestrator.report.measures.clustering import add_clusters, independent_units, number_groups
from orchestrator.report.paper.published import AVERAGE
from orchestrator.report.run_data import RunData, cached_per_run
from orchestrator.report.scores.judge_agreement import disputed_answers
from orchestrator.report.scores.metrics import BITS, verdict_bit
from orchestrator.report.statistics.clustered import average_strata, share_interval, t_interval
from orchestrator.report.statistics.judge_error import Confusion, Labels, prediction_powered, rogan_gladen

SOURCES = ("raw", "gold", "labels")
SCHEMA = {
    **dict.fromkeys(("model", "condition", "scenario", "bit"), pl.String),
    **dict.fromkeys(("answers", "labelled"), pl.Int64),
    **{f"{source}{end}": pl.Float64 for source in SOURCES for end in ("", "_low", "_high")},
}


@cached_per_run
def corrected_shares(run_data: RunData) -> pl.DataFrame:
    """Return one row per model, condition, scenario (``avg`` for the unweighted mean) and bit of the judge's verdicts.

    Columns: answers (with a verdict) and labelled; raw, gold and labels: the percentage as the judge counts it, corrected by the
    gold check, and corrected by the labels, each with its 95% interval. Null where there is no gold check, or too few labels.
    """
    gold, rows = GoldScore(run_data.folder, run_data.judge), list[tuple[object, ...]]()
    judges = {bit: gold.counts(bit) for bit in BITS}
    for names, group in _judged_answers(run_data).group_by("model", "condition", maintain_order=True):
        cells = group.partition_by("scenario", maintain_order=True)
        scenarios = [(cell["scenario"][0], cell) for cell in cells]
        scenarios += [(AVERAGE, pl.concat(cells))] if len(cells) > 1 else []
        rows += [(*names, name, bit, *_correct(part, bit, judges[bit])) for name, part in scenarios for bit in BITS]
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def _judged_answers(run_data: RunData) -> pl.DataFrame:
    """Return the open-ended answers with a verdict: names, cluster, the judge's bits, and a label's as ``BIT_true``, or null.

    ``disputed`` is true for the answers that were labelled more often because a second judge differs on them.
    """
    cells = run_data.rows.filter(protocol="oeg").select("cell")
    bits = add_clusters(run_data.verdicts.join(cells, on="cell", how="semi"), run_data)
    bits = bits.with_columns(verdict_bit(bit, run_data.strict) for bit in BITS).drop_nulls("aggregate")
    labels = read_labels(run_data.folder)
    judges = labels.filter(pl.col("drawn") != "")["drawn"].unique().sort().to_list()
    disputed = disputed_answers(run_data.folder, run_data.judge, judges[0]) if judges else set[str]()
    names = ("key", "model", "condition", "scenario", "cluster", *BITS)
    rows = bits.select(*names, disputed=pl.col("key").is_in(list(disputed)))
    return rows.join(labels, on="key", how="left", suffix="_true").sort("key")


def _correct(rows: pl.DataFrame, bit: str, judge: Confusion) -> tuple[object, ...]:
    """Return the columns of ``SCHEMA`` from ``answers`` on."""
    owners, cells = number_groups(rows, ["scenario"])
    units = independent_units(rows, owners, cells.height)
    means = units.means(100 * rows[bit].cast(pl.Int64).to_numpy(), unit=100)
    average = average_strata(means, np.zeros(cells.height, dtype=np.int64))
    bounds = share_interval(means, rows.height) if cells.height == 1 else t_interval(average, 0, 100)
    raw, variance, answers = [float(figure[0]) for figure in bounds], float(average.variance[0]), rows.height
    share = min(max(raw[0] / 100, 1e-3), 1 - 1e-3)
    effective = min(1e4 * share * (1 - share) / variance, answers) if variance > 0 else float(answers)
    # disputed answers are strata of their own: they were labelled at a higher rate
    parts = rows.partition_by("scenario", "disputed", maintain_order=True)
    labels, sizes = [_count_labels(part, bit) for part in parts], dict(rows.group_by("scenario").len().iter_rows())
    shares = [part.height / sizes[part["scenario"][0]] / cells.height for part in parts]
    weights = shares if len(parts) > cells.height else None
    corrected = rogan_gladen(raw[0] / 100 * effective, effective, judge), prediction_powered(labels, shares=weights)
    figures = [None if estimate is None else 100 * estimate[end] for estimate in corrected for end in range(3)]
    return (answers, sum(part.size for part in labels), *raw, *figures)


def _count_labels(cell: pl.DataFrame, bit: str) -> Labels:
    is_labelled = cell[f"{bit}_true"].is_not_null()
    labelled, others = cell.filter(is_labelled), cell.filter(~is_labelled)
    return Labels(Confusion.of(labelled[f"{bit}_true"], labelled[bit]), int(others[bit].sum()), others.height)
