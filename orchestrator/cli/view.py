"""``view``: every episode of run folders in a browser, also while they are written."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Annotated

import typer

from orchestrator.cli.options import MovedData, RunFolders


def view(
    folders: RunFolders,
    data: MovedData = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The page's port (default: any free one).")] = 0,
    open_browser: Annotated[
        bool, typer.Option("--open", help="Also open the page in the browser of this machine.")
    ] = False,
) -> None:
    """Show every episode of run folders in a browser: filters, film strips, side by side; live while a run writes.

    The page is served on loopback only. Stop with Ctrl-C.
    """
    from orchestrator.view.catalog import run_names

    asyncio.run(_serve(run_names(_runs(folders)), data, port, open_browser))


def _runs(folders: list[Path]) -> list[Path]:
    """Return the folders; raises RunFolderError for one that holds no run, or is named twice."""
    from orchestrator.storage.lock import check_distinct
    from orchestrator.storage.run_folder import stored_sweep

    check_distinct(folders)
    for folder in folders:
        stored_sweep(folder)
    return folders


async def _serve(runs: dict[str, Path], data: Path | None, port: int, open_browser: bool) -> None:
    from orchestrator.human.loopback import serving
    from orchestrator.view.page import ViewPage

    page, stopped = ViewPage(runs, data), asyncio.Event()
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
