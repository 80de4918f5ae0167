"""The Python API (``import orchestrator``): load, plan and play a sweep, also in a notebook, and open a run folder as frames."""

import asyncio
import contextvars
import threading
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any, Self, TypeVar

import polars as pl

from envs.errors import RunFolderError as RunFolderError
from envs.plural import pluralize
from envs.samples import BadData as BadData
from envs.types import Ending
from orchestrator.execution.stop_signals import PATIENCE, StopSignals
from orchestrator.merging.answers import rows_of_keys
from orchestrator.object_store.run_location import open_location, readable_folder
from orchestrator.planning.build_plan import build_plan, cells_with_progress
from orchestrator.report.comparisons.run_comparison import compare_runs
from orchestrator.report.read_run import read_run
from orchestrator.storage import episode_store, run_folder, verdict_store
from orchestrator.storage.disk import check_data_path
from orchestrator.storage.run_folder import stored_sweep
from orchestrator.storage.status import read_status
from sweeps.load import build
from sweeps.spec import Sweep
from sweeps.sweep_file import SweepError as SweepError
from sweeps.sweep_file import read_sweep
from sweeps.values import split_names


class Run:
    """A run folder; each frame is read once, so call ``open_run`` again to see newer episodes."""

    def __init__(self, folder: Path, data: Path | None = None, judge: str = "") -> None:
        self.folder, self.data, self.judge = folder, data, judge
        self.sweep: Sweep = stored_sweep(folder)

    def __repr__(self) -> str:
        cells = self.status()["cells"]
        finished, planned = (sum(cell[name] for cell in cells) for name in ("finished", "planned"))
        return f"<Run {self.folder}: {pluralize(len(cells), 'cell')}, {finished:,} of {pluralize(planned, 'episode')}>"

    def status(self) -> dict[str, Any]:
        """Return the current progress, as ``proactive-sweep status --json`` prints it."""
        return read_status(self.folder)

    @cached_property
    def episodes(self) -> pl.DataFrame:
        """One row per episode of the plan, sorted by key (columns: docs/run-folder.md)."""
        return run_folder.planned_episodes(self.folder).collect().sort("key")

    @cached_property
    def turns(self) -> pl.DataFrame:
        """One row per turn of these episodes, in the order played."""
        return rows_of_keys(episode_store.turns(self.folder), self.episodes).sort("key", "turn")

    @cached_property
    def verdicts(self) -> pl.DataFrame:
        """One row per open-ended answer and judge; empty for multiple choice."""
        return rows_of_keys(verdict_store.verdicts(self.folder), self.episodes).sort("key", "judge")

    @cached_property
    def results(self) -> pl.DataFrame:
        """One row per planned cell: planned, finished, errors, acc with its 95% interval, ps, shares, loops, judged bits."""
        return read_run(self.folder, self.data, self.judge).rows

    @cached_property
    def options(self) -> pl.DataFrame:
        """One row per option of every question under ``every-state``, with its log-probability."""
        rows = rows_of_keys(episode_store.options(self.folder), self.episodes)
        return rows.sort("key", "turn", pl.col("position") < 0, "position")

    def compare(self, *others: Self) -> pl.DataFrame:
        """Return the difference of every other run from this one, on the same samples.

        One row per run, model, scenario, condition and protocol, with the columns of ``measures.paired.compare``:
        ``difference``, its interval, ``p_holm`` and more. Raises RunFolderError.
        """
        return compare_runs([read_run(run.folder, self.data, self.judge) for run in (self, *others)]).cells


def open_run(folder: str | Path, data: str | Path | None = None, judge: str = "") -> Run:
    """Open a run folder, or a local copy of ``s3://BUCKET/FOLDER`` after updating it.

    ``data`` is the benchmark folder if it has moved; ``judge`` is the judge whose verdicts ``results`` counts (default: the
    sweep's own). Raises RunFolderError if there is no run.
    """
    return Run(readable_folder(str(folder)), None if data is None else Path(data), judge)


Result = TypeVar("Result")


def load_sweep(source: str | Path | Mapping[str, Any], **keys: Any) -> Sweep:
    """Load a sweep from a file, the name of a shipped sweep, or a table with a sweep file's keys; ``keys`` override its own.

    ``load_sweep("baselines", data="my-data", selection={"limit": 5})``. Raises SweepError.
    """
    keys = {key: str(value) if isinstance(value, Path) else value for key, value in keys.items()}
    if isinstance(source, Mapping):
        return build({"name": "notebook", **source, **keys}, "the sweep")
    return build({**read_sweep(Path(source)), **keys}, str(source))


def plan(sweep: Sweep) -> pl.DataFrame:
    """Return one row per cell: cell, model, scenario, condition, protocol, planned, and done in its run folder.

    Raises BadData if the data cannot be read.
    """
    folder = readable_folder(sweep.output, started=False)
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
    endings = [Ending(ending) for ending in split_names(retry)]
    folders = [(name, readable_folder(name)) for name in ([reuse] if isinstance(reuse, str) else map(str, reuse))]
    with open_location(sweep.output) as location, StopSignals() as signals:
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

    threading.Thread(target=contextvars.copy_context().run, args=(set_result,), daemon=True).start()
    for _ in range(PATIENCE):  # the thread's ``StopSignals`` handle the first interrupts
        with suppress(KeyboardInterrupt):
            return future.result()
    raise KeyboardInterrupt
