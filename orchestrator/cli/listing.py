"""``ls``: list what a sweep file or a command may name, columns of tables, and differences from the package."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from envs import SCENARIOS, installed_scenarios
from envs.errors import UserError
from envs.installed import Offer, PackageError, load_function, offers
from envs.samples import lines_file
from orchestrator.cli.options import AsJson
from orchestrator.cli.printing import print_result
from orchestrator.report.tables.table import text_table
from sweeps import packages, registry
from sweeps.conditions import CONDITIONS, VARIANTS
from sweeps.packages import BUILTIN, RESULT_COLUMNS
from sweeps.spec import ModelSpec
from sweeps.sweep_file import shipped_sweeps
from sweeps.values import read_table

Rows = list[dict[str, Any]]
MEASURES = {"acc": "paper", "acc_first": "extension", "ps": "paper", "loops": "extension"}
"""Measure of every table -> who reports it."""


def models() -> Rows:
    """Return every shipped model and the policies of installed packages."""
    shipped = registry.registry()
    packages.check_packages(shipped)
    policies = (
        ModelSpec(name=name, source=f"{BUILTIN}{name}", backend="builtin", note=_provider(offer))
        for name, offer in offers("policy").items()
    )
    columns = {"name", "source", "backend", "gpus", "parameters", "max_images", "note"}
    return [entry.model_dump(include=columns) for entry in (*shipped.values(), *policies)]


def judges() -> Rows:
    """Return every shipped judge; a sweep may also name a model as its judge."""
    columns = {"name", "source", "backend", "gpus", "note"}
    return [entry.model_dump(include=columns) for entry in registry.judges().values()]


def scenarios() -> Rows:
    """Return the seven scenarios and those of installed packages; a scenario that cannot be loaded has the reason as hint."""
    providers = {name: _provider(offer) for name, offer in installed_scenarios().items()}
    rows: Rows = []
    for name in (*SCENARIOS, *providers):
        try:
            file, hint = lines_file(Path(), name).name, SCENARIOS[name].hint
        except PackageError as problem:
            file, hint = "", str(problem)
        rows.append({"name": name, "file": file, "hint": hint, "package": providers.get(name, "")})
    return rows


def conditions() -> Rows:
    """Return every condition, its scenarios and its effect."""
    return [
        {"name": name, "of": origin, "scenarios": own.scenarios or ["all"], "what it does": own.description}
        for origin, group in (("paper", CONDITIONS), ("extension", VARIANTS))
        for name, own in group.items()
    ]


def measures() -> Rows:
    """Return the measures of every table and those of installed packages, which a sweep names under ``measures``."""
    rows = [{"name": key, "of": of, "what it is": RESULT_COLUMNS[key], "package": ""} for key, of in MEASURES.items()]
    for name, offer in packages.measures().items():
        try:
            text = (load_function("measure", name).__doc__ or "").partition("\n")[0]
        except PackageError as problem:
            text = str(problem)
        rows.append({"name": name, "of": "extension", "what it is": text, "package": _provider(offer)})
    return rows


def _provider(offer: Offer) -> str:
    return f"{offer.package} {offer.version}"


def sweeps() -> Rows:
    """Return every shipped sweep with the question in its first line."""
    first_lines = {name: path.read_text(encoding="utf-8").partition("\n")[0] for name, path in shipped_sweeps().items()}
    return [{"name": name, "question": line.removeprefix("# ").strip()} for name, line in first_lines.items()]


def differences() -> Rows:
    """Return the differences between a model's input here and in the published package, each with the switch that undoes it."""
    return [{"name": name, **texts} for name, texts in read_table("differences.toml").items()]


def columns() -> Rows:
    """Return every column of the tables in a run folder: type, nulls, values and meaning."""
    from orchestrator.report.scores.metrics import result_docs
    from orchestrator.storage.schemas import ROWS, column_docs

    tables = {table: column_docs(row) for table, row in ROWS.items()} | {"results": [*result_docs()]}
    return [{"table": table, **asdict(doc)} for table, docs in tables.items() for doc in docs]


LISTED = (models, judges, scenarios, conditions, measures, sweeps, differences, columns)
KINDS = {function.__name__: function for function in LISTED}
HEADINGS = {"gpus": "GPUs", "parameters": "billions", "max_images": "most pictures", "ours": "here, by default"}
"""Headings on the terminal that differ from the key in JSON."""
Kind = Annotated[str, typer.Argument(metavar="|".join(KINDS), autocompletion=lambda: list(KINDS))]


def list_names(kind: Kind, as_json: AsJson = False) -> None:
    """List what a sweep file or a command may name."""
    if kind not in KINDS:
        raise UserError(f"cannot list {kind!r}; type one of {', '.join(KINDS)}")
    rows = KINDS[kind]()
    heads = [HEADINGS.get(name, name) for name in rows[0]]
    print_result(as_json, rows, text_table(heads, (row.values() for row in rows)))
