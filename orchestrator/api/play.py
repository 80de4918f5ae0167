"""``load_sweep``, ``plan`` and ``run``: the commands of the same names as functions.

They work inside a running event loop too, such as a notebook's.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import polars as pl

from envs.types import Ending
from orchestrator.api.open_run import Run, open_run
from orchestrator.execution.stop_signals import PATIENCE, StopSignals
from orchestrator.object_store import run_location
from orchestrator.planning.build_plan import build_plan, cells_with_progress
from orchestrator.storage import job_paths
from sweeps.load import build, load
from sweeps.spec import Sweep

Result = TypeVar("Result")


def load_sweep(source: str | Path | Mapping[str, Any], **keys: Any) -> Sweep:
    """A sweep from a file, from the name of one that ships, or from a table with a sweep file's keys; ``keys`` replace its own.

    ``load_sweep("baselines", data="my-data", selection={"limit": 5})``. Raises SweepError.
    """
    if isinstance(source, Mapping):
        return build({"name": "notebook", **source, **keys}, "the sweep")
    return load(Path(source), (), keys=keys)


def plan(sweep: Sweep) -> pl.DataFrame:
    """One row a cell: cell, model, scenario, condition, protocol, planned, and how many are done in its run folder.

    Raises BadData where the data cannot be read.
    """
    folder = run_location.readable_folder(sweep.output, started=False)
    return pl.DataFrame(cells_with_progress(build_plan(sweep), folder))


def run(sweep: Sweep, *, update: bool = False, retry: Collection[str] = (), reuse: Collection[str] = ()) -> Run:
    """Play what is pending of the sweep and open its run folder (``sweep.output``); the same call continues an interrupted one.

    ``update`` goes on in a folder of another configuration; ``retry`` plays again what ended so (``"failed"`` ...);
    ``reuse`` names run folders whose episodes of the same key are taken over, not played. A cell that could not be completed
    is in the run's ``status()``. Ctrl-C, or a notebook's stop button, stops in good order and raises KeyboardInterrupt.
    Raises RunFolderError, BadData or SweepError.
    """
    from orchestrator.execution.run import run as play

    job_paths.check_data_path(sweep.data)
    again = [Ending(ending) for ending in retry]
    others = [(str(name), run_location.readable_folder(str(name))) for name in reuse]
    with run_location.open_location(sweep.output) as location, StopSignals() as signals:
        outcome = _beside(lambda: play(sweep, location.folder, update, retry=again, signals=signals, reuse=others))
    if outcome.interrupted:
        raise KeyboardInterrupt
    return open_run(sweep.output)


def _beside(work: Callable[[], Result]) -> Result:
    """The result of work that has an event loop of its own: in a thread where one runs here already, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return work()
    results: list[Result] = []
    problems: list[BaseException] = []

    def worked() -> None:
        try:
            results.append(work())
        except BaseException as problem:
            problems.append(problem)

    thread = threading.Thread(target=contextvars.copy_context().run, args=(worked,), daemon=True)
    thread.start()
    _join(thread)
    if problems:
        raise problems[0]
    return results[0]


def _join(thread: threading.Thread) -> None:
    """Wait for the thread; interrupts before the play began are remembered by its signals, later ones stop it."""
    for _ in range(PATIENCE):
        with suppress(KeyboardInterrupt):
            thread.join()
            return
    raise KeyboardInterrupt
