"""``init``: write a first sweep file and print the commands that play it."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated

import typer

from orchestrator.cli.printing import print_lines
from sweeps import shipped
from sweeps.sweep_file import SweepError

NewFile = Annotated[Path, typer.Argument(metavar="[FILE]", help="The sweep file to write.")]
Source = Annotated[str, typer.Option("--from", metavar="NAME", help="The shipped sweep to copy (`ls sweeps`).")]


def init(file: NewFile = Path("sweep.toml"), source: Source = "") -> None:
    """Write a first sweep file and print what to type next."""
    text = shipped.copy_sweep_text(_source(source), file)
    if file.suffix != ".toml":
        raise SweepError(f"{file} is not a sweep file name; end it with .toml")
    if file.exists():
        raise SweepError(f"{file} already exists and is left unchanged; name another file")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("x", encoding="utf-8") as new:
            new.write(text)
    except OSError as problem:
        raise SweepError(f"{file} cannot be written: {problem.strerror or problem}") from None
    print_lines(_next_steps(file, tomllib.loads(text)["data"]))


def _source(name: str) -> Path:
    if not name:
        return shipped.STARTER
    sweeps = shipped.shipped_sweeps()
    if name not in sweeps:
        raise SweepError(f"no shipped sweep is called {name!r}; {shipped.suggest_sweep(Path(name))}")
    return sweeps[name]


def _next_steps(file: Path, data: str) -> tuple[str, ...]:
    """Return the file written and the commands to type next."""
    folder = file.parent / data
    return (
        f"{file}: edit it, then",
        f"  proactive-sweep data demo {folder}      # a small benchmark; `data fetch DIR` brings the published one",
        f"  proactive-sweep plan {file}",
        f"  proactive-sweep run {file}",
        f"  proactive-sweep report outputs/{file.stem}",
    )
