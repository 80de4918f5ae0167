"""What runs differ by from the first of them, as sortable tables of a page (``orchestrator.report.run_comparison``)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import polars as pl

from envs import in_order
from orchestrator.report.grid_parts import change
from orchestrator.report.html.escape import visible
from orchestrator.report.html.tables import GAP, Column, PageTable, Row, TableCell
from orchestrator.report.run_comparison import Comparison, p_value
from orchestrator.report.wording import signed

NAMES = (Column("Model", number=False), Column("Condition", number=False, filter=True))
MEASURES = (
    Column("Pairs", "samples that both runs answered"),
    Column("Avg", "difference of accuracy averaged over scenarios, in points, with its 95% interval"),
    Column("p", "after Holm's correction over all rows of models; in brackets that of baselines, not corrected"),
    Column("ps", "difference in suggestions an episode"),
)

ABOUT = "difference of accuracy on {}, in points; * p below 0.05 after Holm's correction"


def difference_tables(found: Comparison) -> tuple[PageTable, ...]:
    """A table for each further run and protocol; a row a model and condition that the first run has too."""
    first = visible(found.names[0])
    made = list[PageTable]()
    for (run, protocol), part in found.averages.group_by(["run", "protocol"], maintain_order=True):
        cells = found.cells.filter(run=run, protocol=protocol)
        scenarios = in_order(cells["scenario"])
        columns = (*NAMES, *MEASURES, *(Column(name, ABOUT.format(name)) for name in scenarios))
        title = f"{visible(str(run))} less {first}, {protocol}, points on the same samples"
        rows = tuple(_line(row, cells, scenarios) for row in part.iter_rows(named=True))
        made.append(PageTable(f"difference-{len(made)}", title, columns, rows, search=len(rows) > 1))
    return tuple(made)


def _line(row: Row, cells: pl.DataFrame, scenarios: list[str]) -> tuple[TableCell, ...]:
    mine = cells.filter(model=row["model"], condition=row["condition"])
    known = {cell["scenario"]: cell for cell in mine.iter_rows(named=True)}
    model, condition = visible(row["model"]), visible(row["condition"])
    span = f"{signed(row['difference_low'])} to {signed(row['difference_high'])}"
    p = row["p"] if row["p_holm"] is None else row["p_holm"]
    return (
        TableCell(model, model, style="name"), TableCell(condition, condition), TableCell(f"{row['n']:,}", row["n"]),
        TableCell(signed(row["difference"]), row["difference"], span), TableCell(p_value(row), p),
        _number(row["ps_difference"]), *_changes(known, scenarios),
    )  # fmt: skip


def _changes(known: Mapping[str, Row], scenarios: list[str]) -> Iterator[TableCell]:
    for name in scenarios:
        if name not in known or known[name]["difference"] is None:
            yield TableCell(GAP)
        else:
            entry = change(known[name])
            yield TableCell(entry.text, entry.value)


def _number(value: float | None) -> TableCell:
    return TableCell(GAP) if value is None else TableCell(signed(value), value)
