"""``train``: train a model on single turns of the game, forecast the training for ``plan``, and print what it learned."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from envs.errors import RunFolderError
from orchestrator.monitoring.console import show

INTERRUPTED = 130


def train(
    sweep: Annotated[Path, typer.Argument(metavar="SWEEP", help="A sweep file with a \\[train] table.")],
    set_: Annotated[
        list[str], typer.Option("--set", metavar="KEY=VALUE", help="Override a key, such as train.rp=0.75.")
    ] = [],  # noqa: B006
    output: Annotated[str, typer.Option("--output", metavar="DIR", help="Where to save the trained model.")] = "",
) -> None:
    """Train a model on single turns of the game (GRPO); rerun the same command to resume."""
    from orchestrator.learning import settings

    training = settings.load(sweep, set_)
    folder = output or training.sweep.output
    if "://" in folder:
        raise RunFolderError(f"{folder} is a bucket; training needs a local folder as --output")
    from orchestrator.learning.trainer import train as teach  # torch takes seconds to import

    student = teach(training, Path(folder))
    if student.model is None:
        print(f"stopped after {student.steps:,} steps; rerun the same command to resume")
        raise typer.Exit(INTERRUPTED)
    print(f"{student.model}: play it with `proactive-sweep run SWEEP --model {student.model}`")


def training_lines(path: Path, overrides: list[str], gpu_type: str, gpus: int | None = None) -> tuple[str, ...]:
    """Return the lines of `plan` on a sweep file's [train] table; empty without that table."""
    from sweeps.sweep_file import override_key, read_sweep

    table = read_sweep(path)
    for override in overrides:
        override_key(table, override)
    if "train" not in table:
        return ()
    from orchestrator.learning import settings
    from orchestrator.learning.plan import plan_lines

    return tuple(plan_lines(settings.load(path, overrides), gpu_type, gpus))


def print_learned(folders: Sequence[Path], data: Path | None) -> None:
    """Print and write table 3: models before and after training, in and out of domain, with paired intervals."""
    from orchestrator.learning import table
    from orchestrator.report.tables.formats import rich_table
    from orchestrator.report.tables.model_input import add_notes, input_notes
    from orchestrator.storage.disk import disk_errors
    from orchestrator.storage.run_folder import stored_sweep

    if len(folders) > 1:
        raise RunFolderError("--learned takes one run folder: the one that holds models before and after training")
    scores = table.read_scores(folders[0], data)
    notes = input_notes(stored_sweep(folders[0]), folders[0])
    show(*(rich_table(add_notes(part, notes)) for part in table.learning_tables(scores)), min_width=150)
    with disk_errors(folders[0]):
        files = table.write_scores(folders[0], scores)
    print(" ".join(str(path) for path in files))
