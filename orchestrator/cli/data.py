"""``data``: download or check the benchmark's files."""

from pathlib import Path
from typing import Annotated

import typer

from envs.check import check as check_folder
from orchestrator.cli.options import Names
from orchestrator.cli.printing import print_lines
from sweeps.packages import find_scenarios


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
