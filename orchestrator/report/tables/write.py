"""Writes the tables of a report as Markdown, LaTeX and CSV. The same run gives the same bytes."""

from pathlib import Path

import polars as pl

from orchestrator.report.measures.efficiency import average_budget_curve, efficiency, lift_over_chance
from orchestrator.report.measures.endings import ending_counts
from orchestrator.report.measures.lenient import leniency
from orchestrator.report.measures.model_size import size_correlation
from orchestrator.report.measures.paired_averages import (
    PAIR_COLUMNS,
    compare_condition_averages,
    compare_model_averages,
)
from orchestrator.report.measures.paired_tests import compare_models
from orchestrator.report.measures.ranking import win_probabilities
from orchestrator.report.measures.resources import resources
from orchestrator.report.measures.sample_accuracy import sample_accuracy
from orchestrator.report.run_data import RunData
from orchestrator.report.tables.all_tables import report_tables
from orchestrator.report.tables.csv import csv_text
from orchestrator.report.tables.formats import latex, markdown
from orchestrator.report.tables.model_input import certificate_rows
from orchestrator.report.tables.uncertainty import stopped_averages
from orchestrator.storage import safe_write


def write_tables(run_data: RunData) -> list[Path]:
    """Write every table as Markdown, LaTeX and CSV, and every measure as CSV, into ``tables/``; return the sorted paths."""
    folder = run_data.folder / "tables"
    folder.mkdir(exist_ok=True)
    texts: dict[str, str] = {}
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
    frames = {
        "endings": ending_counts(run_data),
        "efficiency": efficiency(run_data),
        "budget": average_budget_curve(run_data),
        "lift": lift_over_chance(run_data),
        "lenient": leniency(run_data),
        "capacity": size_correlation(run_data),
        "models-paired": compare_models(run_data),
        "models-paired-averages": compare_model_averages(run_data).join(
            win_probabilities(run_data), on=PAIR_COLUMNS, how="left"
        ),
        "paired-averages": compare_condition_averages(run_data),
        "samples-difficulty": sample_accuracy(run_data),
        "resources": resources(run_data),
        "precision": stopped_averages(run_data),
        "model-input": certificate_rows(run_data),
    }
    return {name: frame for name, frame in frames.items() if not frame.is_empty()}
