"""``labels``: people's labels of a run's episodes, as CSV files, and how far the people agree."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from orchestrator.cli.options import RunFolder
from orchestrator.cli.printing import print_lines

labels_app = typer.Typer(
    help="Write, read and compare the labels that people give in `view DIR --as NAME`.", no_args_is_help=True
)
File = Annotated[
    Path, typer.Argument(metavar="FILE.csv", help="Columns key, labeler, label, unsure, note, time, wording.")
]


@labels_app.command("export")
def export_labels(folder: RunFolder, file: File) -> None:
    """Write the newest label of each person and episode to a CSV file."""
    from orchestrator.storage import atomic_write, option_labels

    labels = option_labels.read_labels(folder).values()
    atomic_write.write(file, option_labels.to_csv(labels).encode())
    print(f"{len(labels):,} labels in {file}")


@labels_app.command("import")
def import_labels(folder: RunFolder, file: File) -> None:
    """Add the labels of a CSV file to a run folder; a label of an episode that is not stored is refused."""
    from orchestrator.storage import option_labels
    from orchestrator.storage.episode_store import episodes
    from orchestrator.storage.lock import RunFolderError

    labels = option_labels.from_csv(file)
    stored = set(episodes(folder).select("key").collect()["key"])
    if strangers := [label.key for label in labels if label.key not in stored]:
        raise RunFolderError(
            f"{file} labels {strangers[0]}, which is no episode of {folder}; name the folder that it is of"
        )
    option_labels.append_labels(folder, labels)
    print(f"{len(labels):,} labels added to {folder / option_labels.FILE}")


@labels_app.command("agreement")
def show_agreement(folder: RunFolder) -> None:
    """Print how far each two people agree on the episodes that both have labeled."""
    from orchestrator.storage.option_labels import agreements, read_labels

    pairs = list(agreements(read_labels(folder).values()))
    lines = [
        f"{pair.first} and {pair.second}: {pair.equal:,} of {pair.both:,} equal, "
        f"kappa {'-' if pair.kappa is None else f'{pair.kappa:.2f}'}"
        for pair in pairs
    ]
    print_lines(lines or ["no two people have labeled the same episode yet"])
