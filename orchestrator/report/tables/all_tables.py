"""All tables of a report, in their order."""

from collections.abc import Sequence

from envs.installed import load_function, offers
from orchestrator.report.run_data import RunData, cached_per_run
from orchestrator.report.tables import (
    behavior,
    evidence,
    open_ended,
    paper_tables,
    uncertainty,
    unseen,
)
from orchestrator.report.tables.model_input import add_notes, input_notes
from orchestrator.report.tables.table import Table
from sweeps.protocol import Protocol


def report_tables(run_data: RunData) -> list[Table]:
    """Return the tables that have rows in this run, each with a note on models whose input is not certified."""
    tables = [
        paper_tables.main_table(run_data),
        paper_tables.conditions_table(run_data),
        paper_tables.reference_table(run_data),
        uncertainty.missing_table(run_data),
        unseen.unseen_table(run_data),
        evidence.share_changes_table(run_data),
        evidence.ranking_table(run_data),
        evidence.robustness_table(run_data),
        evidence.readings_table(run_data),
        behavior.reply_kinds_table(run_data),
        uncertainty.clustering_table(run_data),
        evidence.paired_table(run_data),
        uncertainty.effects_table(run_data),
        open_ended.open_ended_table(run_data),
        open_ended.corrected_table(run_data),
        evidence.paired_table(run_data, Protocol.OEG),
        paper_tables.several_turns_table(run_data),
        evidence.paired_table(run_data, Protocol.OEG_MULTI),
        paper_tables.tool_calls_table(run_data),
        behavior.malformed_calls_table(run_data),
        evidence.paired_table(run_data, Protocol.TOOLS),
        behavior.hard_samples_table(run_data),
        behavior.replica_time_table(run_data),
        *evidence.package_measure_tables(run_data),
        *offered_tables(run_data),
    ]
    return _with_rows(run_data, tables)


@cached_per_run
def offered_tables(run_data: RunData) -> list[Table]:
    """Return the tables of installed packages: each offers a function of ``RunData`` that gives tables."""
    return [table for name in offers("table") for table in load_function("table", name)(run_data) if table.rows]


def terminal_tables(run_data: RunData) -> list[Table]:
    """Return the tables that a terminal shows below those of the paper: changes, missing episodes, those of packages."""
    return _with_rows(
        run_data, [evidence.paired_table(run_data), uncertainty.missing_table(run_data), *offered_tables(run_data)]
    )


def _with_rows(run_data: RunData, tables: Sequence[Table]) -> list[Table]:
    """Return the tables that have rows, each with a note on models whose input is not certified."""
    notes = input_notes(run_data.sweep, run_data.folder)
    return [add_notes(table, notes) for table in tables if table.rows]
