"""Parts that the tables share: the order of models, cells with intervals, and the table of models x scenarios.

An unfinished cell shows its progress, and an error is never shown as a zero.
"""

import tomllib
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from actors.text.printable import list_first
from envs import SCENARIOS, in_paper_order
from envs.plural import pluralize
from envs.types import CUT_SHORT
from orchestrator.report.measures.paired import is_significant
from orchestrator.report.paper.published import AVERAGE as AVERAGE
from orchestrator.report.run_data import RunData
from orchestrator.report.scores.metrics import CUT_SHORT_REASONS, missing_episodes
from orchestrator.report.tables.table import MISSING, UNFINISHED, Style, Table, TableCell, columns, format_signed, line
from sweeps.registry import registry

MARKS = {"!": "errors", "~": "overflow", "^": "truncated", "#": "thoughts_cut"}
"""Mark after a cell -> the column that counts its cause."""
ACC_AND_PS = {"acc": ".1f", "ps": ".1f"}
"""Measures of a cell -> their formats."""
Row = Mapping[str, Any]
TEXTS = tomllib.loads(Path(__file__).with_name("texts.toml").read_text("utf-8"))
"""Table -> its title, notes and columns."""


def entitle(name: str, table: Table) -> Table:
    """Return the table with its name, title and looks, and with its first notes before its own (``texts.toml``)."""
    looks = {key: TEXTS[name][key] for key in ("title", "fold_baselines", "is_open") if key in TEXTS[name]}
    return replace(table, name=name, notes=(*TEXTS[name].get("notes", ()), *table.notes), **looks)


def order_models(names: Iterable[str], baselines: Container[str] = ()) -> list[str]:
    """Return the distinct names: models as the registry lists them, then others by name, then the baselines."""
    ranks = {name: number for number, name in enumerate(registry())}
    return sorted(set(names), key=lambda name: (name in baselines, ranks.get(name, len(ranks)), name))


def conditions_of(run_data: RunData, rows: pl.DataFrame) -> list[str]:
    """Return the conditions of these rows in the order of the sweep."""
    names = set(rows["condition"])
    return [name for name in run_data.conditions if name in names]


def model_conditions(run_data: RunData, rows: pl.DataFrame) -> Iterator[tuple[str, str, pl.DataFrame]]:
    """Yield each model and condition with their rows, in the order of the tables."""
    for model in order_models(rows["model"], run_data.baselines):
        for condition in conditions_of(run_data, rows.filter(model=model)):
            yield model, condition, rows.filter(model=model, condition=condition)


def average_heading(scenarios: Sequence[str]) -> str:
    """Return the heading of the mean over scenarios: ``avg`` for the paper's seven, else ``avg of N``."""
    return AVERAGE if set(scenarios) == set(SCENARIOS) else f"avg of {len(scenarios)}"


def by_column(rows: pl.DataFrame, column: str = "scenario") -> dict[str, dict[str, Any]]:
    """Return the rows by their value of a column."""
    return {row[column]: row for row in rows.iter_rows(named=True)}


def scenario_cells(rows: pl.DataFrame, scenarios: Sequence[str], cell: Callable[[Row], TableCell]) -> list[TableCell]:
    """Return a cell per scenario from the rows of one line, at most one per scenario."""
    cells = by_column(rows)
    return [cell(cells[name]) if name in cells else MISSING for name in scenarios]


def scenario_table(
    rows: pl.DataFrame, measures: Mapping[str, str], baselines: Container[str] = (), scenarios: Sequence[str] = ()
) -> Table:
    """Return models x scenarios (default: those of the rows) and the average of rows of results, with notes on errors.

    A line without a scenario has no average.
    """
    rows = rows.with_columns(missing_episodes(rows.columns).alias("lacking"))
    scenarios, models = scenarios or in_paper_order(rows["scenario"]), order_models(rows["model"], baselines)
    lines = []
    for model in models:
        part = rows.filter(model=model)
        cells = scenario_cells(part, scenarios, lambda row: _score_cell(row, measures))
        lines.append(line(model, [*cells, MISSING if part.height < len(scenarios) else mean_cell(part, measures)]))
    ranked = sum(model not in baselines for model in models)
    heads = columns("model", [*scenarios, average_heading(scenarios)])
    return Table("", "", heads, tuple(lines), rows, ranked, tuple(error_notes(rows)))


def _score_cell(row: Row, measures: Mapping[str, str]) -> TableCell:
    """Return a cell of results; an unfinished one shows its progress, marks name its errors."""
    marks = "".join(mark for mark, column in MARKS.items() if row.get(column))
    if row.get(next(iter(measures))) is None:
        answers = row.get("answered")
        progress = f"0 verdicts of {pluralize(answers, 'answer')}" if answers else f"{row['finished']}/{row['planned']}"
        return TableCell(progress + marks, style="unfinished")
    progress = f" ({row['planned'] - row['lacking']}/{row['planned']})" if row["lacking"] else ""
    text = f"{join_measures(row, measures)}{progress}{marks}"
    return TableCell(text, style="unfinished" if progress else "")


def mean_cell(part: pl.DataFrame, measures: Mapping[str, str]) -> TableCell:
    """Return the unweighted means over the scenarios of one line, once all of its cells are finished."""
    first = next(iter(measures))
    if part.is_empty() or first not in part.columns:
        return MISSING
    if part["lacking"].sum() or part[first].null_count():
        return UNFINISHED
    means: dict[str, Any] = {name: part[name].mean() for name in measures}
    return TableCell(join_measures(means, measures))


def join_measures(row: Row, measures: Mapping[str, str]) -> str:
    """Return the measures of a row as text, ``-`` for one without a value."""
    texts = ("-" if row[name] is None else format(row[name], digits) for name, digits in measures.items())
    return " / ".join(texts)


def error_notes(rows: pl.DataFrame) -> Iterator[str]:
    """Yield notes that name the cells with unanswered episodes and with episodes that a limit cut short."""
    meanings = {name: f"{reason}, and counted as not right" for name, reason in CUT_SHORT_REASONS.items()}
    meanings["errors"] = "without an answer, left out of all measures"
    columns = ["model", "scenario", *["condition"] * (rows["condition"].n_unique() > 1)]
    for mark, column in MARKS.items():
        names = []
        for row in rows.filter(pl.col(column) > 0).iter_rows(named=True):
            is_bounded = column in CUT_SHORT and row["acc_bound"] is not None
            bound = f" (acc at most {row['acc_bound']:.1f})" if is_bounded else ""
            names.append(f"{'/'.join(row[name] for name in columns)} {row[column]:,}{bound}")
        if names:
            yield f"{mark} {meanings[column]}: {list_first(names)}"


def measure_cell(row: Row, name: str) -> TableCell:
    """Return a measure with its interval; pale if the row is unfinished."""
    if row[name] is None:
        return MISSING
    style: Style = "unfinished" if row.get("finished", 0) < row.get("planned", 0) else ""
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    return TableCell(f"{row[name]:.1f}", "" if low is None else f"{low:.1f}–{high:.1f}", style)


def number_cell(value: float | None, form: str = ".1f") -> TableCell:
    """Return the cell of a number."""
    return MISSING if value is None else TableCell(format(value, form))


def signed_cell(row: Row | None, measure: str, digits: int = 1, interval: bool = True, p: str = "") -> TableCell:
    """Return a difference with its interval: ``*`` if ``p`` is significant, ``=`` if it is proven to be within the margin."""
    if row is None or row[measure] is None:
        return MISSING
    is_equal = p == "p_holm" and is_significant(row["equal_p_holm"])
    star = "*" if p and is_significant(row[p]) else "=" if is_equal else ""
    name = measure if f"{measure}_low" in row else measure.removesuffix("_difference")
    ends = [row[f"{name}_{end}"] for end in ("low", "high")]
    note = " to ".join(format_signed(end, digits) for end in ends) if interval and None not in ends else ""
    return TableCell(f"{format_signed(row[measure], digits)}{star}", note)
