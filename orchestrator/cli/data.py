"""``data``: draw, download, check or filter the benchmark's files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from actors.text.printable import printable
from envs import SCENARIOS
from envs.samples import BadData
from orchestrator.cli.data_filter import filter_samples
from orchestrator.cli.printing import print_lines

data_app = typer.Typer(help="The benchmark's data: draw a demo, download it, check or filter it.", no_args_is_help=True)
Scenarios = Annotated[str, typer.Option(help="Names joined by commas, or all.")]


@data_app.command()
def demo(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where to draw it.")],
    samples: Annotated[int, typer.Option(help="Samples in all, spread over the scenarios.")] = 210,
    seed: Annotated[int, typer.Option(help="The same seed draws the same bytes.")] = 0,
    keep: Annotated[bool, typer.Option("--keep", help="Leave a folder that is not empty as it is.")] = False,
    scenarios: Scenarios = "all",
) -> None:
    """Draw a small benchmark of all seven scenarios in the published format."""
    from envs.demo import draw

    if keep and folder.is_dir() and any(folder.iterdir()):
        print(printable(f"{folder} already exists; remove it to draw it again"))
        return
    try:
        counts = draw(folder, samples, seed, _scenario_names(scenarios))
    except ValueError as mistake:
        raise BadData(str(mistake)) from None
    except OSError as problem:
        raise BadData(_unwritable(folder, problem)) from None
    print(printable(f"{folder}: ") + ", ".join(f"{name} {count}" for name, count in counts.items()))


@data_app.command()
def fetch(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where to put it; the benchmark is then DIR/test.")],
    scenarios: Scenarios = "all",
    revision: Annotated[str | None, typer.Option(help="A commit of the data set, to pin it.")] = None,
    delete_archives: Annotated[
        bool, typer.Option("--delete-archives", help="Remove each archive once unpacked.")
    ] = False,
    split: Annotated[str, typer.Option(help="test, the benchmark; or train, the states to learn from.")] = "test",
) -> None:
    """Download the published benchmark, unpack it safely and check it; rerun to resume."""
    from orchestrator.datasets import terms
    from orchestrator.datasets.download import FOLDER
    from orchestrator.datasets.download import fetch_benchmark as download
    from orchestrator.datasets.train_split import fetch_split as download_train_split

    names = _scenario_names(scenarios)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise BadData(_unwritable(folder, problem)) from None
    if split not in ("test", "train"):
        raise BadData(f"--split {split!r} is neither test nor train")
    print_lines(terms.describe_terms(("QD", "COCO") if split == "train" else names))
    if split == "train":
        print(f'in a sweep file: [train] data = "{download_train_split(folder, revision)}"')
        return
    outcome = download(folder, names, revision, delete_archives)
    print_lines(outcome.lines())
    print(printable(f'in a sweep file: data = "{folder / FOLDER}"'))
    raise typer.Exit(0 if outcome.ok else 1)


@data_app.command()
def check(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The benchmark folder.")],
    scenarios: Scenarios = "all",
    unfiltered: Annotated[
        bool, typer.Option("--unfiltered", help="Check every line, not only the samples that the paper evaluates.")
    ] = False,
    deep: Annotated[bool, typer.Option("--deep", help="Decode every picture fully.")] = False,
) -> None:
    """List every bad line and every missing or unreadable picture; exit code 1 if there is any."""
    from envs.check import check as check_folder

    outcome = check_folder(folder, _scenario_names(scenarios), filtered=not unfiltered, deep=deep)
    print_lines(outcome.lines())
    raise typer.Exit(0 if outcome.ok else 1)


data_app.command("filter")(filter_samples)


def _scenario_names(text: str) -> list[str]:
    return list(SCENARIOS) if text == "all" else text.split(",")


def _unwritable(folder: Path, problem: OSError) -> str:
    """Say why a folder cannot be written to; most often a file has its name, or the name of a parent."""
    file = next((path for path in (folder, *folder.parents) if path.is_file()), None)
    why = f"{file} is a file" if file else problem.strerror or str(problem)
    return f"{folder} cannot be written to: {why}; name another folder"
