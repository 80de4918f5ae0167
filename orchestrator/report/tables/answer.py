"""The first table of a report: does the model ask, and what becomes of it?"""

import polars as pl

from orchestrator.report.measures.estimates import estimate
from orchestrator.report.run_data import RunData
from orchestrator.report.scores.answer import ANSWERS, IF_ASKED
from orchestrator.report.tables.parts import AVERAGE, Row, format_range, model_conditions
from orchestrator.report.tables.table import MISSING, Column, Table, TableCell, line

COLUMNS = {
    "asks": Column("asks", "episodes whose first reply is a suggestion"),
    "right_if_asked": Column("right if asked", "of the episodes that ask, those that end with the right category"),
    "limit_if_asked": Column("to the limit", "of the episodes that ask, those that still ask at the last turn"),
    "gave_up_at_once": Column("gave up", "episodes whose first reply is the abstention"),
    "guessed_at_once": Column("guessed", "episodes whose first reply is a category, right or wrong"),
    "unreadable_at_once": Column("unreadable first", "episodes whose first reply names no option, or is empty"),
    "unreadable": Column("unreadable", "episodes that a reply ended which names no option, at any turn"),
}


def answer_table(run_data: RunData) -> Table:
    """Return the shares of episodes by their first reply, averaged over scenarios, a line per model and condition."""
    cells, averages = (frame.drop_nulls("asks") for frame in estimate(run_data))
    lines, ranked = [], 0
    for model, condition, protocols in model_conditions(run_data, averages):
        for row in protocols.iter_rows(named=True):
            protocol = "" if row["protocol"] == "mcqa" else f" ({row['protocol']})"
            lines.append(line(f"{model}, {condition}{protocol}", [_share_cell(row, name) for name in COLUMNS]))
            ranked += model not in run_data.baselines
    names = [f"{name}{end}" for name in (*ANSWERS, *IF_ASKED) for end in ("", "_low", "_high")]
    group = ("model", "scenario", "condition", "protocol")
    numbers = pl.concat(
        [frame.select(*group, *names) for frame in (cells, averages.with_columns(scenario=pl.lit(AVERAGE)))]
    ).sort(group)
    notes = (
        "Percent of episodes with 95% intervals, averaged over scenarios.",
        "Asks, gave up, guessed and unreadable first sum to 100.",
    )
    heads = (Column("model", number=False), *COLUMNS.values())
    title = "Does the model ask, and is it then right?"
    return Table("answer", title, heads, tuple(lines), numbers, ranked, notes, fold_baselines=True, is_open=True)


def _share_cell(row: Row, name: str) -> TableCell:
    if row[name] is None:
        return MISSING
    return TableCell(f"{row[name]:.1f}", row[name], format_range(row, name))
