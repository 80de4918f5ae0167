"""The tables of ``ls``: models, judges, scenarios and conditions that a sweep file may name, read from the registries."""

from __future__ import annotations

import polars as pl
from rich.markup import escape
from rich.table import Table

from envs import SCENARIOS
from sweeps.conditions import CONDITIONS, VARIANTS
from sweeps.load import judges as shipped_judges
from sweeps.load import registry


def models() -> Table:
    """Every model that ships with the project."""
    table = Table("name", "source", "backend", "GPUs", "parameters", "pictures", "note")
    for model in registry().values():
        size = "" if model.parameters is None else f"{model.parameters:g}B"
        table.add_row(
            model.name, model.source, model.backend, str(model.gpus), size, str(model.max_images or "any"), model.note
        )
    return table


def judges() -> Table:
    """Every judge that ships with the project; a sweep may also name a model as its judge."""
    table = Table("name", "source", "backend", "GPUs", "note")
    for model in shipped_judges().values():
        table.add_row(model.name, model.source, model.backend, str(model.gpus), model.note)
    return table


def agreement(rows: pl.DataFrame) -> Table:
    """Pairs of judges (``orchestrator.report.judge_agreement.agreement``)."""
    table = Table("judge", "other", "bit", "answers", "equal %", "kappa", "yes %", "other's yes %")
    for column in table.columns:
        column.no_wrap = True
    for row in rows.iter_rows(named=True):
        figures = [row[name] for name in ("equal", "kappa", "first_yes", "other_yes")]
        shown = ["-" if value is None else f"{value:.2f}" for value in figures]
        table.add_row(escape(row["judge"]), escape(row["other"]), row["bit"], f"{row['answers']:,}", *shown)
    return table


def scenarios() -> Table:
    """The seven scenarios, with their files and hints."""
    table = Table("name", "file", "hint")
    for scenario in SCENARIOS.values():
        table.add_row(scenario.name, f"{scenario.stem}_preprocessed.jsonl", scenario.hint)
    return table


def conditions() -> Table:
    """Every condition, where it exists and what it does."""
    table = Table("name", "scenarios", "what it does")
    for name, condition in {**CONDITIONS, **VARIANTS}.items():
        table.add_row(name, ", ".join(condition.scenarios) or "all", condition.description)
    return table
