"""Parts that the tables share: the order of models, cells that show the progress of unfinished cells, notes on errors."""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from envs import SCENARIOS
from envs.plural import pluralize
from envs.types import CUT_SHORT
from orchestrator.report.measures.missingness import LEAST_MISSING
from orchestrator.report.measures.paired_tests import is_significant
from orchestrator.report.run_data import RunData
from orchestrator.report.scores.metrics import CUT_SHORT_REASONS
from orchestrator.report.tables.table import MISSING, UNFINISHED, Table, TableCell, columns, line, mark_best
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
    limits = f" ({format_limits(row, 'difference')})" if interval else ""
    star = "*" if is_significant(row["p_holm"]) else "=" if is_significant(row["equal_p_holm"]) else ""
    return TableCell(f"{format_signed(row['difference'])}{star}{limits}", row["difference"])


def number_cell(value: float | None) -> TableCell:
    """Return the cell of a number, with one decimal."""
    return MISSING if value is None else TableCell(f"{value:.1f}", value)


def signed_cell(value: float | None, digits: int = 1) -> TableCell:
    """Return the cell of a difference, with its sign."""
    return MISSING if value is None else TableCell(format_signed(value, digits), value)


def format_limits(row: Row, measure: str) -> str:
    """Return the interval of a difference as text."""
    return f"{format_signed(row[f'{measure}_low'])} to {format_signed(row[f'{measure}_high'])}"


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
    """Return a sentence per cell with episodes that have no answer, or that a limit cut short."""
    rows = run_data.rows.filter(protocol=protocol)
    cut_short = [
        f"{row['cell']}: {row[ending]} of {pluralize(row['scored'], 'episode')} {reason}, counted as not right; acc is at most "
        f"{row['acc_bound']:.1f} and loops at most {row['loops_bound']:.1f} if no episode were cut short"
        for ending, reason in CUT_SHORT_REASONS.items()
        for row in rows.filter(pl.col(ending) > 0).iter_rows(named=True)
    ]
    unanswered = [
        f"{row['cell']}: {row['errors']} of {pluralize(row['finished'], 'episode')} without an answer, left out of all measures "
        f"({row['unprocessable']} unprocessable, {row['refused']} refused, {row['failed']} failed){_format_bounds(row)}"
        for row in rows.filter(pl.col("errors") > 0).iter_rows(named=True)
    ]
    return (*cut_short, *unanswered)


def _format_bounds(row: Row) -> str:
    """Return the accuracy if all missing episodes were wrong and if all were right; empty if at most 1% is missing."""
    missing = row["errors"] + sum(row[ending] for ending in CUT_SHORT)
    if missing <= LEAST_MISSING * row["finished"] or row["acc"] is None:
        return ""
    right = row["acc"] * row["scored"] / 100
    least, most = (100 * count / row["finished"] for count in (right, right + missing))
    return f"; acc is {least:.1f} to {most:.1f}, from all wrong to all right"
