"""Writes the tables of a report as Markdown, LaTeX and CSV. The same run gives the same bytes."""

from pathlib import Path

import polars as pl

from orchestrator.report.measures.clustering import clustering
from orchestrator.report.measures.estimates import estimate
from orchestrator.report.measures.exact_chance import lift_over_chance
from orchestrator.report.measures.families import comparisons
from orchestrator.report.measures.judge_correction import corrected_shares
from orchestrator.report.measures.lenient import leniency
from orchestrator.report.measures.reply_kinds import reply_kinds
from orchestrator.report.measures.resources import resources
from orchestrator.report.run_data import RunData
from orchestrator.report.tables.all_tables import report_tables
from orchestrator.report.tables.csv import csv_text
from orchestrator.report.tables.formats import latex, markdown
from orchestrator.report.tables.model_input import certificate_rows
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
    tests = comparisons(run_data)
    frames = {
        "cells": estimate(run_data).cells,
        "averages": estimate(run_data).averages,
        "lift": lift_over_chance(run_data),
        "lenient": leniency(run_data),
        "reply-kinds": reply_kinds(run_data),
        "clusters": clustering(run_data),
        "models-paired": tests.models,
        "models-paired-averages": tests.model_averages,
        "paired-averages": tests.condition_averages,
        "open-ended-corrected": corrected_shares(run_data),
        "resources": resources(run_data),
        "model-input": certificate_rows(run_data),
    }
    return {name: frame for name, frame in frames.items() if not frame.is_empty()}
