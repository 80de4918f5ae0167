"""Tables of open-ended answers as a judge read them, always with the judge's key and the number of answers without a verdict."""

from dataclasses import replace

import polars as pl

from envs import in_paper_order
from orchestrator.gold.gold_check import gold_notes
from orchestrator.report.measures.judge_correction import SOURCES, corrected_shares
from orchestrator.report.run_data import RunData
from orchestrator.report.scores.answer import GROUP
from orchestrator.report.scores.metrics import BITS, average_over_scenarios
from orchestrator.report.statistics.judge_error import FEWEST_LABELS
from orchestrator.report.tables.parts import AVERAGE, TEXTS, conditions_of, entitle, measure_cell, scenario_table
from orchestrator.report.tables.table import MISSING, Column, Line, Table, columns, line

INTERVALS = [f"{bit}{end}" for bit in BITS for end in ("", "_low", "_high")]
SHARES = dict.fromkeys(("aggregate", "category", "suggestion"), ".1f")


def open_ended_table(run_data: RunData) -> Table:
    """Return the judged share of answers: aggregate / category / suggestion in percent (paper, Tables 8 and 9)."""
    rows = run_data.rows.filter(protocol="oeg")
    if rows.is_empty():
        return Table("open-ended", "", columns("model", ()), (), rows)
    lines, corrected = list[Line](), _averages(corrected_shares(run_data)).filter(bit="aggregate")
    for condition in conditions_of(run_data, rows):
        own = rows.filter(condition=condition)
        table = scenario_table(own, SHARES, run_data.baselines, in_paper_order(rows["scenario"]))
        for name, *cells in table.rows:
            shares = corrected.filter(model=name.text, condition=condition).to_dicts()
            repairs = [measure_cell(row, source) for row in shares for source in SOURCES[1:]] or [MISSING, MISSING]
            lines.append(line(f"{name.text}, {condition}", [*cells, *repairs]))
    numbers = pl.concat([rows, open_ended_averages(run_data).with_columns(scenario=pl.lit(AVERAGE))], how="diagonal")
    heads = (*table.columns, Column("by gold answers"), Column("by labels"))
    notes = (*_notes(run_data, rows), *gold_notes(run_data.folder, [run_data.judge]))
    table = entitle("open-ended", replace(table, columns=heads, rows=tuple(lines), numbers=numbers, notes=notes))
    return replace(table, title=TEXTS["open-ended"]["corrected"]) if corrected["gold"].count() else table


def open_ended_averages(run_data: RunData) -> pl.DataFrame:
    """Return a row per model and condition with open-ended answers: unweighted means over scenarios of each bit, and intervals.

    Columns: model, condition, protocol; category, suggestion, aggregate in percent of the judged, each with ``_low``
    and ``_high`` (95%, each scenario a stratum); scenarios, complete, all_seven (``average_over_scenarios``).
    """
    rows = run_data.rows.filter(protocol="oeg")
    means = average_over_scenarios(rows).drop("acc", "ps")
    means = means.join(rows.group_by(GROUP).agg(pl.col(BITS).mean()), on=list(GROUP), how="left")
    averages = _averages(corrected_shares(run_data))
    for bit in BITS:
        bounds = {f"{bit}_low": "raw_low", f"{bit}_high": "raw_high"}
        own = averages.filter(bit=bit).select("model", "condition", **bounds)
        means = means.join(own, on=["model", "condition"], how="left")
    return means.sort(GROUP)


def _averages(shares: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of averages; a single scenario is its own average."""
    alone = pl.col("scenario").n_unique().over("model", "condition") == 1
    return shares.filter((pl.col("scenario") == AVERAGE) | alone)


def _notes(run_data: RunData, rows: pl.DataFrame) -> tuple[str, ...]:
    """Return what the figures are, who judged, and what is not judged."""
    unjudged, answered = int(rows["unjudged"].sum()), int(rows["answered"].sum())
    pending = answered - unjudged - int(rows["judged"].sum())
    unread = f"; {pending:,} of {answered:,} answers not read yet" if pending else ""
    policy = "counted as zeros (the package's way)" if run_data.strict else f"{unjudged:,} of {answered:,}, left out"
    return (
        "Percent of answers: either / category / suggestion. Corrected averages are of either, with 95% intervals; by gold "
        f"answers only if the judge errs here as on those, by labels with at least {FEWEST_LABELS} labelled answers of this run.",
        f"Judge {run_data.judge or 'nobody yet'}; without a verdict: {policy}{unread}.",
    )
