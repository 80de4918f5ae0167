"""The table of the main question: the mean change by each condition over models and scenarios, and what it varies with."""

from __future__ import annotations

from orchestrator.report.measures.condition_effects import condition_effects
from orchestrator.report.run_data import RunData
from orchestrator.report.tables.parts import Row, format_limits
from orchestrator.report.tables.table import Column, Line, Table, TableCell, line
from orchestrator.report.wording import format_p, format_signed
from sweeps.protocol import Protocol

COLUMNS = (
    Column("condition", number=False),
    Column("models", "those that played every scenario under it and under zero-shot"),
    Column("scenarios"),
    Column("change", "mean over models and scenarios, points of acc on the same samples"),
    Column("95% interval", "for further models and scenarios like these", number=False),
    Column("p", "after Holm's correction over the conditions"),
    Column("between models", "standard deviation of the models' own changes, points"),
    Column("between scenarios", "standard deviation of the scenarios' own changes, points"),
    Column("rest", "standard deviation of a model in a scenario beyond both, with sampling error"),
)


def effects_table(run_data: RunData) -> Table:
    """Return a line per condition with three models and three scenarios or more."""
    numbers = condition_effects(run_data)
    lines = tuple(_effect_line(row) for row in numbers.iter_rows(named=True))
    title = (
        "does a condition help? mean change against zero-shot, with models and scenarios both taken as drawn (two-way analysis "
        "of variance with random effects), points"
    )
    return Table("condition-effects", title, COLUMNS, lines, numbers, search=len(lines) > 1)


def _effect_line(row: Row) -> Line:
    name = row["condition"] if row["protocol"] == Protocol.MCQA else f"{row['condition']} ({row['protocol']})"
    cells = (
        TableCell(str(row["models"]), row["models"]),
        TableCell(str(row["scenarios"]), row["scenarios"]),
        TableCell(format_signed(row["difference"]), row["difference"]),
        TableCell(format_limits(row, "difference")),
        TableCell(format_p(row["p_holm"]), row["p_holm"]),
        *(TableCell(f"{row[part]:.1f}", row[part]) for part in ("between_models", "between_scenarios", "rest")),
    )
    return line(name, cells)
