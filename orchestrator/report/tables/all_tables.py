"""All tables of a report, in their order."""

from collections.abc import Sequence

from orchestrator.report.measures.estimates import Estimates, estimate
from orchestrator.report.run_data import RunData
from orchestrator.report.tables.behavior import (
    hard_samples_table,
    malformed_calls_table,
    replica_time_table,
    reply_kinds_table,
)
from orchestrator.report.tables.decisions import knowledge_table, regret_table
from orchestrator.report.tables.evidence import (
    package_measure_tables,
    paired_table,
    ranking_table,
    readings_table,
    robustness_table,
    share_changes_table,
)
from orchestrator.report.tables.flip_rates import flip_rate_table
from orchestrator.report.tables.model_input import add_notes, input_notes
from orchestrator.report.tables.open_ended import corrected_table, open_ended_table
from orchestrator.report.tables.operating import bounds_table, exact_table, operating_table, splits_table
from orchestrator.report.tables.paper_tables import (
    conditions_table,
    main_table,
    reference_table,
    several_turns_table,
    tool_calls_table,
)
from orchestrator.report.tables.table import Table
from orchestrator.report.tables.uncertainty import clustering_table, effects_table, missing_table
from orchestrator.report.tables.unseen import unseen_table
from sweeps.protocol import Protocol


def report_tables(run_data: RunData, intervals: Estimates | None = None) -> list[Table]:
    """Return the tables that have rows in this run, each with a note on models whose input is not certified."""
    intervals = intervals or estimate(run_data)
    tables = [
        main_table(run_data, intervals),
        conditions_table(run_data, intervals),
        reference_table(run_data, intervals),
        missing_table(run_data),
        unseen_table(run_data, intervals),
        knowledge_table(run_data),
        regret_table(run_data),
        operating_table(run_data),
        bounds_table(run_data),
        splits_table(run_data),
        exact_table(run_data),
        share_changes_table(run_data),
        ranking_table(run_data),
        robustness_table(run_data),
        readings_table(run_data),
        reply_kinds_table(run_data),
        clustering_table(run_data),
        paired_table(run_data),
        effects_table(run_data),
        open_ended_table(run_data),
        corrected_table(run_data),
        paired_table(run_data, Protocol.OEG),
        several_turns_table(run_data, intervals),
        paired_table(run_data, Protocol.OEG_MULTI),
        tool_calls_table(run_data, intervals),
        malformed_calls_table(run_data),
        paired_table(run_data, Protocol.TOOLS),
        hard_samples_table(run_data),
        flip_rate_table(run_data),
        replica_time_table(run_data),
        *package_measure_tables(run_data),
    ]
    return _with_rows(run_data, tables)


def terminal_tables(run_data: RunData) -> list[Table]:
    """Return the tables that a terminal shows below those of the paper: changes, missing episodes, operating curves."""
    return _with_rows(run_data, (paired_table(run_data), missing_table(run_data), operating_table(run_data)))


def _with_rows(run_data: RunData, tables: Sequence[Table]) -> list[Table]:
    """Return the tables that have rows, each with a note on models whose input is not certified."""
    notes = input_notes(run_data.sweep, run_data.folder)
    return [add_notes(table, notes) for table in tables if table.rows]
