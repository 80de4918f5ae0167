"""``view``: every episode of run folders in a browser, or as static files."""

import asyncio
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from orchestrator.cli.options import MovedData, RunFolders
from orchestrator.cli.printing import print_lines, reading
from orchestrator.storage.run_folder import check_distinct, stored_sweep
from orchestrator.view.bundle import write_bundle
from orchestrator.view.catalog import run_names
from orchestrator.view.loopback import serve_until_stopped
from orchestrator.view.page import ViewPage


def view(
    folders: RunFolders,
    data: MovedData = None,
    output: Annotated[Path | None, typer.Option(metavar="OUT", help="Write all as static files, and end.")] = None,
    no_pictures: Annotated[bool, typer.Option("--no-pictures", help="Leave the pictures out of --output.")] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The page's port (default: any free one).")] = 0,
) -> None:
    """Show every episode of run folders in a browser: filters, film strips, side by side; live while a run writes.

    The page is served on loopback only. Stop with Ctrl-C.
    """
    check_distinct(folders)
    for folder in folders:
        stored_sweep(folder)
    runs = run_names(folders)
    if output is not None:
        with reading(folders):
            _write_bundle(runs, data, output, not no_pictures)
    else:
        asyncio.run(serve_until_stopped(ViewPage(runs, data), port))


def _write_bundle(runs: dict[str, Path], data: Path | None, target: Path, with_pictures: bool) -> None:
    for state in write_bundle(runs, data, target, with_pictures):
        print(f"{state.episodes:,} episodes, {state.pictures:,} pictures ...", file=sys.stderr)
    size = f"{state.bytes / 1e6:,.1f} MB"
    print_lines([f"{state.episodes:,} episodes and {state.pictures:,} pictures in {target} ({size})"])
    print_lines([f"to look at it: python -m http.server --directory {shlex.quote(str(target))} --bind 127.0.0.1"])
    if state.pictures:
        print_lines(["before you publish it, see docs/data-sources.md for the licenses of the pictures"])
