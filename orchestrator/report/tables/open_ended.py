"""Tables of open-ended answers as a judge read them, always with the judge's key and the number of answers without a verdict."""

import polars as pl

from envs import in_paper_order
from orchestrator.gold.gold_check import gold_notes
from orchestrator.report.measures.estimates import GROUP
from orchestrator.report.measures.judge_correction import SOURCES, corrected_shares, judged_answers
from orchestrator.report.measures.outcomes import cluster_numbers
from orchestrator.report.paper.published import MEASURES
from orchestrator.report.run_data import RunData
from orchestrator.report.scores.metrics import BITS, average_over_scenarios, missing_episodes
from orchestrator.report.statistics.clustered import average_means, estimate_mean, t_interval
from orchestrator.report.statistics.judge_error import FEWEST_LABELS
from orchestrator.report.tables.parts import (
    AVERAGE,
    Row,
    average_heading,
    model_conditions,
    one_decimal,
    scenario_cells,
    score_cell,
)
from orchestrator.report.tables.table import MISSING, UNFINISHED, Line, Table, TableCell, columns, line

INTERVALS = [f"{bit}{end}" for bit in BITS for end in ("", "_low", "_high")]


def open_ended_table(run_data: RunData) -> Table:
    """Return the judged share of answers: aggregate / category / suggestion in percent (paper, Tables 8 and 9)."""
    measures = list(MEASURES["oeg"].values())
    rows = run_data.rows.filter(pl.col("protocol") == "oeg")
    rows = rows.with_columns(missing_episodes(rows.columns).alias("lacking"))
    if rows.is_empty() or not set(measures) <= set(rows.columns):
        return Table("open-ended", "", columns("model", ()), (), rows)

    def three_shares(row: Row) -> str:
        return " / ".join(one_decimal(row, measure) for measure in measures)

    lines, scenarios, means = list[Line](), in_paper_order(rows["scenario"]), open_ended_averages(run_data)
    corrected = corrected_shares(run_data).filter(bit=measures[0])
    for model, condition, part in model_conditions(run_data, rows):
        cells = scenario_cells(part, scenarios, lambda row: score_cell(row, three_shares, measures[0]))
        same = {"model": model, "condition": condition}
        mean = means.row(by_predicate=(pl.col("model") == model) & (pl.col("condition") == condition), named=True)
        average = TableCell(three_shares(mean)) if mean["complete"] == len(scenarios) else UNFINISHED
        shares = corrected.filter(scenario=AVERAGE if len(scenarios) > 1 else scenarios[0], **same).to_dicts()
        repairs = [_share_cell(row, source) for row in shares for source in SOURCES[1:]] or [MISSING, MISSING]
        lines.append(line(f"{model}, {condition}", [*cells, average, *repairs]))
    numbers = pl.concat([rows.drop("lacking"), means.with_columns(scenario=pl.lit(AVERAGE))], how="diagonal")
    heads = columns("model", [*scenarios, average_heading(scenarios), "by gold answers", "by labels"])
    notes = (*_notes(run_data), *gold_notes(run_data.folder, [run_data.judge]))
    title = "Open-ended answers; the judge errs as on gold answers"
    if "gold" not in corrected.columns or not corrected["gold"].count():
        title = "Open-ended answers, as a judge reads them"
    return Table("open-ended", title, heads, tuple(lines), numbers, notes=notes)


def open_ended_averages(run_data: RunData) -> pl.DataFrame:
    """Return a row per model, condition and protocol ``oeg``: unweighted means over scenarios of each bit, with 95% intervals.

    Columns: model, condition, protocol; category, suggestion, aggregate in percent of the judged, each with ``_low``
    and ``_high`` (score interval, each scenario a stratum); scenarios, complete, all_seven (``average_over_scenarios``).
    """
    rows = run_data.rows.filter(pl.col("protocol") == "oeg")
    if rows.is_empty():
        return pl.DataFrame(schema={**dict.fromkeys(GROUP, pl.String), **dict.fromkeys(INTERVALS, pl.Float64)})
    cells: dict[tuple[str, ...], list[pl.DataFrame]] = {}
    for (cell,), part in _percent_bits(run_data).group_by(["cell"], maintain_order=True):
        row = rows.row(by_predicate=pl.col("cell") == cell, named=True)
        cells.setdefault(tuple(row[name] for name in GROUP), []).append(part)
    bounds = [dict(zip(GROUP, group, strict=True)) | _bounds(parts) for group, parts in cells.items()]
    limits = [name for name in INTERVALS if name not in BITS]
    intervals = pl.DataFrame(bounds, schema={**dict.fromkeys(GROUP, pl.String), **dict.fromkeys(limits, pl.Float64)})
    means = rows.group_by(GROUP).agg(pl.col(BITS).mean())
    counts = average_over_scenarios(rows).drop("acc", "ps")
    return counts.join(means, on=list(GROUP), how="left").join(intervals, on=list(GROUP), how="left").sort(GROUP)


def _notes(run_data: RunData) -> tuple[str, ...]:
    """Return what the figures are, who judged, and what is not judged."""
    rows = run_data.rows.filter(pl.col("protocol") == "oeg")
    unjudged, answered = int(rows["unjudged"].sum()), int(rows["answered"].sum())
    pending = answered - unjudged - int(rows["judged"].sum())
    unread = f"; {pending:,} of {answered:,} answers not read yet" if pending else ""
    policy = "counted as zeros (the package's way)" if run_data.strict else f"{unjudged:,} of {answered:,}, left out"
    return (
        "Percent of answers: either / category / suggestion. Corrected averages are of either, with 95% intervals; by gold "
        f"answers only if the judge errs here as on those, by labels with at least {FEWEST_LABELS} labelled answers of this run.",
        f"Judge {run_data.judge or 'nobody yet'}; without a verdict: {policy}{unread}.",
    )


def _percent_bits(run_data: RunData) -> pl.DataFrame:
    """Return the verdicts of each open-ended cell in percent, 0 or 100, in a fixed order."""
    percent = [pl.col(bit).cast(pl.Int64) * 100 for bit in BITS]
    return judged_answers(run_data).select("cell", "cluster", *percent).sort("cell", *BITS)


def _bounds(cells: list[pl.DataFrame]) -> dict[str, float]:
    """Return the interval of each bit's average over cells."""
    row: dict[str, float] = {}
    for bit in BITS:
        means = [estimate_mean(cell[bit].to_numpy(), cluster_numbers(cell), unit=100) for cell in cells]
        _, row[f"{bit}_low"], row[f"{bit}_high"] = t_interval(average_means(means), 0, 100)
    return row


def corrected_table(run_data: RunData) -> Table:
    """Return the averages as judged and corrected for the judge's errors; no rows without a gold check or labels."""
    numbers = corrected_shares(run_data)
    if not any(numbers[source].count() for source in SOURCES[1:]):
        numbers = numbers.clear()
    lines = list[Line]()
    for model, condition, part in model_conditions(run_data, numbers):
        scenarios = AVERAGE if AVERAGE in part["scenario"] else part["scenario"][0]
        for row in part.filter(scenario=scenarios).iter_rows(named=True):
            shares = [_share_cell(row, source) for source in SOURCES]
            labelled = TableCell(f"{row['labelled']:,}", row["labelled"])
            lines.append(line(f"{model}, {condition}, {row['bit']}", [*shares, labelled]))
    title = "Open-ended answers; the judge errs as on gold answers"
    notes = ("Percent of answers with 95% intervals, averaged over scenarios.",)
    heads = columns("model", ("as judged", "by gold answers", "by labels", "labels"))
    return Table("open-ended-corrected", title, heads, tuple(lines), numbers, notes=notes)


def _share_cell(row: Row, source: str) -> TableCell:
    value, *limits = (row[f"{source}{end}"] for end in ("", "_low", "_high"))
    if value is None:
        return MISSING
    return TableCell(f"{value:.1f}", value, "{:.1f} to {:.1f}".format(*limits))
