"""Sends a sweep's progress, cells and files to MLflow while it runs, and rebuilds all of it from a run folder (``track``).

A dead server never slows or stops a sweep, and MLflow is never the source of anything.

The sweep only puts the latest value of each cell into a table under a lock; a daemon thread sends what changed, about once a
second. What is sent again is not doubled (``mlflow_client``).
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Condition, Thread
from typing import Any

import polars as pl

from actors.redaction import redact_address
from orchestrator.storage import checksums
from orchestrator.storage.lock import RunFolderError
from orchestrator.tracking import local_store
from orchestrator.tracking.mlflow_client import (
    METRICS_PER_CALL,
    NAMES,
    MlflowRun,
    Point,
    Round,
    first_line,
    milliseconds,
)
from orchestrator.tracking.mlflow_process import MlflowProcess
from orchestrator.tracking.points import append_point, stored_points
from orchestrator.tracking.remembered import LOCAL, address
from orchestrator.tracking.rollup import NOBODY, Roster

SEND_INTERVAL_S = 1.0
"""Seconds between two rounds of sending."""
RETRY_INTERVAL_S = 2.0
"""Seconds after a failure before the next try."""
MAX_CLOSING_FAILURES = 2
"""Rounds that may fail after ``close`` before the rest is left to ``track``: the sweep's end waits for no dead server."""
OFF = "none"


class Tracker:
    """Sends one attempt at a sweep to MLflow."""

    def __init__(
        self,
        uri: str,
        experiment: str,
        folder: Path,
        sweep_params: Mapping[str, str],
        run_name: str,
        roster: Roster = NOBODY,
    ) -> None:
        self.off = uri == OFF
        self.uri = address(uri, folder)
        self.experiment, self.folder, self.params, self.name = experiment, folder, dict(sweep_params), run_name
        self._changed = Condition()
        self._pending = Round({}, [], [])
        self._done = 0
        self._process = MlflowProcess(self.uri, experiment, folder, self.params, run_name, roster)
        self._status = ""
        """Set once, by ``close``: the state in which the parent run ends."""
        self._unreachable = False
        """Whether the user was told that the server is gone."""
        self._complete = False
        """Whether everything was sent, the end included."""
        self._abandoned = False
        """Whether the sweep has stopped waiting; the thread prints nothing from then on."""
        self._thread = Thread(target=self._work, name="mlflow-sender", daemon=True)

    def start(self) -> None:
        """Begin to send, on idle CPUs at first (``mlflow_process``); returns at once."""
        if not self.off:
            self._thread.start()

    def hurry(self) -> None:
        """Nothing plays any more, so MLflow need not wait for an idle CPU."""
        if not self.off:
            self._process.hurry()

    def cell(self, row: Mapping[str, Any]) -> None:
        """The newest row of a cell (``score``); it replaces what was not sent yet."""
        if self.off:
            return
        with self._changed:
            self._pending.cells[row["cell"]] = {**row, "at": milliseconds()}

    def progress(self, done: int, planned: int, rate: float) -> None:
        """A point of progress over time on the parent run, at step ``done``; while a server is away the oldest are dropped."""
        self._done = done
        self._point({"episodes_per_second": rate})

    def system_metrics(self, load: Mapping[str, float]) -> None:
        """How busy the nodes are now (``tracking.system_metrics``), as system metrics of the parent run."""
        self._point(load)

    def _point(self, measures: Mapping[str, float]) -> None:
        if not self.off:
            point = Point(self._done, milliseconds(), measures)
            append_point(self.folder, point)
            with self._changed:
                self._pending.progress.append(point)
                del self._pending.progress[:-METRICS_PER_CALL]

    def dataset(self, data: Mapping[str, Any]) -> None:
        """What is played (``dataset.described``)."""
        if not self.off:
            with self._changed:
                self._pending = self._pending._replace(data=data)

    def artifacts(self, paths: Sequence[Path]) -> None:
        """Files to keep with the parent run."""
        if self.off:
            return
        with self._changed:
            self._pending.files.extend(path for path in paths if path not in self._pending.files)

    def close(self, status: str, timeout: float = 20.0) -> None:
        """Send what is left, for at most ``timeout`` seconds, and end the parent run as FINISHED, FAILED or KILLED."""
        if self.off or self._thread.ident is None:
            return
        with self._changed:
            self._status = status
            self._changed.notify()
        self.hurry()
        self._thread.join(timeout)
        with self._changed:
            self._abandoned = True
            complete = self._complete
        self._process.kill()
        local_store.settle(self.folder / local_store.NAME)
        if not complete:
            print(
                f"MLflow at {redact_address(self.uri)} did not take everything; "
                f"`proactive-sweep track {self.folder}` sends it again",
                file=sys.stderr,
                flush=True,
            )

    # -- the thread ---------------------------------------------------------------------------------------------------
    def _work(self) -> None:
        proven = False  # whether the last try was taken
        pause, failures = 0.0, 0
        while failures < MAX_CLOSING_FAILURES and not self._abandoned:
            ready = self._take(pause)
            try:
                self._process.send(ready)
                self._reachable_again()
                if ready.status:
                    self._complete = True
                    return
                proven, pause = True, SEND_INTERVAL_S
            except Exception as problem:  # whatever goes wrong there: the sweep must not hear of it
                self._merge_unsent(ready)
                if proven:  # found again from the server: runs may have been deleted, or the server emptied
                    proven, pause = False, 0.0
                    continue
                self._warn_unreachable(problem)
                failures += bool(ready.status)
                pause = RETRY_INTERVAL_S

    def _take(self, pause: float) -> Round:
        """What waits, after a pause that ``close`` cuts short."""
        with self._changed:
            if not self._status:
                self._changed.wait_for(lambda: bool(self._status), pause)
            ready, self._pending = self._pending, Round({}, [], [])
            return ready._replace(status=self._status)

    def _merge_unsent(self, ready: Round) -> None:
        """Keep what could not be sent, unless something newer took its place."""
        with self._changed:
            newer = self._pending
            files = list(dict.fromkeys([*ready.files, *newer.files]))
            points = [*ready.progress, *newer.progress][-METRICS_PER_CALL:]
            self._pending = Round({**ready.cells, **newer.cells}, points, files, newer.data or ready.data)

    def _warn_unreachable(self, problem: Exception) -> None:
        if not self._unreachable:
            self._unreachable = True
            self._print(f"cannot be reached, the sweep goes on without it: {first_line(problem)}")

    def _reachable_again(self) -> None:
        if self._unreachable:
            self._unreachable = False
            self._print("is back")

    def _print(self, what: str) -> None:
        if not self._abandoned:
            print(f"MLflow at {redact_address(self.uri)} {what}", file=sys.stderr, flush=True)


def track(folder: Path, uri: str | None = None, data: Path | None = None) -> None:
    """Rebuild the MLflow run of a run folder; raises RunFolderError where the folder or MLflow does not allow it.

    With it go what a live sweep has no time for: tables, figures, the report, the data set and a sample of episodes as
    traces. ``data`` is where the benchmark lies now (default: where the sweep had it).
    """
    sweep, rows = _read_results(folder)
    uri = _address(folder, uri or sweep["tracking"].get("uri", LOCAL))
    done, at = int(rows["finished"].sum()), milliseconds()
    failed = "failed" in rows.columns and bool(rows["failed"].sum())
    ready = Round(
        {row["cell"]: {**row, "at": at} for row in rows.iter_rows(named=True)},
        [*stored_points(folder), Point(done, at)],
        [folder / "sweep.resolved.toml", folder / "results.json"],
        status="FINISHED" if done == rows["planned"].sum() and not failed else "FAILED",
    )
    from orchestrator.tracking.artifacts import send_artifacts  # figures take a second to import: not for a live sweep

    try:
        experiment = sweep["tracking"].get("experiment") or sweep["name"]
        run = MlflowRun(uri, experiment, folder, parameters(sweep), sweep["name"], Roster.of(sweep))
        run.send(ready)
        send_artifacts(run, folder, rows, data)
    except Exception as problem:  # MLflow's stores raise what they like: SQL, HTTP and file errors among them
        raise RunFolderError(
            f"MLflow at {redact_address(uri)} did not take the runs of {folder}: {first_line(problem)}; type the command "
            f"again when it does, or with `--tracking-uri sqlite` for a file in the folder"
        ) from None


def _read_results(folder: Path) -> tuple[dict[str, Any], pl.DataFrame]:
    """The resolved sweep and its results."""
    try:
        sweep = tomllib.loads(checksums.content(folder / "sweep.resolved.toml").decode())
        rows = pl.read_parquet(checksums.content(folder / "results.parquet"))
        rows.select(*NAMES, pl.col("planned", "finished").sum())
        return {"tracking": {}, **sweep, "name": str(sweep["name"])}, rows
    except (OSError, ValueError, KeyError, TypeError, RecursionError, pl.exceptions.PolarsError) as problem:
        raise RunFolderError(
            f"{folder} holds no results to send ({first_line(problem)}); type `proactive-sweep run` with its sweep first"
        ) from None


def _address(folder: Path, uri: str) -> str:
    """The address to rebuild at: a folder never keeps a user and password, so an address that had them must be typed."""
    if "//***@" in uri:
        raise RunFolderError(f"{folder} does not keep the password of {uri}; type the whole address as --tracking-uri")
    return address(LOCAL if uri == OFF else uri, folder)


def parameters(sweep: Mapping[str, Any]) -> dict[str, str]:
    """What a parent run says of its sweep, from the resolved file: names and settings, never an engine's options or a key."""
    names = {
        key: ", ".join(item["name"] if isinstance(item, dict) else str(item) for item in sweep[key])
        for key in ("models", "scenarios", "conditions", "protocols")
        if key in sweep
    }
    seed = {"seed": str(sweep["seed"])} if "seed" in sweep else {}
    settings = {
        f"{part}.{key}": str(value) for part in ("sampling", "selection") for key, value in sweep.get(part, {}).items()
    }
    return {**names, **seed, **settings}
