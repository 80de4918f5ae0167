"""``init``: write a first sweep file and print the commands that play it."""

from __future__ import annotations

import shlex
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from envs.errors import UserError
from orchestrator.cli.options import ModelSources
from orchestrator.cli.printing import print_lines

NewFile = Annotated[Path | None, typer.Argument(metavar="[FILE]", help="The sweep file to write (default sweep.toml).")]
Source = Annotated[
    str,
    typer.Option(
        "--from",
        metavar="NAME",
        help="The shipped sweep to copy (`ls sweeps`), or package: a folder with an example of an own scenario, policy, measure.",
    ),
]
PACKAGE = "package"
"""The source that is a folder."""


def print_version(requested: bool) -> None:
    """Print the version and exit, for ``--version``."""
    if requested:
        from orchestrator.storage.software import version

        print(f"proactive-sweep {version()}")
        raise typer.Exit


def init(file: NewFile = None, source: Source = "", model: ModelSources = []) -> None:  # noqa: B006
    """Write a first sweep file, or with --model that of your models, and print what to type next."""
    if source == PACKAGE:
        _copy_package(file or Path(PACKAGE))
        return
    path = file or Path("sweep.toml")
    if path.suffix != ".toml":
        raise UserError(f"{path} is not a sweep file name; end it with .toml")
    if path.exists():
        raise UserError(f"{path} already exists and is left unchanged; name another file")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if model:
            from orchestrator.cli.sweep_source import write_line

            write_line(model, {"limit": None, "conditions": "", "scenarios": "", "data": ""}, None, path)
        else:
            from sweeps import shipped

            path.write_text(shipped.copy_sweep_text(_find_source(source), path), encoding="utf-8")
    except OSError as problem:
        raise UserError(f"{path} cannot be written: {problem.strerror or problem}") from None
    print_lines(_next_steps(path))


def _copy_package(folder: Path) -> None:
    spec = find_spec("proactive_sweep")  # located, not imported: importing it requires the package verifiers
    assert spec is not None and spec.origin is not None
    try:
        shutil.copytree(Path(spec.origin).with_name("template"), folder, ignore=shutil.ignore_patterns("__pycache__"))
    except FileExistsError:
        raise UserError(f"{folder} already exists and is left unchanged; name another folder") from None
    except OSError as problem:
        raise UserError(f"{folder} cannot be written: {problem.strerror or problem}") from None
    print_lines([f"{folder}: its README.md has the commands to type next"])


def _find_source(name: str) -> Path:
    """Return the file of a shipped sweep, or of the starter for an empty name; raises UserError."""
    from sweeps import shipped

    if not name:
        return shipped.STARTER
    sweeps = shipped.shipped_sweeps()
    if name not in sweeps:
        raise UserError(f"no shipped sweep is called {name!r}; {shipped.suggest_sweep(Path(name))}")
    return sweeps[name]


def _next_steps(path: Path) -> tuple[str, ...]:
    """Return the file written and the commands to type next."""
    from sweeps.load import load
    from sweeps.shipped import missing_data

    sweep, file = load(path), shlex.quote(str(path))
    folder = shlex.quote(str(path.parent / sweep.data))
    get_data = f"data demo {folder}      # a small drawn benchmark; `data fetch DIR` downloads the published one"
    if Path(sweep.data).name == "test":
        get_data = f"data fetch {shlex.quote(str(path.parent / Path(sweep.data).parent))}      # 150 GB, published"
    commands = [*([get_data] if missing_data(sweep.data, path) else []), f"plan {file}", f"run {file}"]
    report = f"report {shlex.quote(sweep.output)}"
    return (f"{path}: edit it, then", *(f"  proactive-sweep {command}" for command in (*commands, report)))
