"""What tables are made of: rows by model, entries that say how far an unfinished cell is, notes on errors."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from envs import SCENARIOS, in_order
from orchestrator.report import escaping
from orchestrator.report.escaping import MISSING, Entry, Grid
from orchestrator.report.metrics import CUT
from orchestrator.report.paired_tests import significant
from orchestrator.report.run_data import RunData
from orchestrator.report.wording import counted, signed
from sweeps.load import registry

AVERAGE = "avg"
Row = Mapping[str, Any]
Format = Callable[[Row], str]
Line = tuple[str, tuple[Entry, ...]]


def models(run_data: RunData, names: Iterable[str]) -> list[str]:
    """The names that occur: models as the registry lists them, then others by name, then the baselines."""
    return ordered(names, run_data.baselines)


def ordered(names: Iterable[str], baselines: Container[str]) -> list[str]:
    """The same, by the names of the run's baselines."""
    known = {name: place for place, name in enumerate(registry())}
    return sorted(set(names), key=lambda name: (name in baselines, known.get(name, len(known)), name))


def averaged(scenarios: Sequence[str]) -> str:
    """The heading of the mean over these scenarios: the paper's name only where they are its seven."""
    return AVERAGE if set(scenarios) == set(SCENARIOS) else f"avg of {len(scenarios)}"


def by_scenario(run_data: RunData, cells: pl.DataFrame, text: Callable[[Row], Entry]) -> tuple[list[str], list[Line]]:
    """The scenarios of these cells (one condition's), and a row a model with an entry for each."""
    scenarios, rows = in_order(cells["scenario"]), []
    for model in models(run_data, cells["model"]):
        found = {row["scenario"]: row for row in cells.filter(model=model).iter_rows(named=True)}
        rows.append((model, tuple(text(found[name]) if name in found else MISSING for name in scenarios)))
    return scenarios, rows


def cell_grid(
    run_data: RunData,
    name: str,
    title: str,
    columns: Sequence[str],
    rows: list[tuple[str, list[Entry]]],
    numbers: pl.DataFrame,
    protocol: str,
) -> Grid:
    """Best and second are marked among models; among baselines only where there is nothing else."""
    ranked = [model not in run_data.baselines for model, _ in rows]
    marked = escaping.marked(rows, ranked if any(ranked) else [True] * len(rows))
    return Grid(name, title, tuple(columns), marked, numbers, sum(ranked), _errors(run_data, protocol))


def entry(row: Row | None, text: Format, measure: str = "acc") -> Entry:
    if row is None:
        return MISSING
    if row[measure] is None:
        return Entry(f"{row['finished']}/{row['planned']}", None, unfinished=True)
    if left := row["lacking"]:
        return Entry(f"{text(row)} ({row['planned'] - left}/{row['planned']})", row[measure], unfinished=True)
    return Entry(text(row), row[measure])


def average_entry(run_data: RunData, row: Row | None, text: Format | None = None) -> Entry:
    """An average counts as finished when every planned scenario is."""
    if row is None:
        return MISSING
    same = [pl.col(name) == row[name] for name in ("model", "condition", "protocol")]
    planned = run_data.rows.filter(same)["scenario"].n_unique()
    if row["acc"] is None:
        return Entry("unfinished", None, unfinished=True)
    shown = (text or acc_ps)(row)
    if row["complete"] < planned:
        return Entry(f"{shown} ({row['complete']} of {counted(planned, 'scenario')})", row["acc"], unfinished=True)
    return Entry(shown, row["acc"])


def change(row: Row | None, span: bool = False) -> Entry:
    if row is None:
        return MISSING
    interval = f" ({signed(row['difference_low'])} to {signed(row['difference_high'])})" if span else ""
    return Entry(f"{signed(row['difference'])}{'*' if significant(row['p_holm']) else ''}{interval}", row["difference"])


def _errors(run_data: RunData, protocol: str) -> tuple[str, ...]:
    """One sentence a cell that has episodes without an answer, or episodes that a limit cut short."""
    bad = run_data.rows.filter((pl.col("protocol") == protocol) & (pl.col("errors") > 0))
    return (*_cut_short(run_data.rows.filter(protocol=protocol)), *_without_answer(bad))


def _cut_short(rows: pl.DataFrame) -> tuple[str, ...]:
    return tuple(
        f"{row['cell']}: {row[ending]} of {counted(row['scored'], 'episode')} {what}, counted as not right; acc is at most "
        f"{row['acc_bound']:.1f} and loops at most {row['loops_bound']:.1f} where nothing were cut"
        for ending, what in CUT.items()
        for row in rows.filter(pl.col(ending) > 0).iter_rows(named=True)
    )


def _without_answer(bad: pl.DataFrame) -> tuple[str, ...]:
    return tuple(
        f"{row['cell']}: {row['errors']} of {counted(row['finished'], 'episode')} without an answer, and in no measure "
        f"({row['unprocessable']} unprocessable, {row['refused']} refused, {row['failed']} failed)"
        for row in bad.iter_rows(named=True)
    )


def acc_ps(row: Row) -> str:
    return f"{row['acc']:.1f} / {row['ps']:.1f}"


def rounded(row: Row | None, measure: str) -> str:
    return "-" if row is None or row[measure] is None else f"{row[measure]:.1f}"
