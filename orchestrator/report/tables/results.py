"""The paper's tables from the rows of ``results.json``: models x scenarios, accuracy and suggestions, or a judge's verdicts.

An unfinished cell shows its progress, and an error is never shown as a zero.
"""

from collections.abc import Iterator, Mapping, Sequence

import polars as pl

from actors.text.printable import list_first
from envs import in_paper_order
from envs.types import CUT_SHORT
from orchestrator.report.run_data import rank_of
from orchestrator.report.scores.metrics import CUT_SHORT_REASONS, missing_episodes
from orchestrator.report.scores.package_measures import measure_names
from orchestrator.report.tables.parts import Row, progress_text, scenario_cells
from orchestrator.report.tables.table import MISSING, Table, TableCell, columns, line
from sweeps.conditions import CONDITIONS
from sweeps.registry import registry

MARKS = {"!": "errors", "~": "overflow", "^": "truncated"}
"""Mark after a cell -> the column that counts its cause."""
MULTIPLE_CHOICE = ("acc % / ps", {"acc": ".1f", "ps": "4.1f"})
FORMATS: Mapping[str, tuple[str, dict[str, str]]] = {
    "oeg": (
        "open-ended, either / category / suggestion %",
        {"aggregate": ".0f", "category": ".0f", "suggestion": ".0f"},
    ),
    "oeg-multi": ("open-ended over several turns, acc % / ps", MULTIPLE_CHOICE[1]),
    "tools": ("tool calls, acc % / ps / malformed % of turns", {**MULTIPLE_CHOICE[1], "share_unparsable": "4.1f"}),
}
"""Protocol -> title and measures (column -> format), if they are not ``MULTIPLE_CHOICE``."""


def result_tables(rows: pl.DataFrame) -> Iterator[Table]:
    """Yield a table for each condition and protocol, in the paper's order."""
    rows = rows.with_columns(missing_episodes(rows.columns).alias("lacking"))
    if "decision_map" in rows.columns:  # a decision map has no accuracy
        rows = rows.filter(~pl.col("decision_map"))
    answered = pl.col("answered").fill_null(0) if "answered" in rows.columns else pl.lit(0)
    unscored = (pl.col("scored") == 0) & (answered == 0) & (pl.col("finished") > pl.col("errors"))
    condition, model = rank_of("condition", CONDITIONS), rank_of("model", registry())
    scored_rows = rows.filter(~unscored).sort(condition, "condition", "protocol", model, "model", "scenario")
    names = measure_names(rows.columns)
    for (name, protocol), part in scored_rows.group_by(["condition", "protocol"], maintain_order=True):
        title, measures = FORMATS.get(str(protocol), MULTIPLE_CHOICE)
        title = f"{name}: {' / '.join((title, *names))}{_without_verdict(part)}"
        yield _table(part, str(name), title, measures | dict.fromkeys(names, "5.1f"))


def _table(rows: pl.DataFrame, name: str, title: str, measures: Mapping[str, str]) -> Table:
    scenarios = in_paper_order(rows["scenario"])
    lines = []
    for (model,), part in rows.group_by(["model"], maintain_order=True):
        cells = scenario_cells(part, scenarios, lambda row: _cell(row, measures))
        lines.append(line(str(model), [*cells, _average(part, measures)]))
    return Table(name, title, columns("model", [*scenarios, "avg"]), tuple(lines), rows, notes=tuple(_notes(rows)))


def _without_verdict(rows: pl.DataFrame) -> str:
    """Return the judges' names and the number of answers without a verdict."""
    if "judged" not in rows.columns or not rows["answered"].sum():
        return ""
    judges = ", ".join(rows["judge"].drop_nulls().unique().sort()) or "nobody"
    answered = int(rows["answered"].sum())
    return f" (by {judges}; {answered - int(rows['judged'].sum()):,} of {answered:,} answers without a verdict)"


def _notes(rows: pl.DataFrame) -> Iterator[str]:
    """Yield notes that name the cells with unanswered episodes and with episodes that a limit cut short."""
    meanings = {name: f"{reason}, and counted as not right" for name, reason in CUT_SHORT_REASONS.items()}
    meanings["errors"] = "without an answer, left out of all measures"
    for mark, column in MARKS.items():
        affected = rows.filter(pl.col(column) > 0)
        if affected.height:
            names = [_name_cell(row, column) for row in affected.iter_rows(named=True)]
            yield f"{mark} {meanings[column]}: {list_first(names)}"


def _name_cell(row: Row, column: str) -> str:
    bound = f" (acc at most {row['acc_bound']:.1f})" if column in CUT_SHORT else ""
    return f"{row['model']}/{row['scenario']} {row[column]:,}{bound}"


def _cell(row: Row, measures: Mapping[str, str]) -> TableCell:
    marks = "".join(mark for mark, column in MARKS.items() if row.get(column))
    values = [row.get(name) for name in measures]
    if values[0] is None:
        return TableCell(progress_text(row) + marks)
    if row["lacking"]:
        marks = f" ({row['planned'] - row['lacking']}/{row['planned']}){marks}"
    return TableCell(_join(values, measures) + marks, style="unfinished" if row["lacking"] else "")


def _average(part: pl.DataFrame, measures: Mapping[str, str]) -> TableCell:
    first = next(iter(measures))
    if part["lacking"].sum():
        return TableCell("unfinished")
    if first not in part.columns or part[first].null_count():
        return MISSING
    return TableCell(_join([part[name].mean() for name in measures], measures))


def _join(values: Sequence[object], measures: Mapping[str, str]) -> str:
    pairs = zip(values, measures.values(), strict=True)
    return " /".join("-" if value is None else format(value, digits) for value, digits in pairs)
