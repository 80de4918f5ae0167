"""All tables of a report, in their order: twelve, those of installed packages, and one per measure of a package."""

from collections.abc import Sequence

from envs.installed import load_function, offers
from orchestrator.report.run_data import RunData, cached_per_run
from orchestrator.report.tables import answer, cost, evidence, missing, open_ended, paper_tables
from orchestrator.report.tables.model_input import add_notes, input_notes
from orchestrator.report.tables.table import Table, drop_empty_columns


@cached_per_run
def report_tables(run_data: RunData) -> list[Table]:
    """Return the tables that have rows in this run, each with a note on models whose input is not certified."""
    tables = [
        answer.answer_table(run_data),
        paper_tables.main_table(run_data),
        evidence.paired_table(run_data),
        evidence.ranking_table(run_data),
        paper_tables.conditions_table(run_data),
        paper_tables.reference_table(run_data),
        open_ended.open_ended_table(run_data),
        paper_tables.other_protocols_table(run_data),
        evidence.chance_table(run_data),
        evidence.endings_table(run_data),
        missing.missing_table(run_data),
        cost.cost_table(run_data),
        *evidence.package_measure_tables(run_data),
        *offered_tables(run_data),
    ]
    return _with_rows(run_data, tables)


@cached_per_run
def offered_tables(run_data: RunData) -> list[Table]:
    """Return the tables of installed packages: each offers a function of ``RunData`` that gives tables."""
    return [table for name in offers("table") for table in load_function("table", name)(run_data) if table.rows]


def terminal_tables(run_data: RunData) -> list[Table]:
    """Return the tables that a terminal shows below those of the paper."""
    return _with_rows(
        run_data, [answer.answer_table(run_data), evidence.paired_table(run_data), *offered_tables(run_data)]
    )


def _with_rows(run_data: RunData, tables: Sequence[Table]) -> list[Table]:
    """Return the tables that have rows, each with a note on models whose input is not certified."""
    notes = input_notes(run_data.sweep, run_data.folder)
    return [add_notes(drop_empty_columns(table), notes) for table in tables if table.rows]
