"""Accuracy and suggestions as in the paper's tables: by scenario, by condition, and against the clear image."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import polars as pl

from actors.playing.turn_judge import turn_judge_key
from envs import in_paper_order
from envs.plural import pluralize
from orchestrator.report.measures.estimates import estimate
from orchestrator.report.run_data import RunData
from orchestrator.report.scores.metrics import missing_episodes
from orchestrator.report.tables.paper_comparison import compare_with_paper, comparison_notes
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

MOST_NOTES = 6
"""Most sentences on the comparison with the paper below the main table; `compare` prints all."""

OTHERS = (Protocol.OEG_MULTI.value, Protocol.TOOLS.value)
"""Protocols with turns other than multiple choice."""


def main_table(run_data: RunData) -> Table:
    """Return models x scenarios under zero-shot, acc and ps, the average at the end (paper, Table 1), beside the published."""
    cells, averages = (frame.filter(condition=ZERO_SHOT, protocol="mcqa") for frame in estimate(run_data))
    compared = compare_with_paper(run_data).filter(condition=ZERO_SHOT, protocol="mcqa")
    published = compared.filter(pl.col("published").is_not_null())
    figures = {(row["model"], row["scenario"], row["measure"]): row for row in published.iter_rows(named=True)}
    table = _scenario_table(run_data, cells, averages, acc_and_ps)
    scenarios = [*in_paper_order(cells["scenario"]), AVERAGE]
    rows = tuple(
        (
            name,
            *(
                _beside_paper(cell, figures, name.text, scenario)
                for cell, scenario in zip(line, scenarios, strict=True)
            ),
        )
        for name, *line in table.rows
    )
    notes = [
        "Accuracy in percent / suggestions per episode, in brackets the paper's. * more than rounding and flips allow."
    ]
    notes += comparison_notes(compared)[:MOST_NOTES]
    return replace(
        table, name="main", title="Zero-shot, as the paper's main table", rows=rows, numbers=_numbers(cells, averages),
        notes=(*notes, *table.notes), fold_baselines=True, is_open=True,
    )  # fmt: skip


def _beside_paper(cell: TableCell, figures: Mapping[tuple[str, str, str], Row], model: str, scenario: str) -> TableCell:
    """Return the cell with the published figures as its note; a star marks those that disagree."""
    rows = [figures.get((model, scenario, measure)) for measure in ("acc", "ps")]
    texts = ["-" if row is None else f"{row['published']:.1f}{'*' * (row['inside'] is False)}" for row in rows]
    return replace(cell, note=" / ".join(texts)) if any(rows) else cell


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
    title = "Conditions, averaged over their scenarios"
    table = ranked_table(run_data, "conditions", title, [*everywhere, *subset_head, *examples], lines, averages, "mcqa")
    return replace(table, notes=("Accuracy in percent / suggestions per episode.", *table.notes), fold_baselines=True)


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
    numbers = _numbers(clear, clear_averages, played, averages)
    notes = ("Accuracy in percent: on the clear image / under zero-shot.", *table.notes)
    title = "Clear image against zero-shot"
    return replace(table, name="reference", title=title, numbers=numbers, notes=notes, fold_baselines=True)


def other_protocols_table(run_data: RunData) -> Table:
    """Return acc and ps of open-ended answers over several turns (paper, Table 10) and of tool calls."""
    cells, averages = (frame.filter(pl.col("protocol").is_in(OTHERS)) for frame in estimate(run_data))
    tables, notes = [], []
    for protocol in OTHERS:
        for condition in conditions_of(run_data, cells.filter(protocol=protocol)):
            same = {"protocol": protocol, "condition": condition}
            label = f", {condition} ({protocol})"
            part, means = cells.filter(**same), averages.filter(**same)
            tables.append(_scenario_table(run_data, part, means, acc_and_ps, protocol, label))
    if Protocol.OEG_MULTI.value in set(cells["protocol"]) and run_data.sweep.turn_judge:
        notes.append(f"{Protocol.OEG_MULTI.value}: answers are read by {turn_judge_key(run_data.sweep.turn_judge)}.")
    if calls := int(cells.filter(protocol=Protocol.TOOLS.value).height):
        notes.append(_malformed_calls(run_data, calls))
    if not tables:
        return Table("turns", "", columns("model", ()), (), cells)
    rows = tuple(row for table in tables for row in table.rows)
    numbers = _numbers(cells, averages)
    return replace(
        tables[0], name="turns", title="Several turns and tool calls", rows=rows, numbers=numbers, ranked=0,
        notes=("Accuracy in percent / suggestions per episode.", *notes),
    )  # fmt: skip


def _malformed_calls(run_data: RunData, cells: int) -> str:
    """Return how many turns of tool calls were malformed."""
    rows = run_data.rows.filter(protocol=Protocol.TOOLS.value)
    turns = int(rows["turns"].sum())
    share = float((rows["share_unparsable"].fill_null(0) * rows["turns"]).sum()) / max(turns, 1)
    return f"Of {turns:,} turns with tools in {pluralize(cells, 'cell')}, {share:.1f}% are malformed calls."


def _scenario_table(
    run_data: RunData,
    cells: pl.DataFrame,
    averages: pl.DataFrame,
    text: Format,
    protocol: str = Protocol.MCQA,
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
