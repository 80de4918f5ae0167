"""Shares of open-ended answers, corrected for the judge's errors: by the gold check, and by labelled answers of the run.

The gold check's sensitivity and specificity hold for the run only if the judge errs on its answers as on the gold answers;
labels drawn at random from the run need no such assumption (``orchestrator.report.statistics.judge_error``).
"""

from collections.abc import Iterator, Sequence

import polars as pl

from orchestrator.gold.gold_check import GoldScore
from orchestrator.gold.labels import read_labels
from orchestrator.report.measures.outcomes import add_clusters, cluster_numbers
from orchestrator.report.paper.published import AVERAGE
from orchestrator.report.run_data import RunData, cached_per_run
from orchestrator.report.scores.judge_agreement import disputed_answers
from orchestrator.report.scores.metrics import BITS, verdict_bit
from orchestrator.report.statistics.clustered import average_means, estimate_mean, share_interval, t_interval
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
    answers = _answers(run_data)
    gold = GoldScore(run_data.folder, run_data.judge)
    judges = {bit: Confusion(*gold.counts(bit)) for bit in BITS}
    rows = [
        (str(model), str(condition), scenario, bit, *_correct(cells, bit, judges[bit]))
        for (model, condition), group in answers.group_by("model", "condition", maintain_order=True)
        for scenario, cells in _scenarios(group)
        for bit in BITS
    ]
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def judged_answers(run_data: RunData) -> pl.DataFrame:
    """Return the open-ended answers with a verdict, by ``run_data.strict``, and the clusters of their samples."""
    cells = run_data.rows.filter(protocol="oeg").select("cell")
    bits = add_clusters(run_data.verdicts.join(cells, on="cell", how="semi"), run_data)
    return bits.with_columns(verdict_bit(bit, run_data.strict) for bit in BITS).drop_nulls("aggregate")


def _answers(run_data: RunData) -> pl.DataFrame:
    """Return the judged answers: names, the judge's bits, and those of a label as ``BIT_true``, null without one.

    ``disputed`` is true for the answers that were labelled more often because a second judge differs on them.
    """
    names = ("key", "model", "condition", "scenario", "cluster", *BITS)
    labels = read_labels(run_data.folder)
    second_judges = labels.filter(pl.col("drawn") != "")["drawn"].unique().sort().to_list()
    disputed = disputed_answers(run_data.folder, run_data.judge, second_judges[0]) if second_judges else set[str]()
    rows = judged_answers(run_data).select(names).with_columns(pl.col("key").is_in(list(disputed)).alias("disputed"))
    return rows.join(labels, on="key", how="left", suffix="_true").sort("key")


def _scenarios(group: pl.DataFrame) -> Iterator[tuple[str, Sequence[pl.DataFrame]]]:
    """Yield each scenario with its answers, then ``avg`` with the answers of every scenario."""
    cells = group.partition_by("scenario", maintain_order=True)
    yield from ((str(cell["scenario"][0]), [cell]) for cell in cells)
    if len(cells) > 1:
        yield AVERAGE, cells


def _correct(cells: Sequence[pl.DataFrame], bit: str, judge: Confusion) -> tuple[object, ...]:
    """Return the columns of ``SCHEMA`` from ``answers`` on."""
    means = [
        estimate_mean(100 * cell[bit].cast(pl.Int64).to_numpy(), cluster_numbers(cell), unit=100) for cell in cells
    ]
    mean = average_means(means)
    raw = share_interval(means[0], cells[0].height) if len(cells) == 1 else t_interval(mean, 0, 100)
    share = min(max(mean.value / 100, 1e-3), 1 - 1e-3)
    answers = sum(cell.height for cell in cells)
    effective = min(1e4 * share * (1 - share) / mean.variance, answers) if mean.variance > 0 else float(answers)
    # disputed answers are strata of their own: they were labelled at a higher rate
    parts = [(part, part.height / cell.height / len(cells)) for cell in cells for part in cell.partition_by("disputed")]
    labels = [_count_labels(part, bit) for part, _ in parts]
    weights = [weight for _, weight in parts] if len(parts) > len(cells) else None
    corrected = (
        rogan_gladen(mean.value / 100 * effective, effective, judge),
        prediction_powered(labels, shares=weights),
    )
    figures = [None if estimate is None else 100 * estimate[end] for estimate in corrected for end in range(3)]
    return (answers, sum(part.size for part in labels), *raw, *figures)


def _count_labels(cell: pl.DataFrame, bit: str) -> Labels:
    true, judged = pl.col(f"{bit}_true"), pl.col(bit)
    hits, misses, alarms, rejections, yes, others = cell.select(
        (true & judged).sum().alias("hits"), (true & ~judged).sum().alias("misses"),
        (~true & judged).sum().alias("alarms"), (~true & ~judged).sum().alias("rejections"),
        judged.filter(true.is_null()).sum().alias("yes"), true.is_null().sum().alias("others"),
    ).row(0)  # fmt: skip
    return Labels(Confusion(hits, misses, alarms, rejections), yes, others)
