"""``ls``: models, judges, scenarios, conditions and sweeps that may be named, read from the registries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from envs import SCENARIOS, installed
from envs.installed import Offer, PackageError, function
from envs.scenario import Scenario
from orchestrator.cli.as_json import AsJson, show_json
from orchestrator.monitoring.console import show
from sweeps import shipped
from sweeps.sweep_file import SweepError

if TYPE_CHECKING:
    import polars as pl

Rows = list[dict[str, Any]]
MEASURES = {
    "acc": "percent of episodes that end with the right category",
    "acc_first": "percent of episodes that end with the right category at the first turn",
    "ps": "mean number of suggestions in an episode",
    "loops": "percent of episodes that end at the turn limit",
}
"""Measures that every table has."""


def models() -> Rows:
    """Every model that ships with the project, and the policies of installed packages."""
    from sweeps import packages
    from sweeps.load import registry
    from sweeps.spec import ModelSpec

    columns = ("name", "source", "backend", "gpus", "parameters", "max_images", "note")
    packages.check(registry())
    own = [
        ModelSpec(name=name, source=f"{packages.BUILTIN}{name}", backend="builtin", note=_whose(offer))
        for name, offer in packages.policies().items()
    ]
    return [{name: getattr(model, name) for name in columns} for model in (*registry().values(), *own)]


def judges() -> Rows:
    """Every judge that ships with the project; a sweep may also name a model as its judge."""
    from sweeps.load import judges as shipped_judges

    columns = ("name", "source", "backend", "gpus", "note")
    return [{name: getattr(model, name) for name in columns} for model in shipped_judges().values()]


def scenarios() -> Rows:
    """The seven scenarios and those of installed packages, with their files and hints; one that is broken says why."""
    rows = [_scenario(scenario, "") for scenario in SCENARIOS.values()]
    for name, offer in installed().items():
        try:
            rows.append(_scenario(SCENARIOS[name], _whose(offer)))
        except PackageError as problem:
            rows.append({"name": name, "file": "", "hint": str(problem), "package": _whose(offer)})
    return rows


def _scenario(scenario: Scenario, package: str) -> dict[str, Any]:
    file = f"{scenario.stem}_preprocessed.jsonl"
    return {"name": scenario.name, "file": file, "hint": scenario.hint, "package": package}


def conditions() -> Rows:
    """Every condition, where it exists and what it does."""
    from sweeps.conditions import CONDITIONS, VARIANTS

    return [
        {"name": name, "scenarios": list(condition.scenarios) or ["all"], "what it does": condition.description}
        for name, condition in {**CONDITIONS, **VARIANTS}.items()
    ]


def measures() -> Rows:
    """The measures of every table, and those of installed packages, which a sweep names under ``measures``."""
    from sweeps import packages

    rows: Rows = [{"name": name, "what it is": told, "package": ""} for name, told in MEASURES.items()]
    for name, offer in packages.measures().items():
        try:
            told = (function("measure", name).__doc__ or "").partition("\n")[0]
        except PackageError as problem:
            told = str(problem)
        rows.append({"name": name, "what it is": told, "package": _whose(offer)})
    return rows


def _whose(offer: Offer) -> str:
    return f"{offer.package} {offer.version}"


def sweeps() -> Rows:
    """Every sweep that ships, with the question that its file opens with."""
    return [{"name": name, "question": _first_line(path)} for name, path in shipped.names().items()]


KINDS = {function.__name__: function for function in (models, judges, scenarios, conditions, measures, sweeps)}
HEADINGS = {"gpus": "GPUs", "max_images": "pictures"}
"""Columns whose heading on the terminal is another word than the key in JSON."""
Kind = Annotated[str, typer.Argument(metavar="|".join(KINDS), autocompletion=lambda: list(KINDS))]


def list_names(kind: Kind, as_json: AsJson = False) -> None:
    """List what a sweep file or a command may name."""
    if kind not in KINDS:
        *others, last = KINDS
        raise SweepError(f"there is nothing to list as {kind!r}; type {', '.join(others)} or {last}")
    rows = KINDS[kind]()
    if as_json:
        show_json(rows)
    else:
        show(_table(rows))


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


def _table(rows: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(*(HEADINGS.get(name, name) for name in rows[0]))
    for row in rows:
        table.add_row(*(escape(_cell(name, value)) for name, value in row.items()))
    return table


def _cell(name: str, value: Any) -> str:
    if name == "parameters":
        return "" if value is None else f"{value:g}B"
    if name == "max_images":
        return str(value or "any")
    return ", ".join(value) if isinstance(value, list) else f"{value:g}" if isinstance(value, float) else str(value)


def _first_line(path: Path) -> str:
    with path.open(encoding="utf-8") as lines:
        return next(lines).removeprefix("# ").strip()
