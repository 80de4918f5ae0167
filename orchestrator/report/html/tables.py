"""The sortable tables of the page, as data: texts with the values that they are sorted by.

Nothing in them is markup. Unfinished is a column of every table of cells, and an error is never a zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

import polars as pl

from envs import SCENARIOS
from envs.types import CUT_SHORT
from orchestrator.report.efficiency import efficiency, lift
from orchestrator.report.escaping import Grid
from orchestrator.report.estimates import Estimates
from orchestrator.report.grid_parts import models
from orchestrator.report.html.escape import visible
from orchestrator.report.lenient import leniency
from orchestrator.report.paired_tests import ALPHA, against, significant
from orchestrator.report.paper_comparison import reasons
from orchestrator.report.plot_style import ACTIONS
from orchestrator.report.run_data import RunData
from orchestrator.report.wording import signed
from sweeps.conditions import CONDITIONS

Row = Mapping[str, Any]
GAP = "–"
"""Shown where there is no number; it sorts last in both directions."""


@dataclass(frozen=True, slots=True)
class TableCell:
    """One entry of a table."""

    text: str
    value: float | str | None = None
    """What it is sorted by; None is always last."""
    note: str = ""
    """Smaller, behind the text: an interval, a count."""
    style: str = ""
    """``best``, ``second``, ``pale`` (unfinished), ``warn``, ``name`` or nothing."""
    shares: tuple[tuple[str, float, float], ...] = ()
    """A stacked bar instead of text: name, start and width in percent."""
    span: tuple[float, float, float] | None = None
    """An interval to draw on a scale of 0 to 100: value, low, high."""
    link: str = ""
    """Fragment of an address in this page, or in ``page``."""
    page: str = ""
    """Relative address of another page that ``link`` is in."""


@dataclass(frozen=True, slots=True)
class Column:
    """A table's column; ``about`` explains it on demand."""

    name: str
    about: str = ""
    number: bool = True
    filter: bool = False
    """Whether its values can be picked from a list."""


@dataclass(frozen=True, slots=True)
class PageTable:
    """A sortable table."""

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[TableCell, ...], ...]
    notes: tuple[str, ...] = field(default=())
    search: bool = False
    """Whether it has filters and a search field."""
    folded: tuple[tuple[TableCell, ...], ...] = ()
    """Rows of baselines that are shown on demand."""


NAMES = tuple(Column(name, number=False, filter=True) for name in ("Model", "Scenario", "Condition"))
"""Of a table with one row a cell: its first columns."""
CELLS = (
    *NAMES,
    Column("Acc %", "share of scored episodes that end correct, with its 95% interval (Agresti-Coull)"),
    Column("First turn %", "share of scored episodes that end correct at the first turn: what needs no help"),
    Column("ps", "suggestions per episode (mean of turns - 1), with its 95% score interval"),
    Column(
        "Answers", "what the answers were: suggestion, right category, wrong category, abstention, unparsable", False
    ),
    Column(
        "vs zero-shot",
        f"points of accuracy on the same samples; * exact McNemar, Holm over all models, p < {ALPHA}",
    ),
    Column(
        "Lift",
        "points of accuracy above blind choice among the options, by exact computation where the data is at hand",
    ),
    Column("Efficiency", "percent: right answers weighted by needed turns over turns taken"),
    Column("Loops %", "share of scored episodes that end at the turn limit"),
    Column("Readable", "episodes that ended unparsable, and how many of them a lenient reader would have understood"),
    Column("Played", "finished (of planned) episodes; the number opens the browser of episodes at this cell"),
    Column(
        "Overflow",
        "episodes that outgrew the model's context or pictures: scored as not right; beside it, what acc is at most",
    ),
    Column(
        "Truncated",
        "episodes whose last reply is empty because its tokens were spent: scored as not right; beside it, what acc is at most",
    ),
    Column("Errors", "episodes without an answer: unprocessable, refused or failed; they count in no measure"),
)


def cells(run_data: RunData, intervals: Estimates) -> PageTable:
    """Every cell with every measure: model x scenario x condition."""
    change = {_place(row): row for row in against(run_data).iter_rows(named=True)}
    lifts = {row["cell"]: row["lift"] for row in lift(run_data).iter_rows(named=True)}
    worth = {row["cell"]: row["efficiency"] for row in efficiency(run_data).iter_rows(named=True)}
    read = {row["cell"]: row for row in leniency(run_data).iter_rows(named=True)}
    rows = [
        _cell(row, change.get(_place(row)), lifts.get(row["cell"]), worth.get(row["cell"]), read.get(row["cell"]))
        for row in _sorted(run_data, intervals.cells).iter_rows(named=True)
    ]
    notes = ("Intervals are 95%. Pale rows are unfinished: their measures are of what is played.",)
    return PageTable("cells", "Every cell", CELLS, tuple(rows), notes, search=True)


def _place(row: Row) -> tuple[str, ...]:
    return row["model"], row["scenario"], row["condition"], row["protocol"]


def _sorted(run_data: RunData, rows: pl.DataFrame) -> pl.DataFrame:
    """Models first, then baselines; scenarios and conditions in the paper's order."""
    model = {name: n for n, name in enumerate(models(run_data, rows["model"]))}
    scenario = {name: n for n, name in enumerate(SCENARIOS)}
    condition = {name: n for n, name in enumerate(CONDITIONS)}
    return rows.sort(
        pl.col("model").replace_strict(model, return_dtype=pl.Int64),
        pl.col("scenario").replace_strict(scenario, default=99, return_dtype=pl.Int64),
        pl.col("condition").replace_strict(condition, default=99, return_dtype=pl.Int64), "condition", "protocol",
    )  # fmt: skip


def names(row: Row) -> tuple[TableCell, ...]:
    """A cell's values of ``NAMES``; the condition names its protocol where that is not multiple choice."""
    protocol = "" if row["protocol"] == "mcqa" else f" ({row['protocol']})"
    model, scenario, condition = map(visible, (row["model"], row["scenario"], row["condition"] + protocol))
    return TableCell(model, model, style="name"), TableCell(scenario, scenario), TableCell(condition, condition)


def _cell(
    row: Row, change: Row | None, above: float | None, worth: float | None, read: Row | None
) -> tuple[TableCell, ...]:
    unfinished = row["finished"] < row["planned"]
    unparsable = 0 if read is None else read["unparsable"]
    played = f"{row['finished']:,}" if not unfinished else f"{row['finished']:,}/{row['planned']:,}"
    link = urlencode({part: row[part] for part in ("model", "scenario", "condition")}) if row["finished"] else ""
    return (
        *names(row),
        _measure(row, "acc", span=True),
        _number(row["acc_first"]),
        _measure(row, "ps"),
        _answers(row),
        _change(change),
        TableCell(GAP) if above is None else TableCell(signed(above), above),
        _number(worth),
        _number(row["loops"]),
        TableCell(f"{read['readable']:,} of {unparsable:,}", read["readable"])
        if read and unparsable
        else TableCell(GAP),
        TableCell(played, row["finished"] / max(row["planned"], 1), style="pale" if unfinished else "", link=link),
        *(_cut_short(row, str(ending)) for ending in CUT_SHORT),
        TableCell(f"{row['errors']:,}", row["errors"], style="warn" if row["errors"] else ""),
    )


def _cut_short(row: Row, ending: str) -> TableCell:
    if not row[ending]:
        return TableCell("0", 0)
    return TableCell(f"{row[ending]:,}", row[ending], f"acc ≤ {row['acc_bound']:.1f}", "warn")


def _measure(row: Row, name: str, span: bool = False) -> TableCell:
    value, low, high = row[name], row[f"{name}_low"], row[f"{name}_high"]
    if value is None:
        return TableCell(GAP)
    return TableCell(
        f"{value:.1f}", value, f"{low:.1f}–{high:.1f}", "pale" if row["finished"] < row["planned"] else "",
        span=(value, low, high) if span else None,
    )  # fmt: skip


def _answers(row: Row) -> TableCell:
    if row["share_suggestion"] is None:
        return TableCell(GAP)
    shares = {**row, "share_wrong": row["share_category"] - row["share_right"]}
    start, parts = 0.0, []
    for name, (label, _, _) in ACTIONS.items():
        width = max(0.0, round(shares[name], 3))
        if width:
            parts.append((label, round(start, 3), width))
        start += width
    return TableCell(
        ", ".join(f"{label} {width:.0f}%" for label, _, width in parts), row["share_suggestion"], shares=tuple(parts)
    )


def _change(row: Row | None) -> TableCell:
    if row is None:
        return TableCell(GAP)
    sure = significant(row["p_holm"])
    style = ("up" if row["difference"] > 0 else "down") if sure else ""
    return TableCell(signed(row["difference"]) + ("*" if sure else ""), row["difference"], style=style)


def _number(value: float | None) -> TableCell:
    return TableCell(GAP) if value is None else TableCell(f"{value:.1f}", value)


def page_table(grid: Grid) -> PageTable:
    """A table of the paper as a sortable table; of the paired one the rows of baselines are folded away."""
    rows = tuple(
        (
            TableCell(visible(name), place, style="name"),
            *[
                TableCell(
                    visible(entry.text),
                    entry.value,
                    style="pale" if entry.unfinished else entry.mark,
                    link=f"episode={quote(entry.episode)}" if entry.episode else "",
                )
                for entry in entries
            ],
        )
        for place, (name, entries) in enumerate(grid.rows)
    )
    columns = (Column(grid.subject.capitalize(), number=False), *[Column(visible(name)) for name in grid.columns])
    notes = tuple(visible(note, 400) for note in grid.notes)
    first = grid.ranked if grid.name == "paired" and grid.ranked else len(rows)
    return PageTable(grid.name, visible(grid.title, 400), columns, rows[:first], notes, folded=rows[first:])


def beside_paper(rows: pl.DataFrame) -> PageTable | None:
    """Ours beside the published figures (``compare.compared``); None where neither can be compared nor refused."""
    if rows.is_empty():
        return None
    known = rows.filter(pl.col("published").is_not_null())
    columns = (
        *NAMES, Column("Measure", number=False, filter=True), Column("Ours"),
        Column("Published"), Column("Difference"),
        Column("Episodes", "decoded as the package does: episodes that ended otherwise, or suggestions for ps; at least"),
        Column("Agrees", "no episode differs, rounding allowed; decoded otherwise or open-ended: it lies in our interval"),
    )  # fmt: skip
    compared = tuple(_beside(row) for row in known.iter_rows(named=True))
    return PageTable(
        "paper",
        "Ours beside the paper's",
        columns,
        compared,
        tuple(visible(r, 500) for r in reasons(rows)),
        bool(compared),
    )


def _beside(row: Row) -> tuple[TableCell, ...]:
    names = [visible(row[name]) for name in ("model", "scenario", "condition", "measure")]
    return (
        *[TableCell(name, name, style="name" if n == 0 else "") for n, name in enumerate(names)],
        TableCell(f"{row['ours']:.1f}", row["ours"], f"{row['low']:.1f}–{row['high']:.1f}"),
        TableCell(f"{row['published']:.1f}", row["published"]),
        TableCell(signed(row["difference"]), row["difference"]),
        TableCell(GAP) if row["episodes"] is None else TableCell(signed(row["episodes"], 0), row["episodes"]),
        TableCell("yes", 1) if row["inside"] else TableCell("no", 0, style="warn"),
    )


def choices(table: PageTable) -> Sequence[tuple[int, Column, list[str]]]:
    """The columns that can be filtered, with their values in order of appearance."""
    found = []
    for place, column in enumerate(table.columns):
        values = list(dict.fromkeys(row[place].text for row in table.rows))
        if column.filter and len(values) > 1:
            found.append((place, column, values))
    return found
