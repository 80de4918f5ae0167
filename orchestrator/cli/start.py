"""``init`` writes a first sweep file and prints the commands that play it; ``data`` downloads or checks the benchmark."""

import re
import shlex
import shutil
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from envs.check import check as check_folder
from envs.errors import UserError
from orchestrator.cli.options import ModelSources, Names
from orchestrator.cli.printing import print_lines
from orchestrator.cli.sweep_source import write_line
from sweeps.load import load
from sweeps.packages import find_scenarios
from sweeps.sweep_file import missing_data, shipped_sweeps, suggest_sweep
from sweeps.values import FOLDER

NewFile = Annotated[Path | None, typer.Argument(metavar="[FILE]", help="The sweep file to write (default sweep.toml).")]
FROM = "The shipped sweep to copy (`ls sweeps`), or package: a folder with an example scenario, policy and measure."
Source = Annotated[str, typer.Option("--from", metavar="NAME", help=FROM)]
PACKAGE = "package"


def init(file: NewFile = None, source: Source = "", model: ModelSources = []) -> None:  # noqa: B006
    """Write a first sweep file, or with --model that of your models, and print what to type next."""
    if source and model:
        raise UserError("--from copies a sweep, and --model writes one; leave one of the two out")
    path = file or Path(PACKAGE if source == PACKAGE else "sweep.toml")
    if path.suffix != ".toml" and source != PACKAGE:
        raise UserError(f"{path} is not a sweep file name; end it with .toml")
    if path.exists():
        raise UserError(f"{path} already exists and is left unchanged; give another name")
    path.parent.mkdir(parents=True, exist_ok=True)
    if source == PACKAGE:
        template = Path(str(files("proactive_sweep"))) / "template"
        shutil.copytree(template, path, ignore=shutil.ignore_patterns("__pycache__"))
        print_lines([f"{path}: its README.md has the commands to type next"])
        return
    _write_sweep(path, source, model)
    print_lines(_next_steps(path))


def _write_sweep(path: Path, source: str, models: list[str]) -> None:
    sweeps = {"": FOLDER / "starter.toml", **shipped_sweeps()}
    if source not in sweeps:
        raise UserError(f"no shipped sweep is called {source!r}; {suggest_sweep(Path(source))}")
    if models:
        write_line(models, {}, path)
    else:
        head, bracket, tables = sweeps[source].read_text(encoding="utf-8").partition("\n[")
        # without its name, so that it gets a separate output folder
        head = re.sub(r"^name = .*\n?", "", head, flags=re.MULTILINE)
        text = f"{head}{bracket}{tables}".replace("run FILE", f"run {shlex.quote(str(path))}")
        path.write_text(text, encoding="utf-8")


def _next_steps(path: Path) -> list[str]:
    """Return the file written and the commands to type next."""
    sweep, file = load(path), shlex.quote(str(path))
    folder = shlex.quote(str(path.parent / sweep.data))
    get_data = f"data demo {folder}      # a small drawn benchmark; `data fetch DIR` downloads the published one"
    if Path(sweep.data).name == "test":
        get_data = f"data fetch {shlex.quote(str(path.parent / Path(sweep.data).parent))}      # 150 GB, published"
    commands = [*([get_data] if missing_data(sweep.data, path) else []), f"plan {file}", f"run {file}"]
    commands.append(f"report {shlex.quote(sweep.output)}")
    return [f"{path}: edit it, then", *(f"  proactive-sweep {command}" for command in commands)]


# -- data ----------------------------------------------------------------------------------------------------------------
def fetch(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where to put it; the benchmark is then DIR/test.")],
    scenarios: Names = "all",
    revision: Annotated[str | None, typer.Option(help="A commit of the data set, to pin it.")] = None,
) -> None:
    """Download the published benchmark, unpack it safely and check it; rerun to resume."""
    from orchestrator.datasets.download import FOLDER, describe_terms, fetch_benchmark

    names = find_scenarios(scenarios, "--scenarios")
    folder.mkdir(parents=True, exist_ok=True)
    print_lines(describe_terms(names))
    outcome = fetch_benchmark(folder, names, revision)
    print_lines([*outcome.lines(), f'in a sweep file: data = "{folder / FOLDER}"'])
    raise typer.Exit(0 if outcome.ok else 1)


def check(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The benchmark folder.")],
    scenarios: Names = "all",
    unfiltered: Annotated[bool, typer.Option("--unfiltered", help="Also lines that the paper's filter drops.")] = False,
    deep: Annotated[bool, typer.Option("--deep", help="Decode every picture fully.")] = False,
) -> None:
    """List every bad line and every missing or unreadable picture; exit code 1 if there is any."""
    names = find_scenarios(scenarios, "--scenarios")
    outcome = check_folder(folder, names, filtered=not unfiltered, deep=deep)
    print_lines(outcome.lines())
    raise typer.Exit(0 if outcome.ok else 1)
