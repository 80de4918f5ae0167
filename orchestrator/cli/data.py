"""The commands ``data`` and ``models``: the benchmark's files, and what would stop a model before a sweep starts."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from actors.printable import printable
from envs import SCENARIOS
from envs.samples import BadData
from orchestrator.cli.as_json import AsJson, show_json
from orchestrator.monitoring.console import show
from sweeps.sweep_file import SweepError

if TYPE_CHECKING:
    from sweeps.spec import ModelSpec

data_app = typer.Typer(help="The benchmark's data: draw a demo, check a folder.", no_args_is_help=True)
models_app = typer.Typer(help="The models: what would stop them, before anything starts.", no_args_is_help=True)

WIDTH = 160
"""Columns that the tables of models need."""


@data_app.command()
def demo(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where to draw it.")],
    samples: Annotated[int, typer.Option(help="Samples in all, spread over the scenarios.")] = 210,
    seed: Annotated[int, typer.Option(help="The same seed draws the same bytes.")] = 0,
    keep: Annotated[bool, typer.Option("--keep", help="Leave a folder that holds something as it is.")] = False,
    scenarios: Annotated[str, typer.Option(help="Names joined by commas, or all.")] = "all",
) -> None:
    """Draw a small benchmark of all seven scenarios in the published format."""
    from envs.demo import draw

    if keep and folder.is_dir() and any(folder.iterdir()):
        print(printable(f"{folder} is there already; remove it to draw it anew"))
        return
    try:
        drawn = draw(folder, samples, seed, SCENARIOS if scenarios == "all" else scenarios.split(","))
    except ValueError as mistake:
        raise BadData(str(mistake)) from None
    except OSError as problem:
        raise BadData(_unwritable(folder, problem)) from None
    print(printable(f"{folder}: ") + ", ".join(f"{name} {count}" for name, count in drawn.items()))


@data_app.command()
def fetch(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where to put it; DIR/test is the benchmark then.")],
    scenarios: Annotated[str, typer.Option(help="Names joined by commas, or all.")] = "all",
    revision: Annotated[str | None, typer.Option(help="A commit of the data set, to pin it.")] = None,
    delete_archives: Annotated[
        bool, typer.Option("--delete-archives", help="Remove each archive once unpacked.")
    ] = False,
    split: Annotated[str, typer.Option(help="test, the benchmark; or train, the states to learn from.")] = "test",
) -> None:
    """Download the published benchmark, unpack it safely and check it; rerun to resume."""
    from orchestrator.datasets import terms
    from orchestrator.datasets.download import FOLDER
    from orchestrator.datasets.download import fetch as get

    names = list(SCENARIOS) if scenarios == "all" else scenarios.split(",")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise BadData(_unwritable(folder, problem)) from None
    if split not in ("test", "train"):
        raise BadData(f"--split {split!r} is neither test nor train")
    for line in terms.told(("QD", "COCO") if split == "train" else names):
        print(printable(line), flush=True)
    if split == "train":
        _fetch_train_split(folder, revision)
        return
    found = get(folder, names, revision, delete_archives)
    for line in found.lines():
        print(printable(line))
    print(printable(f'in a sweep file: data = "{folder / FOLDER}"'))
    raise typer.Exit(0 if found.ok else 1)


def _fetch_train_split(folder: Path, revision: str | None) -> None:
    from orchestrator.datasets.train_split import fetch as get

    print(f'in a sweep file: [train] data = "{get(folder, revision)}"')


@data_app.command()
def check(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The benchmark folder.")],
    scenarios: Annotated[str, typer.Option(help="Names joined by commas, or all.")] = "all",
    unfiltered: Annotated[bool, typer.Option("--unfiltered", help="Check every line, not only the kept ones.")] = False,
    deep: Annotated[bool, typer.Option("--deep", help="Decode every picture fully.")] = False,
) -> None:
    """List every bad line and every missing or unreadable picture; exit code 1 if there is any."""
    from envs.check import check as examine

    names = list(SCENARIOS) if scenarios == "all" else scenarios.split(",")
    found = examine(folder, names, filtered=not unfiltered, deep=deep)
    for line in found.lines():
        print(printable(line))
    raise typer.Exit(0 if found.ok else 1)


@models_app.command("check")
def check_models(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME...]", help="Default: all that ship.")] = None,
    sweep: Annotated[Path | None, typer.Option(metavar="SWEEP", help="The models of this sweep file.")] = None,
    gpu_type: Annotated[str, typer.Option(help="h200, h100, a100, l40s, a10 and others.")] = "h200",
    as_json: AsJson = False,
) -> None:
    """Source, architecture, pictures, memory and licence of each model, in one table; exit code 1 if one cannot run.

    For named models and those of a sweep, the packages that their processors need are imported here, too.
    """
    from orchestrator.inspection.model_check import GPUS
    from orchestrator.inspection.model_check import check as examine
    from sweeps.load import models_named

    if gpu_type not in GPUS:
        raise SweepError(f"--gpu-type {gpu_type!r} is none of {', '.join(GPUS)}")
    found = examine(models_named(names or [], sweep), gpu_type, imports=bool(names or sweep))
    notes = [] if sweep is None else _may_overflow(sweep)
    if as_json:
        show_json({"models": [{**asdict(row), "ok": row.ok} for row in found], "notes": notes})
    else:
        table = Table("model", "source", "architecture", "pictures", "memory", "packages", "licence")
        for row in found:
            table.add_row(*map(_plain, row.cells))
        show(table, *map(printable, notes), least=WIDTH)
    raise typer.Exit(0 if all(row.ok for row in found) else 1)


@models_app.command("fetch")
def fetch_models(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME...]", help="Default: all of the sweep.")] = None,
    sweep: Annotated[
        Path | None, typer.Option(metavar="SWEEP", help="The models, and the judge, of this file.")
    ] = None,
) -> None:
    """Bring the weights of models to this machine, or to each node of the Ray cluster; rerun to resume.

    The cluster is the one that RAY_ADDRESS names. Exit code 1 if some weights are missing.
    """
    from sweeps.load import load, models_named

    if not names and sweep is None:
        raise SweepError("name the models to fetch, or a sweep: models fetch --sweep FILE")
    models = models_named(names or [], sweep)
    if sweep is not None and not names and (judge := load(sweep).judge) is not None:
        models = [*models, judge.model]
    missing = _fetched(models, lambda line: print(printable(line), flush=True))
    raise typer.Exit(1 if missing else 0)


def _fetched(models: Sequence[ModelSpec], say: Callable[[str], None]) -> list[str]:
    if os.environ.get("RAY_ADDRESS"):
        from orchestrator.execution.fetch_models import fetch_on_cluster  # Ray takes a second to import

        return fetch_on_cluster(models, say)
    from orchestrator.datasets.weights import fetch_all

    return fetch_all(models, say)


def _may_overflow(path: Path) -> list[str]:
    """How many episodes of the sweep may outgrow their models, where its data are at hand."""
    from orchestrator.inspection import overflow
    from orchestrator.planning.build_plan import build_plan
    from sweeps.load import load

    sweep = load(path)
    if "://" not in sweep.data and not Path(sweep.data).is_dir():
        return [f"{sweep.data} is not there: how many episodes may outgrow their models cannot be counted"]
    return overflow.lines(overflow.risks(build_plan(sweep)))


@models_app.command("try")
def try_models(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME...]", help="Models by name, or folders of checkpoints.")
    ] = None,
    sweep: Annotated[
        Path | None, typer.Option(metavar="SWEEP", help="The models and conditions of this sweep.")
    ] = None,
    data: Annotated[Path | None, typer.Option("--data", metavar="DIR", help="The benchmark folder.")] = None,
    backend: Annotated[str, typer.Option(help="The engine for NAME: transformers or vllm.")] = "",
    output: Annotated[Path, typer.Option(metavar="DIR", help="Where the rates seen go, for `plan --gpus`.")] = Path(
        "outputs/models-try"
    ),
    as_json: AsJson = False,
) -> None:
    """Load each model as a run would, play two samples of each scenario x condition, and compare with the package's call."""
    from orchestrator.execution.model_trial import tried
    from orchestrator.inspection.model_try import models

    rows = []
    for row in tried(models(names or [], sweep, backend), sweep, data, output):
        rows.append(row)
        print(printable(f"{row.model}: {row.wrong or 'ok'}"), file=sys.stderr)
    if as_json:
        show_json([row.table() for row in rows])
    else:
        heads = ("model", "loads in s", "GiB", "tokens a picture", "episodes/s", "cut short", "equal", "wrong")
        table = Table(*heads)
        for row in rows:
            table.add_row(*map(_plain, row.cells))
        show(table, *(printable(f"{row.model}: {row.bound}") for row in rows if row.bound), least=WIDTH)
    raise typer.Exit(0 if all(row.ok for row in rows) else 1)


def _unwritable(folder: Path, problem: OSError) -> str:
    """Why nothing can be put into a folder: most often a file has its name, or the name of one above it."""
    file = next((place for place in (folder, *folder.parents) if place.is_file()), None)
    why = f"{file} is a file" if file else problem.strerror or str(problem)
    return f"{folder} cannot be written to: {why}; name another folder"


def _plain(cell: str) -> Text:
    """A cell as it is: others name sources and licences, so a bracket is no markup and a control character is spelled."""
    return Text(printable(cell))
