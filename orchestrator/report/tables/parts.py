"""Parts that the tables share: the order of models, cells that show the progress of unfinished cells, notes on errors."""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from actors.text.printable import list_first
from envs import SCENARIOS
from envs.plural import pluralize
from orchestrator.report.measures.paired_tests import is_significant
from orchestrator.report.run_data import RunData
from orchestrator.report.scores.metrics import CUT_SHORT_REASONS
from orchestrator.report.tables.table import MISSING, UNFINISHED, Style, Table, TableCell, columns, line, mark_best
from orchestrator.report.wording import format_signed
from sweeps.registry import registry

AVERAGE = "avg"
Row = Mapping[str, Any]
Format = Callable[[Row], str]


def order_models(names: Iterable[str], baselines: Container[str]) -> list[str]:
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


def ranked_table(
    run_data: RunData,
    name: str,
    title: str,
    heads: Sequence[str],
    lines: Mapping[str, Sequence[TableCell]],
    numbers: pl.DataFrame,
    protocol: str,
) -> Table:
    """Return a table with a line per model that marks the best and the second model, or baseline if there are no models.

    A marked model is also above every baseline except the oracle.
    """
    ranked = [model not in run_data.baselines for model in lines]
    oracles = set(run_data.models_of_policy("oracle"))
    baselines = [not is_model and model not in oracles for model, is_model in zip(lines, ranked, strict=True)]
    rows = [line(model, cells) for model, cells in lines.items()]
    marked = (
        mark_best(rows, ranked, baselines) if any(ranked) else mark_best(rows, [True] * len(rows), [False] * len(rows))
    )
    return Table(name, title, columns("model", heads), marked, numbers, sum(ranked), _error_notes(run_data, protocol))


def score_cell(row: Row, text: Format, measure: str = "acc") -> TableCell:
    """Return the cell of a scored row; an unfinished one shows its progress."""
    if row[measure] is None:
        return TableCell(progress_text(row), style="unfinished")
    if missing := row["lacking"]:
        progress = f"{row['planned'] - missing}/{row['planned']}"
        return TableCell(f"{text(row)} ({progress})", row[measure], style="unfinished")
    return TableCell(text(row), row[measure])


def progress_text(row: Row) -> str:
    """Return the progress of a row without a score: its verdicts if it has answers for a judge, else its episodes."""
    answers = row.get("answered")
    return f"0 verdicts of {pluralize(answers, 'answer')}" if answers else f"{row['finished']}/{row['planned']}"


def average_cell(run_data: RunData, row: Row | None, text: Format | None = None) -> TableCell:
    """Return the cell of an average, which is finished when every planned scenario is."""
    if row is None:
        return MISSING
    same = [pl.col(name) == row[name] for name in ("model", "condition", "protocol")]
    planned = run_data.rows.filter(same)["scenario"].n_unique()
    if row["acc"] is None:
        return UNFINISHED
    average = (text or acc_and_ps)(row)
    if row["complete"] < planned:
        progress = f"{row['complete']} of {pluralize(planned, 'scenario')}"
        return TableCell(f"{average} ({progress})", row["acc"], style="unfinished")
    return TableCell(average, row["acc"])


def change_cell(row: Row | None, interval: bool = False) -> TableCell:
    """Return the cell of a paired difference in points: ``*`` if significant, ``=`` if proven to be within the margin."""
    if row is None or row["difference"] is None:
        return MISSING
    star = "*" if is_significant(row["p_holm"]) else "=" if is_significant(row["equal_p_holm"]) else ""
    note = format_limits(row, "difference") if interval else ""
    return TableCell(f"{format_signed(row['difference'])}{star}", row["difference"], note)


def number_cell(value: float | None) -> TableCell:
    """Return the cell of a number, with one decimal."""
    return MISSING if value is None else TableCell(f"{value:.1f}", value)


def measure_cell(row: Row, name: str) -> TableCell:
    """Return a measure with its interval; pale if the row is unfinished."""
    if row[name] is None:
        return MISSING
    style: Style = "unfinished" if row["finished"] < row["planned"] else ""
    return TableCell(f"{row[name]:.1f}", row[name], format_range(row, name), style)


def signed_cell(row: Row, measure: str, digits: int = 1, star: str = "") -> TableCell:
    """Return a difference with its interval."""
    value = row[measure]
    if value is None:
        return MISSING
    return TableCell(f"{format_signed(value, digits)}{star}", value, format_limits(row, measure, digits))


def format_limits(row: Row, measure: str, digits: int = 1) -> str:
    """Return the interval of a difference as text, "" without one; that of ``ps_difference`` is in ``ps_low`` and ``ps_high``."""
    name = measure if f"{measure}_low" in row else measure.removesuffix("_difference")
    ends = [row[f"{name}_{end}"] for end in ("low", "high")]
    return "" if None in ends else " to ".join(format_signed(end, digits) for end in ends)


def format_range(row: Row, measure: str, digits: int = 1) -> str:
    """Return the interval of a measure as ``41.2–45.0``, "" without one."""
    low, high = row[f"{measure}_low"], row[f"{measure}_high"]
    return "" if low is None else f"{low:.{digits}f}–{high:.{digits}f}"


def acc_and_ps(row: Row) -> str:
    """Return accuracy and suggestions as text."""
    return f"{row['acc']:.1f} / {row['ps']:.1f}"


def one_decimal(row: Row | None, measure: str) -> str:
    """Return a measure as text, ``-`` if there is none."""
    return "-" if row is None or row[measure] is None else f"{row[measure]:.1f}"


def _error_notes(run_data: RunData, protocol: str) -> tuple[str, ...]:
    """Return one sentence on episodes without an answer, and one per kind of episode that a limit cut short."""
    rows, notes = run_data.rows.filter(protocol=protocol), []
    if errors := int(rows["errors"].sum()):
        cells = rows.filter(pl.col("errors") > 0)["cell"].to_list()
        notes.append(f"{pluralize(errors, 'episode')} without an answer, left out of all measures: {list_first(cells)}")
    for ending, reason in CUT_SHORT_REASONS.items():
        cells = rows.filter(pl.col(ending) > 0)["cell"].to_list()
        if cells:
            count = pluralize(int(rows[ending].sum()), "episode")
            notes.append(f"{count} {reason}, counted as not right: {list_first(cells)}")
    return tuple(notes)
