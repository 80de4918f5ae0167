"""All tables of a report in their order: twelve, those of installed packages, and one per measure of a package; and their files.

The same run gives the same bytes.
"""

from collections.abc import Iterable
from pathlib import Path

import polars as pl

from envs.installed import load_function, offers
from orchestrator.report.measures.clustering import clustering
from orchestrator.report.measures.endings import leniency
from orchestrator.report.measures.estimates import estimate
from orchestrator.report.measures.exact_chance import lift_over_chance
from orchestrator.report.measures.judge_correction import corrected_shares
from orchestrator.report.measures.paired import comparisons
from orchestrator.report.run_data import RunData, cached_per_run
from orchestrator.report.tables import evidence, open_ended, paper_tables
from orchestrator.report.tables.formats import csv_text, latex, markdown
from orchestrator.report.tables.table import Table, drop_empty_columns
from orchestrator.storage import safe_write

TABLES = (
    evidence.answer_table, paper_tables.main_table, evidence.paired_table, evidence.ranking_table,
    paper_tables.conditions_table, paper_tables.reference_table, open_ended.open_ended_table,
    paper_tables.other_protocols_table, evidence.chance_table, evidence.endings_table, evidence.missing_table,
    evidence.cost_table,
)  # fmt: skip


@cached_per_run
def report_tables(run_data: RunData) -> list[Table]:
    """Return the tables that have rows in this run, each with a note on models whose input is not certified."""
    tables = (make(run_data) for make in TABLES)
    return _with_rows(run_data, [*tables, *evidence.package_measure_tables(run_data), *offered_tables(run_data)])


@cached_per_run
def offered_tables(run_data: RunData) -> list[Table]:
    """Return the tables of installed packages: each offers a function of ``RunData`` that gives tables."""
    return [table for name in offers("table") for table in load_function("table", name)(run_data) if table.rows]


def terminal_tables(run_data: RunData) -> list[Table]:
    """Return the tables that a terminal shows below those of the paper."""
    tables = evidence.answer_table(run_data), evidence.paired_table(run_data), *offered_tables(run_data)
    return _with_rows(run_data, tables)


def _with_rows(run_data: RunData, tables: Iterable[Table]) -> list[Table]:
    notes = evidence.input_notes(run_data.sweep, run_data.folder)
    return [evidence.add_notes(drop_empty_columns(table), notes) for table in tables if table.rows]


def write_tables(run_data: RunData) -> list[Path]:
    """Write every table as Markdown, LaTeX and CSV, and every measure as CSV, into ``tables/``; return the sorted paths."""
    folder, texts = run_data.folder / "tables", dict[str, str]()
    folder.mkdir(exist_ok=True)
    for table in report_tables(run_data):
        texts |= {f"{table.name}.md": markdown(table), f"{table.name}.tex": latex(table)}
        if table.numbers is not None:
            texts[f"{table.name}.csv"] = csv_text(table.numbers)
    texts |= {f"{name}.csv": csv_text(frame) for name, frame in measure_frames(run_data).items()}
    for name, text in texts.items():
        safe_write.write(folder / name, text.encode())
    return sorted(folder / name for name in texts)


def measure_frames(run_data: RunData) -> dict[str, pl.DataFrame]:
    """Return the measures that have rows in this run, by the name of their CSV file."""
    tests = comparisons(run_data)
    frames = {
        "cells": estimate(run_data).cells, "averages": estimate(run_data).averages, "lift": lift_over_chance(run_data),
        "lenient": leniency(run_data), "clusters": clustering(run_data), "models-paired": tests.models,
        "models-paired-averages": tests.model_averages, "paired-averages": tests.condition_averages,
        "open-ended-corrected": corrected_shares(run_data), "resources": evidence.resources(run_data),
        "model-input": evidence.certificate_rows(run_data),
    }  # fmt: skip
    return {name: frame for name, frame in frames.items() if not frame.is_empty()}
