"""``init``: a sweep file to begin with, and the commands that play it."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated

import typer

from actors.printable import printable
from sweeps import shipped
from sweeps.sweep_file import SweepError

NewFile = Annotated[Path, typer.Argument(metavar="[FILE]", help="The sweep file to write.")]
Source = Annotated[str, typer.Option("--from", metavar="NAME", help="A sweep that ships (`ls sweeps`) to copy.")]


def init(file: NewFile = Path("sweep.toml"), source: Source = "") -> None:
    """Write a sweep file to begin with, and say what to type next."""
    text = shipped.copied(_source(source), file)
    if file.suffix != ".toml":
        raise SweepError(f"{file} is no name of a sweep file; give it the ending .toml")
    if file.exists():
        raise SweepError(f"{file} is there already, and is left as it is; name another file")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("x", encoding="utf-8") as new:
            new.write(text)
    except OSError as problem:
        raise SweepError(f"{file} cannot be written: {problem.strerror or problem}") from None
    for line in _next(file, tomllib.loads(text)["data"]):
        print(printable(line))


def _source(name: str) -> Path:
    if not name:
        return shipped.STARTER
    known = shipped.names()
    if name not in known:
        raise SweepError(f"no sweep that ships is called {name!r}; {shipped.meant(Path(name))}")
    return known[name]


def _next(file: Path, data: str) -> tuple[str, ...]:
    """What was written, and the commands that follow."""
    folder = file.parent / data
    return (
        f"{file}: edit it, then",
        f"  proactive-sweep data demo {folder}      # a small benchmark; `data fetch DIR` brings the published one",
        f"  proactive-sweep plan {file}",
        f"  proactive-sweep run {file}",
        f"  proactive-sweep report outputs/{file.stem}",
    )
