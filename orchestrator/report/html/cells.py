"""The tables with a row per cell (model x scenario x condition): its measures, what it cost, and the paper's figures.

Progress is a column of the table of cells, and an error is never a zero.
"""

from urllib.parse import urlencode

import polars as pl

from envs import SCENARIOS
from envs.types import CUT_SHORT
from orchestrator.report.comparisons.paper_comparison import comparison_notes
from orchestrator.report.figures.style import ACTIONS
from orchestrator.report.measures.efficiency import efficiency, lift_over_chance
from orchestrator.report.measures.estimates import estimate
from orchestrator.report.measures.lenient import leniency
from orchestrator.report.measures.paired_tests import compare_conditions, is_significant
from orchestrator.report.measures.resources import resources
from orchestrator.report.run_data import RunData, rank_of
from orchestrator.report.statistics.exact_tests import ALPHA
from orchestrator.report.tables.parts import Row, by_column, format_limits, format_range, order_models, signed_cell
from orchestrator.report.tables.table import MISSING, Column, Line, Style, Table, TableCell
from orchestrator.report.wording import format_signed
from sweeps.conditions import CONDITIONS

NAMES = tuple(Column(name, number=False, filter=True) for name in ("Model", "Scenario", "Condition"))
CELLS = (
    *NAMES,
    Column("Acc %", "share of scored episodes that end correct, with its 95% interval (Agresti-Coull)"),
    Column("First turn %", "share of scored episodes that end correct at the first turn, without any help"),
    Column("ps", "suggestions per episode (mean of turns - 1), with its 95% score interval"),
    Column(
        "Answers", "shares of the answers: suggestion, right category, wrong category, abstention, unparsable", False
    ),
    Column(
        "vs zero-shot",
        f"points of accuracy on the same samples; * exact McNemar, Holm over all models, p < {ALPHA}",
    ),
    Column("Lift", "points of accuracy above blind choice among the options, computed exactly where the data is available"),
    Column("Efficiency", "percent: right answers weighted by needed turns over turns taken"),
    Column("Loops %", "share of scored episodes that end at the turn limit"),
    Column("Readable", "episodes that ended unparsable, and how many of them a lenient reader would have understood"),
    Column("Played", "finished (of planned) episodes; the number opens the episode browser at this cell"),
    Column("Overflow", "episodes that outgrew the model's context or pictures: scored as not right; acc ≤ is the upper bound"),
    Column(
        "Truncated",
        "episodes whose last reply is empty because its tokens were spent: scored as not right; acc ≤ is the upper bound",
    ),
    Column("Errors", "episodes without an answer: unprocessable, refused or failed; no measure counts them"),
)  # fmt: skip
RESOURCES = (
    *NAMES,
    Column("Played", "episodes that were played here; those taken over from other runs cost nothing"),
    Column("Tokens", "prompts and replies, as the engine counts them"),
    Column("Cost", "paid to the service, in the currency of its prices; in brackets, per 1,000 episodes"),
    Column("GPU-hours", "time in which replicas played, times their GPUs; loading is not included"),
    Column("kWh", "of the cluster's GPUs by the drivers' power readings, shared by GPU-hours"),
)
PAPER = (
    *NAMES,
    Column("Measure", number=False, filter=True),
    Column("Ours"),
    Column("Published"),
    Column("Difference"),
    Column("Episodes", "fewest episodes (ps: suggestions) that explain the difference; only if decoded as the package does"),
    Column("Agrees", "no episode differs, up to rounding; if decoded differently or open-ended: it lies in our interval"),
)  # fmt: skip


# -- measures ----------------------------------------------------------------------------------------------------------
def cells_table(run_data: RunData) -> Table:
    """Return one row per cell with all its measures."""
    changes = {_names(row): row for row in compare_conditions(run_data).iter_rows(named=True)}
    lifts = by_column(lift_over_chance(run_data), "cell")
    efficiencies = by_column(efficiency(run_data), "cell")
    readings = by_column(leniency(run_data), "cell")
    lines = []
    for row in _sort(run_data, estimate(run_data).cells).iter_rows(named=True):
        lift, turns, reading = (rows.get(row["cell"]) for rows in (lifts, efficiencies, readings))
        lines.append(
            (
                *_name_cells(row),
                measure_cell(row, "acc", span=True),
                measure_cell(row, "acc_first"),
                measure_cell(row, "ps"),
                _answers(row),
                _change(changes.get(_names(row))),
                _lift(lift),
                measure_cell({**row, **turns}, "efficiency") if turns else MISSING,
                measure_cell(row, "loops"),
                _readable(reading),
                played_cell(row, _episodes_link(row)),
                *(_cut_short(row, str(ending)) for ending in CUT_SHORT),
                TableCell(f"{row['errors']:,}", row["errors"], style="warn" if row["errors"] else ""),
            )
        )
    notes = ("Intervals are 95%. Pale rows are unfinished: their measures cover the finished episodes.",)
    return Table("cells", "Every cell", CELLS, tuple(lines), notes=notes, search=True)


def _name_cells(row: Row) -> Line:
    """Return the values of ``NAMES``; the condition names its protocol if that is not multiple choice."""
    protocol = "" if row["protocol"] == "mcqa" else f" ({row['protocol']})"
    names = (row["model"], row["scenario"], row["condition"] + protocol)
    return tuple(TableCell(name, name) for name in names)


def _names(row: Row) -> tuple[str, ...]:
    return row["model"], row["scenario"], row["condition"], row["protocol"]


def _sort(run_data: RunData, rows: pl.DataFrame) -> pl.DataFrame:
    """Sort models before baselines, and scenarios and conditions in the paper's order."""
    model = rank_of("model", order_models(rows["model"], run_data.baselines))
    return rows.sort(model, rank_of("scenario", SCENARIOS), rank_of("condition", CONDITIONS), "condition", "protocol")


def measure_cell(row: Row, name: str, span: bool = False) -> TableCell:
    """Return a measure with its interval, which the page also draws if ``span``."""
    value = row[name]
    if value is None:
        return MISSING
    limits = (value, row[f"{name}_low"], row[f"{name}_high"]) if span else None
    return TableCell(f"{value:.1f}", value, format_range(row, name), progress_style(row), span=limits)


def progress_style(row: Row) -> Style:
    """Return the style of a row's cells."""
    return "unfinished" if row["finished"] < row["planned"] else ""


def _answers(row: Row) -> TableCell:
    if row["share_suggestion"] is None:
        return MISSING
    shares = {**row, "share_wrong": row["share_category"] - row["share_right"]}
    start, bars = 0.0, []
    for name, (label, _, _) in ACTIONS.items():
        width = max(0.0, round(shares[name], 3))
        if width:
            bars.append((label, round(start, 3), width))
        start += width
    text = ", ".join(f"{label} {width:.0f}%" for label, _, width in bars)
    return TableCell(text, row["share_suggestion"], shares=tuple(bars))


def _change(row: Row | None) -> TableCell:
    if row is None:
        return MISSING
    significant = is_significant(row["p_holm"])
    direction: Style = "up" if row["difference"] > 0 else "down"
    text = format_signed(row["difference"]) + "*" * significant
    return TableCell(text, row["difference"], style=direction if significant else "")


def _lift(row: Row | None) -> TableCell:
    if row is None or row["lift"] is None:
        return MISSING
    limits = "" if row["lift_low"] is None else format_limits(row, "lift")
    return TableCell(format_signed(row["lift"]), row["lift"], limits)


def _readable(row: Row | None) -> TableCell:
    if row is None or not row["unparsable"]:
        return MISSING
    return TableCell(f"{row['readable']:,} of {row['unparsable']:,}", row["readable"])


def played_cell(row: Row, link: str = "") -> TableCell:
    """Return the cell with the number of finished episodes; ``3/10`` if the row is unfinished."""
    text = f"{row['finished']:,}" + (f"/{row['planned']:,}" if row["finished"] < row["planned"] else "")
    return TableCell(text, row["finished"] / max(row["planned"], 1), style=progress_style(row), link=link)


def _episodes_link(row: Row) -> str:
    """Return the address of a cell's episodes in the browser, empty without any."""
    return f"#{urlencode({name: row[name] for name in ('model', 'scenario', 'condition')})}" if row["finished"] else ""


def _cut_short(row: Row, ending: str) -> TableCell:
    if not row[ending]:
        return TableCell("0", 0)
    return TableCell(f"{row[ending]:,}", row[ending], f"acc ≤ {row['acc_bound']:.1f}", "warn")


# -- resources ---------------------------------------------------------------------------------------------------------
def resources_table(run_data: RunData) -> Table | None:
    """Return the cost of each cell; None if no cell used tokens, money or GPU time, as in runs of policies."""
    rows = resources(run_data).iter_rows(named=True)
    lines = tuple(_resources(row) for row in rows if row["prompt_tokens"] or row["cost"] or row["gpu_hours"])
    return Table("took", "Cost of each cell", RESOURCES, lines, search=True) if lines else None


def _resources(row: Row) -> Line:
    tokens, cost = row["prompt_tokens"] + row["reply_tokens"], row["cost"]
    per_thousand = f"{1000 * cost / row['played']:,.2f}" if cost and row["played"] else ""
    return (
        *_name_cells(row),
        TableCell(f"{row['played']:,}", row["played"]),
        TableCell(f"{tokens:,}", tokens),
        TableCell(f"{cost:,.4f}", cost, per_thousand) if cost else MISSING,
        *(MISSING if row[name] is None else TableCell(f"{row[name]:,.3f}", row[name]) for name in ("gpu_hours", "kwh")),
    )


# -- the paper ---------------------------------------------------------------------------------------------------------
def paper_table(rows: pl.DataFrame) -> Table | None:
    """Return ours next to the published figures (``compare_with_paper``); None if there is nothing to compare or explain."""
    if rows.is_empty():
        return None
    lines = tuple(_published(row) for row in rows.filter(pl.col("published").is_not_null()).iter_rows(named=True))
    notes = tuple(comparison_notes(rows))
    return Table("paper", "Ours and the paper's", PAPER, lines, notes=notes, search=bool(lines))


def _published(row: Row) -> Line:
    names = (row["model"], row["scenario"], row["condition"], row["measure"])
    return (
        *(TableCell(name, name) for name in names),
        TableCell(f"{row['ours']:.1f}", row["ours"], f"{row['low']:.1f}–{row['high']:.1f}"),
        TableCell(f"{row['published']:.1f}", row["published"]),
        signed_cell(row["difference"]),
        signed_cell(row["episodes"], 0),
        TableCell("yes", 1) if row["inside"] else TableCell("no", 0, style="warn"),
    )
