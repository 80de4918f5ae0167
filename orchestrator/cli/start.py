"""``init``: write a first sweep file and print the commands that play it."""

import shutil
import tomllib
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from orchestrator.cli.printing import print_lines
from orchestrator.storage.software import version
from sweeps import shipped
from sweeps.sweep_file import SweepError

NewFile = Annotated[Path, typer.Argument(metavar="[FILE]", help="The sweep file to write.")]
Source = Annotated[str, typer.Option("--from", metavar="NAME", help="The shipped sweep to copy (`ls sweeps`).")]
Package = Annotated[
    Path | None,
    typer.Option(
        "--package", metavar="DIR", help="Write an example package (scenario, policy, measure) there instead."
    ),
]


def print_version(requested: bool) -> None:
    """Print the version and exit, for ``--version``."""
    if requested:
        print(f"proactive-sweep {version()}")
        raise typer.Exit


def init(file: NewFile = Path("sweep.toml"), source: Source = "", package: Package = None) -> None:
    """Write a first sweep file and print what to type next."""
    if package is not None:
        _copy_package(package)
        return
    text = shipped.copy_sweep_text(_find_source(source), file)
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


def _copy_package(folder: Path) -> None:
    spec = find_spec("proactive_sweep")  # located, not imported: importing it requires the package verifiers
    assert spec is not None and spec.origin is not None
    try:
        shutil.copytree(Path(spec.origin).with_name("template"), folder, ignore=shutil.ignore_patterns("__pycache__"))
    except FileExistsError:
        raise SweepError(f"{folder} already exists and is left unchanged; name another folder") from None
    except OSError as problem:
        raise SweepError(f"{folder} cannot be written: {problem.strerror or problem}") from None
    print_lines([f"{folder}: its README.md has the commands to type next"])


def _find_source(name: str) -> Path:
    """Return the file of a shipped sweep, or of the starter for an empty name; raises SweepError."""
    if not name:
        return shipped.STARTER
    sweeps = shipped.shipped_sweeps()
    if name not in sweeps:
        raise SweepError(f"no shipped sweep is called {name!r}; {shipped.suggest_sweep(Path(name))}")
    return sweeps[name]


def _next_steps(file: Path, data: str) -> tuple[str, ...]:
    """Return the file written and the commands to type next."""
    folder = file.parent / data
    get_data = f"data demo {folder}      # a small benchmark; `data fetch DIR` downloads the published one"
    if folder.name == "test":
        get_data = f"data fetch {folder.parent}      # 150 GB, published; `data demo {folder}` draws a small one"
    return (
        f"{file}: edit it, then",
        f"  proactive-sweep {get_data}",
        f"  proactive-sweep plan {file}",
        f"  proactive-sweep run {file}",
        f"  proactive-sweep report outputs/{file.stem}",
    )
