"""``train`` and ``learned``: a model learns from states of the game, and what it learnt stands beside the paper's table 3."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from orchestrator.cli.options import MovedData
from orchestrator.monitoring.console import show
from orchestrator.storage.lock import RunFolderError

INTERRUPTED = 130


def train(
    sweep: Annotated[Path, typer.Argument(metavar="SWEEP", help="A sweep file with a \\[train] table.")],
    set_: Annotated[
        list[str], typer.Option("--set", metavar="KEY=VALUE", help="Override a key, such as train.rp=0.75.")
    ] = [],  # noqa: B006
    output: Annotated[str, typer.Option("--output", metavar="DIR", help="The folder of the training.")] = "",
) -> None:
    """Train a model on single turns of the game (GRPO); the same command continues an interrupted training."""
    from orchestrator.learning import settings

    training = settings.load(sweep, set_)
    folder = output or training.sweep.output
    if "://" in folder:
        raise RunFolderError(f"{folder} is a bucket; a training needs a folder of this machine as --output")
    from orchestrator.learning.trainer import train as teach  # torch takes seconds to import

    done = teach(training, Path(folder))
    if done.model is None:
        print(f"stopped after {done.steps:,} steps; the same command goes on from there")
        raise typer.Exit(INTERRUPTED)
    print(f"{done.model}: play it with `proactive-sweep run SWEEP --model {done.model}`")


def learned(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A run folder with models before and after training.")],
    data: MovedData = None,
) -> None:
    """Print table 3 of a run: before and after training, in and out of domain, with paired intervals and the paper's."""
    from orchestrator.learning import table
    from orchestrator.storage.disk import disk

    found = table.read(folder, data)
    show(*table.tables(found), least=150)
    with disk(folder):
        written = table.write(folder, found)
    print(" ".join(str(path) for path in written))


def plan_lines(path: Path, overrides: list[str], gpu_type: str, gpus: int | None = None) -> tuple[str, ...]:
    """What `plan` says of a sweep file's [train] table; nothing where it has none."""
    from sweeps.sweep_file import override_key, read_sweep

    table = read_sweep(path)
    for override in overrides:
        override_key(table, override)
    if "train" not in table:
        return ()
    from orchestrator.learning import settings
    from orchestrator.learning.plan import plan_lines as lines

    return tuple(lines(settings.load(path, overrides), gpu_type, gpus))
