"""Accuracy and suggestions as in the paper's tables: by scenario, by condition, and against the clear image."""

from collections.abc import Sequence
from dataclasses import replace

import polars as pl

from actors.playing.turn_judge import turn_judge_key
from envs import in_paper_order
from orchestrator.report.measures.estimates import estimate
from orchestrator.report.run_data import RunData
from orchestrator.report.scores.metrics import missing_episodes
from orchestrator.report.tables.parts import (
    AVERAGE,
    Format,
    Row,
    acc_and_ps,
    average_cell,
    average_heading,
    by_column,
    conditions_of,
    one_decimal,
    order_models,
    ranked_table,
    scenario_cells,
    score_cell,
)
from orchestrator.report.tables.table import MISSING, UNFINISHED, Table, TableCell, columns
from sweeps.conditions import WITH_EXAMPLES
from sweeps.protocol import ZERO_SHOT, Protocol


def main_table(run_data: RunData) -> Table:
    """Return models x scenarios under zero-shot, acc and ps, the average at the end (paper, Table 1)."""
    cells, averages = (frame.filter(condition=ZERO_SHOT, protocol="mcqa") for frame in estimate(run_data))
    title = f"{ZERO_SHOT}: accuracy in percent / mean number of suggestions"
    table = _scenario_table(run_data, cells, averages, acc_and_ps)
    return replace(table, name="main", title=title, numbers=_numbers(cells, averages))


def conditions_table(run_data: RunData) -> Table:
    """Return models x conditions, averaged over scenarios.

    Conditions with solved examples have fewer scenarios, so zero-shot over just these stands before them.
    """
    cells, averages = (frame.filter(protocol="mcqa") for frame in estimate(run_data))
    subset_cells = _average_over(cells.filter(condition=ZERO_SHOT), WITH_EXAMPLES)
    names = [name for name in conditions_of(run_data, averages) if name != "reference"]
    examples = [name for name in names if run_data.conditions[name].scenarios]
    everywhere = [name for name in names if name not in examples]
    subset_head = [f"zero-shot ({', '.join(WITH_EXAMPLES)})"] if examples else []
    lines = {}
    for model in order_models(averages["model"], run_data.baselines):
        rows = by_column(averages.filter(model=model), "condition")
        lines[model] = [
            *(average_cell(run_data, rows.get(name)) for name in everywhere),
            *(subset_cells.get(model, MISSING) for _ in subset_head),
            *(average_cell(run_data, rows.get(name)) for name in examples),
        ]
    title = "conditions: accuracy in percent / mean number of suggestions, averaged over scenarios"
    return ranked_table(run_data, "conditions", title, [*everywhere, *subset_head, *examples], lines, averages, "mcqa")


def reference_table(run_data: RunData) -> Table:
    """Return accuracy on the clear image and under zero-shot, by scenario (paper, Table 6 and Figure 3)."""
    clear, clear_averages = (frame.filter(condition="reference", protocol="mcqa") for frame in estimate(run_data))
    if clear.is_empty():
        return Table("reference", "", columns("model", ()), (), clear)
    played, averages = (frame.filter(condition=ZERO_SHOT, protocol="mcqa") for frame in estimate(run_data))
    zero_shot = {(row["model"], row["scenario"]): row for row in played.iter_rows(named=True)}
    means = by_column(averages, "model")

    def clear_and_zero_shot(row: Row) -> str:
        other = zero_shot.get((row["model"], row["scenario"])) if "scenario" in row else means.get(row["model"])
        return f"{row['acc']:.1f} / {one_decimal(other, 'acc')}"

    table = _scenario_table(run_data, clear, clear_averages, clear_and_zero_shot)
    title = "accuracy in percent: clear image / zero-shot"
    return replace(table, name="reference", title=title, numbers=_numbers(clear, clear_averages, played, averages))


def several_turns_table(run_data: RunData) -> Table:
    """Return acc and ps of open-ended answers over several turns, a line per model and condition (paper, Table 10)."""
    judge = run_data.sweep.turn_judge
    judge_key = turn_judge_key(judge) if judge else "none"
    title = f"open-ended over several turns: accuracy in percent / mean number of suggestions; judge {judge_key}"
    return _protocol_table(run_data, Protocol.OEG_MULTI, "open-ended-turns", title)


def tool_calls_table(run_data: RunData) -> Table:
    """Return acc and ps of multiple choice by function calls, a line per model and condition."""
    title = "tool calls: accuracy in percent / mean number of suggestions"
    return _protocol_table(run_data, Protocol.TOOLS, "tools", title)


def _protocol_table(run_data: RunData, protocol: Protocol, name: str, title: str) -> Table:
    """Return acc and ps of a protocol by scenario, a line per model and condition."""
    cells, averages = (frame.filter(protocol=protocol.value) for frame in estimate(run_data))
    tables = []
    for condition in conditions_of(run_data, cells):
        part, means = cells.filter(condition=condition), averages.filter(condition=condition)
        tables.append(_scenario_table(run_data, part, means, acc_and_ps, protocol, f", {condition}"))
    if not tables:
        return Table(name, "", columns("model", ()), (), cells)
    first, *others = tables
    rows = tuple(row for table in tables for row in table.rows)
    ranked = 0 if others else first.ranked
    return replace(first, name=name, title=title, rows=rows, numbers=_numbers(cells, averages), ranked=ranked)


def _scenario_table(
    run_data: RunData,
    cells: pl.DataFrame,
    averages: pl.DataFrame,
    text: Format,
    protocol: Protocol = Protocol.MCQA,
    label_end: str = "",
) -> Table:
    scenarios, means = in_paper_order(cells["scenario"]), by_column(averages, "model")
    counts = cells.with_columns(missing_episodes(cells.columns).alias("lacking"))
    lines: dict[str, list[TableCell]] = {}
    for model in order_models(cells["model"], run_data.baselines):
        scores = scenario_cells(counts.filter(model=model), scenarios, lambda row: score_cell(row, text))
        lines[model] = [*scores, average_cell(run_data, means.get(model), text)]
    table = ranked_table(run_data, "", "", [*scenarios, average_heading(scenarios)], lines, cells, protocol)
    return replace(table, rows=tuple((TableCell(name.text + label_end), *scores) for name, *scores in table.rows))


def _average_over(cells: pl.DataFrame, scenarios: Sequence[str]) -> dict[str, TableCell]:
    """Return per model the cell of its unweighted mean over these scenarios."""
    part = cells.filter(pl.col("scenario").is_in(scenarios))
    finished = (missing_episodes(part.columns) == 0).all()
    means = part.group_by("model").agg(
        pl.col("acc", "ps").mean(), finished.alias("finished"), pl.col("acc").null_count().alias("gaps")
    )
    return {row["model"]: UNFINISHED if row["gaps"] else _mean_cell(row) for row in means.iter_rows(named=True)}


def _mean_cell(row: Row) -> TableCell:
    return TableCell(acc_and_ps(row), row["acc"], style="" if row["finished"] else "unfinished")


def _numbers(*frames: pl.DataFrame) -> pl.DataFrame:
    """Return cells and averages (as scenario ``avg``) with every count and interval, for the CSV file."""
    rows = pl.concat([frame.drop("cell", strict=False) for frame in frames], how="diagonal")
    rows = rows.with_columns(pl.col("scenario").fill_null(AVERAGE))
    return rows.sort("model", "condition", "protocol", "scenario", maintain_order=True)
