"""``train``: train a model on single turns of the game."""

import os
from pathlib import Path
from typing import Annotated

import typer

from envs.errors import RunFolderError

INTERRUPTED = 130
SWEEPS = Path(__file__).parent / "sweeps"


def train(
    sweep: Annotated[Path, typer.Argument(metavar="SWEEP", help="A sweep file with a [train] table.")],
    set_: Annotated[
        list[str], typer.Option("--set", metavar="KEY=VALUE", help="Override a key, such as train.rp=0.75.")
    ] = [],  # noqa: B006
    output: Annotated[str, typer.Option("--output", metavar="DIR", help="Where to save the trained model.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count states, steps and replies.")] = False,
) -> None:
    """Train a model on single turns of the game (GRPO); rerun the same command to resume."""
    from proactive_learn import settings, trainer  # their imports take a second

    training = settings.load(sweep, set_)
    folder = output or training.sweep.output
    if "://" in folder:
        raise RunFolderError(f"{folder} is a bucket; training needs a local folder as --output")
    if dry_run:
        print(trainer.describe(training))
        return
    outcome = trainer.train(training, Path(folder))
    if os.environ.get("RANK", "0") != "0":
        return
    if outcome.model is None:
        print(f"stopped after {outcome.steps:,} steps; rerun the same command to resume")
        raise typer.Exit(INTERRUPTED)
    print(f"{outcome.model}: play it with `proactive-sweep run SWEEP --model {outcome.model}`")


def split(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where to write the folder train/.")],
    revision: Annotated[str, typer.Option(metavar="COMMIT", help="A commit of the data set (default: main).")] = "",
) -> None:
    """Download the published train split of QD and COCO, and check its rows."""
    from orchestrator.datasets.download import describe_terms
    from proactive_learn.train_split import fetch_split

    print("\n".join(describe_terms(("QD", "COCO"))))
    print(f'in a sweep file: [train] data = "{fetch_split(folder, revision or None)}"')
