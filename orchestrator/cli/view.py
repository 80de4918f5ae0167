"""``view``: every episode of run folders in a browser, and the labels that people give there."""

from __future__ import annotations

import asyncio
import re
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli.options import MovedData, RunFolders
from orchestrator.cli.printing import print_lines
from sweeps.sweep_file import SweepError
from sweeps.values import NAME

if TYPE_CHECKING:
    from orchestrator.view.page import ViewPage

REPORT_S = 10.0
"""Seconds between two lines of progress."""
LabelsOut = Annotated[
    Path | None,
    typer.Option(
        "--export-labels", metavar="FILE.csv", help="Write the newest label of each person and episode, and end."
    ),
]
LabelsIn = Annotated[
    Path | None,
    typer.Option(
        "--import-labels",
        metavar="FILE.csv",
        help="Add labels (columns key, labeler, label, unsure, note, time, wording), and end.",
    ),
]


def view(
    folders: RunFolders,
    data: MovedData = None,
    name: Annotated[str, typer.Option("--as", metavar="NAME", help="Label episodes under this name.")] = "",
    bundle: Annotated[
        Path | None,
        typer.Option("--bundle", metavar="OUT", help="Write the page with all episodes as static files, and end."),
    ] = None,
    export_labels: LabelsOut = None,
    import_labels: LabelsIn = None,
    no_pictures: Annotated[
        bool, typer.Option("--no-pictures", help="Leave the pictures out of --bundle, as their licenses may ask.")
    ] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The page's port (default: any free one).")] = 0,
    open_browser: Annotated[
        bool, typer.Option("--open", help="Also open the page in the browser of this machine.")
    ] = False,
) -> None:
    """Show every episode of run folders in a browser: filters, film strips, side by side; live while a run writes.

    The page is served on loopback only. Stop with Ctrl-C.
    """
    from orchestrator.view.catalog import run_names
    from orchestrator.view.page import ViewPage

    if name and (len(name) > 60 or not re.fullmatch(NAME, name)):
        raise SweepError(f"--as {name!r} must be letters, digits, dots, dashes, plus signs or underscores, 60 at most")
    if name:
        _refuse_bucket_copies(folders)
    for file, move_labels in ((import_labels, _import_labels), (export_labels, _export_labels)):
        if file is not None:
            if len(folders) > 1:
                raise SweepError("labels belong to one run folder; name one")
            move_labels(folders[0], file)
    if import_labels or export_labels:
        return
    runs = run_names(_check_runs(folders))
    if bundle is not None:
        _write_bundle(runs, data, bundle, not no_pictures)
        return
    page = ViewPage(runs, data, name)
    asyncio.run(_serve(page, port, open_browser))


def _write_bundle(runs: dict[str, Path], data: Path | None, target: Path, with_pictures: bool) -> None:
    from orchestrator.view.bundle import write_bundle

    next_report = time.monotonic() + REPORT_S
    for state in write_bundle(runs, data, target, with_pictures):
        if time.monotonic() > next_report:
            print(f"{state.episodes:,} episodes, {state.pictures:,} pictures ...", file=sys.stderr)
            next_report = time.monotonic() + REPORT_S
    print_lines(
        [
            f"{state.episodes:,} episodes and {state.pictures:,} pictures in {target} ({state.bytes / 1e6:,.1f} MB)",
            f"to look at it: python -m http.server --directory {target} --bind 127.0.0.1",
        ]
    )
    if state.pictures:
        print_lines(["before you publish it, see docs/data-sources.md for the licenses of the pictures"])


def _check_runs(folders: list[Path]) -> list[Path]:
    """Return the folders; raises RunFolderError for a folder that holds no run or is named twice."""
    from orchestrator.storage.run_folder import check_distinct, stored_sweep

    check_distinct(folders)
    for folder in folders:
        stored_sweep(folder)
    return folders


def _refuse_bucket_copies(folders: list[Path]) -> None:
    """Raise RunFolderError for a local copy of a bucket, because its next update would delete the labels."""
    from envs.errors import RunFolderError
    from orchestrator.object_store.uploader import LISTING

    if any((folder / LISTING).exists() for folder in folders):
        raise RunFolderError(
            "labels are kept in a folder of this machine; copy the run from its bucket to one and name that"
        )


async def _serve(page: ViewPage, port: int, open_browser: bool) -> None:
    from orchestrator.human.loopback import serving

    stopped = asyncio.Event()
    async with serving(page, port) as address:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stopped.set)
        print(f"open {address} in a browser on this machine; Ctrl-C stops")
        if open_browser:
            typer.launch(address)
        watching, stop = asyncio.create_task(page.watch()), asyncio.create_task(stopped.wait())
        await asyncio.wait({watching, stop}, return_when=asyncio.FIRST_COMPLETED)
        for task in (watching, stop):
            task.cancel()
        results = await asyncio.gather(watching, stop, return_exceptions=True)
        for result in results:
            if isinstance(result, Exception):
                raise result


def _export_labels(folder: Path, file: Path) -> None:
    """Write the newest label of each person and episode to a CSV file."""
    from orchestrator.storage import option_labels, safe_write

    labels = option_labels.read_labels(folder).values()
    safe_write.write(file, option_labels.to_csv(labels).encode())
    print(f"{len(labels):,} labels in {file}")


def _import_labels(folder: Path, file: Path) -> None:
    """Add the labels of a CSV file; raises RunFolderError for a label of an episode that is not stored."""
    from envs.errors import RunFolderError
    from orchestrator.storage import option_labels
    from orchestrator.storage.episode_store import episodes

    _refuse_bucket_copies([folder])
    labels = option_labels.from_csv(file)
    stored = set(episodes(folder).select("key").collect()["key"])
    if unknown := [label.key for label in labels if label.key not in stored]:
        text = f"{file} labels {unknown[0]}, which is not an episode of {folder}; name the folder that has it"
        raise RunFolderError(text)
    option_labels.append_labels(folder, labels)
    print(f"{len(labels):,} labels added to {folder / option_labels.FILE}")
