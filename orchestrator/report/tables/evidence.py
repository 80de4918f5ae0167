"""The tables that go beyond the paper's: paired changes, ranks, chance, endings, and measures of packages."""

from collections.abc import Iterable

import polars as pl

from envs import in_paper_order
from orchestrator.report.measures.endings import EndingKind, ending_counts
from orchestrator.report.measures.exact_chance import lift_over_chance
from orchestrator.report.measures.families import comparisons, count_tests, primary_condition
from orchestrator.report.measures.paired_tests import is_significant
from orchestrator.report.measures.ranking import ranking
from orchestrator.report.run_data import RunData
from orchestrator.report.scores.package_measures import COUNT_SUFFIX, measure_names
from orchestrator.report.statistics.exact_tests import ALPHA
from orchestrator.report.tables.parts import (
    Row,
    by_column,
    change_cell,
    format_range,
    model_conditions,
    scenario_cells,
    signed_cell,
)
from orchestrator.report.tables.table import MISSING, Column, Line, Table, TableCell, columns, line
from orchestrator.report.wording import format_signed
from sweeps.protocol import ZERO_SHOT
from sweeps.spec import Protocol


def _label(model: str, condition: str, protocol: str) -> str:
    return f"{model}, {condition}" + ("" if protocol == Protocol.MCQA else f" ({protocol})")


def paired_table(run_data: RunData) -> Table:
    """Return the change of each condition against zero-shot on the same samples, a line per model and condition."""
    cells, averages = comparisons(run_data).conditions, comparisons(run_data).condition_averages
    model_rows = run_data.models_or_baselines(averages)
    scenarios, lines = in_paper_order(cells["scenario"]), list[Line]()
    for model, condition, part in model_conditions(run_data, model_rows):
        for mean in part.sort("protocol").iter_rows(named=True):
            rows = by_column(cells.filter(model=model, condition=condition, protocol=mean["protocol"]))
            ps = signed_cell(mean, "ps_difference", 2, "*" if is_significant(mean["ps_p_holm"]) else "")
            changes = [change_cell(rows.get(scenario)) for scenario in scenarios]
            parts = [change_cell(mean, interval=True), ps, signed_cell(mean, "loops_difference"), *changes]
            lines.append(line(_label(model, condition, mean["protocol"]), parts))
    heads = (
        Column("model", number=False),
        Column("accuracy", "mean over the condition's scenarios, points"),
        Column("suggestions", "per episode, mean over scenarios"),
        Column("to the limit", "episodes that end at the turn limit, points"),
        *(Column(scenario, "accuracy, points") for scenario in scenarios),
    )
    title = "Change against zero-shot on the same samples"
    return Table("paired", title, heads, tuple(lines), cells, notes=_family_notes(run_data, averages), is_open=True)


def _family_notes(run_data: RunData, averages: pl.DataFrame) -> tuple[str, ...]:
    """Return how stars are given, and in whose change of suggestions the episodes at the turn limit weigh."""
    notes = [
        f"Points of accuracy with 95% intervals. * p < {ALPHA} after Holm's correction: the primary endpoint, average accuracy "
        f"under {primary_condition(run_data.sweep)}, over models; all others as one family of {count_tests(run_data):,} tests. "
        "= proven to be within the margin.",
    ]
    asked = run_data.models_or_baselines(averages).drop_nulls("ps_difference")
    if asked.height and not (asked["loops_difference"] != 0).any():
        notes.append(
            "No episode ended at the turn limit more or less often, so differences by such episodes are not seen."
        )
    return tuple(notes)


def ranking_table(run_data: RunData) -> Table:
    """Return the order of the models with complete cells, with the ranks that are not excluded."""
    numbers = ranking(run_data)
    lines = tuple(line(row["model"], _rank_cells(row)) for row in numbers.filter(protocol="mcqa").iter_rows(named=True))
    heads = (
        Column("model", number=False),
        Column("accuracy", "average over scenarios, on the samples that all of them answered"),
        Column("samples"),
        Column("rank"),
        Column("ranks not excluded", "all true ranks lie in their bounds in 95% of runs of other samples"),
        Column("whatever is missing", "the same, however the missing episodes would have ended"),
    )
    notes = ("A missing answer counts as wrong. Scenarios count as fixed, samples as drawn.",)
    return Table("ranking", f"Ranks under {ZERO_SHOT}", heads, lines, numbers, len(lines), notes, is_open=True)


def _rank_cells(row: Row) -> Iterable[TableCell]:
    yield TableCell(f"{row['average']:.1f}", row["average"])
    yield TableCell(f"{row['n']:,}", row["n"])
    yield TableCell(str(row["rank"]), row["rank"])
    yield TableCell(f"{row['rank_low']} to {row['rank_high']}", row["rank_low"])
    yield MISSING if row["rank_least"] is None else TableCell(f"{row['rank_least']} to {row['rank_most']}")


def chance_table(run_data: RunData) -> Table:
    """Return accuracy above blind choice by scenario, a line per model and condition."""
    numbers = lift_over_chance(run_data).filter(protocol="mcqa")
    known = run_data.models_or_baselines(numbers.drop_nulls("lift"))
    scenarios, lines = in_paper_order(known["scenario"]), list[Line]()
    for model, condition, part in model_conditions(run_data, known):
        mean = float(part["lift"].mean())  # type: ignore[arg-type]
        cells = scenario_cells(part, scenarios, lambda row: TableCell(format_signed(row["lift"]), row["lift"]))
        lines.append(line(f"{model}, {condition}", [*cells, TableCell(format_signed(mean), mean)]))
    notes = (
        "Points of accuracy above choosing blindly among the options. The intervals of accuracy, less chance, hold.",
    )
    heads = columns("model", [*scenarios, "mean"])
    return Table("chance", "Accuracy above blind choice", heads, tuple(lines), numbers, notes=notes)


def endings_table(run_data: RunData) -> Table:
    """Return how the episodes of each model and condition ended, percent averaged over scenarios."""
    numbers = ending_counts(run_data)
    model_rows = run_data.models_or_baselines(numbers.filter(protocol="mcqa"))
    kinds, lines = [kind.value for kind in EndingKind if kind.value in set(model_rows["kind"])], list[Line]()
    for model, condition, part in model_conditions(run_data, model_rows):
        scenarios = part["scenario"].n_unique()
        sums = dict(part.group_by("kind").agg(pl.col("percent").sum() / scenarios).iter_rows())
        cells = [TableCell(f"{sums[kind]:.1f}", sums[kind]) if kind in sums else MISSING for kind in kinds]
        lines.append(line(f"{model}, {condition}", cells))
    about = {kind.value: kind.meaning for kind in EndingKind}
    heads = (Column("model", number=False), *(Column(kind, about[kind]) for kind in kinds))
    notes = ("Percent of finished episodes, averaged over scenarios; endings.csv has every cell with intervals.",)
    return Table("endings", "How episodes ended", heads, tuple(lines), numbers, notes=notes)


def package_measure_tables(run_data: RunData) -> list[Table]:
    """Return a table per measure of an installed package: its mean in each cell, with its 95% interval."""
    return [_package_measure_table(run_data, name) for name in measure_names(run_data.rows.columns)]


def _package_measure_table(run_data: RunData, name: str) -> Table:
    rows = run_data.rows.filter(pl.col(f"{name}{COUNT_SUFFIX}") > 0)
    scenarios, lines = in_paper_order(rows["scenario"]), list[Line]()
    for model, condition, part in model_conditions(run_data, rows):
        for (protocol,), cells in part.group_by(["protocol"], maintain_order=True):
            means = scenario_cells(cells, scenarios, lambda row: _mean_cell(row, name))
            lines.append(line(_label(model, condition, str(protocol)), means))
    names = ("cell", "model", "scenario", "condition", "protocol")
    numbers = rows.select(*names, name, f"{name}_low", f"{name}_high", f"{name}{COUNT_SUFFIX}")
    title = f"{name}: mean over episodes (a package's measure)"
    return Table(f"measure-{name}", title, columns("model", scenarios), tuple(lines), numbers, len(lines))


def _mean_cell(row: Row, name: str) -> TableCell:
    return TableCell(f"{row[name]:.1f}", row[name], format_range(row, name))
