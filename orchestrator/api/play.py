"""``load_sweep``, ``plan`` and ``run`` as functions, which also work inside a running event loop, such as a notebook's."""

import asyncio
import contextvars
import threading
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import polars as pl

from envs.types import Ending
from orchestrator.api.open_run import Run, open_run
from orchestrator.execution.stop_signals import PATIENCE, StopSignals
from orchestrator.object_store import run_location
from orchestrator.planning.build_plan import build_plan, cells_with_progress
from orchestrator.storage.disk import check_data_path
from sweeps.load import build
from sweeps.spec import Sweep
from sweeps.sweep_file import read_sweep

Result = TypeVar("Result")


def load_sweep(source: str | Path | Mapping[str, Any], **keys: Any) -> Sweep:
    """Load a sweep from a file, the name of a shipped sweep, or a table with a sweep file's keys; ``keys`` override its own.

    ``load_sweep("baselines", data="my-data", selection={"limit": 5})``. Raises SweepError.
    """
    if isinstance(source, Mapping):
        return build({"name": "notebook", **source, **keys}, "the sweep")
    return build({**read_sweep(Path(source)), **keys}, str(source))


def plan(sweep: Sweep) -> pl.DataFrame:
    """Return one row per cell: cell, model, scenario, condition, protocol, planned, and done in its run folder.

    Raises BadData if the data cannot be read.
    """
    folder = run_location.readable_folder(sweep.output, started=False)
    return pl.DataFrame(cells_with_progress(build_plan(sweep), folder))


def run(sweep: Sweep, *, update: bool = False, retry: Collection[str] = (), reuse: Collection[str] = ()) -> Run:
    """Play the pending episodes of a sweep and open its run folder (``sweep.output``); call it again to resume.

    ``update`` resumes in a folder of another configuration; ``retry`` replays episodes with these endings (``"failed"``);
    ``reuse`` names run folders whose episodes of the same key are copied instead of played. ``status()`` of the run lists
    incomplete cells. Ctrl-C, or a notebook's stop button, stops after storing and raises KeyboardInterrupt. Raises
    RunFolderError, BadData or SweepError.
    """
    from orchestrator.execution.attempt import run as play

    check_data_path(sweep.data)
    endings = [Ending(ending) for ending in retry]
    folders = [(str(name), run_location.readable_folder(str(name))) for name in reuse]
    with run_location.open_location(sweep.output) as location, StopSignals() as signals:
        outcome = _run_outside_loop(
            lambda: play(sweep, location.folder, update, retry=endings, signals=signals, reuse=folders)
        )
    if outcome.interrupted:
        raise KeyboardInterrupt
    return open_run(sweep.output)


def _run_outside_loop(work: Callable[[], Result]) -> Result:
    """Run work that needs its own event loop, in a thread if this thread already runs one, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return work()
    future: Future[Result] = Future()

    def set_result() -> None:
        try:
            future.set_result(work())
        except BaseException as problem:
            future.set_exception(problem)

    thread = threading.Thread(target=contextvars.copy_context().run, args=(set_result,), daemon=True)
    thread.start()
    _join(thread)
    return future.result()


def _join(thread: threading.Thread) -> None:
    """Wait for the thread; its ``StopSignals`` handle the first interrupts."""
    for _ in range(PATIENCE):
        with suppress(KeyboardInterrupt):
            thread.join()
            return
    raise KeyboardInterrupt
