"""MLflow mirrors the store and is never the source of anything: a dead server never slows or stops a sweep.

The sweep only puts the latest value of each cell into a table under a lock; a daemon thread sends what changed, about once a
second. What is sent again is not doubled (``mlflow_door``), and ``track`` rebuilds the whole mirror from the run folder.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Condition, Thread
from typing import Any, NamedTuple

import polars as pl

from orchestrator.lock import RunFolderError
from orchestrator.mlflow_door import BATCH, LOCAL, NAMES, Mirror, Point, address, milliseconds, public

EVERY = 1.0
"""Seconds between two rounds of sending."""
COOL_DOWN = 2.0
"""Seconds after a failure before the next try."""
LAST_TRIES = 2
"""Rounds that may fail after ``close`` before the rest is left to ``track``: the sweep's end waits for no dead server."""
REASON = 200
"""Characters of a reason that are said."""
OFF = "none"


class Waiting(NamedTuple):
    """What is to be sent."""

    cells: dict[str, dict[str, Any]]
    """Cell -> its newest row."""
    progress: list[Point]
    files: list[Path]


class Tracker:
    """The live mirror of one attempt at a sweep."""

    def __init__(self, uri: str, experiment: str, folder: Path, sweep_params: Mapping[str, str], run_name: str) -> None:
        self.off = uri == OFF
        self.uri = address(uri, folder)
        self.experiment, self.folder, self.params, self.name = experiment, folder, dict(sweep_params), run_name
        self._wake = Condition()
        self._waiting = Waiting({}, [], [])
        self._status = ""
        """Set once, by ``close``: the state in which the parent run ends."""
        self._gone = False
        """Whether the user was told that the server is gone."""
        self._complete = False
        """Whether everything was sent, the end included."""
        self._left = False
        """Whether the sweep has stopped waiting; the thread says nothing from then on."""
        self._thread = Thread(target=self._work, name="mlflow-mirror", daemon=True)

    def start(self) -> None:
        """Begin to mirror; returns at once."""
        if not self.off:
            self._thread.start()

    def cell(self, row: Mapping[str, Any]) -> None:
        """The newest row of a cell (``score``); it replaces what was not sent yet."""
        if self.off:
            return
        with self._wake:
            self._waiting.cells[row["cell"]] = {**row, "at": milliseconds()}

    def progress(self, done: int, planned: int, rate: float) -> None:
        """A point of progress over time on the parent run, at step ``done``; while a server is away the oldest are dropped."""
        if self.off:
            return
        with self._wake:
            self._waiting.progress.append(Point(done, rate, milliseconds()))
            del self._waiting.progress[:-BATCH]

    def artifacts(self, paths: Sequence[Path]) -> None:
        """Files to keep with the parent run."""
        if self.off:
            return
        with self._wake:
            self._waiting.files.extend(path for path in paths if path not in self._waiting.files)

    def close(self, status: str, timeout: float = 20.0) -> None:
        """Send what is left, for at most ``timeout`` seconds, and end the parent run as FINISHED, FAILED or KILLED."""
        if self.off or self._thread.ident is None:
            return
        with self._wake:
            self._status = status
            self._wake.notify()
        self._thread.join(timeout)
        with self._wake:
            self._left = True
            complete = self._complete
        if not complete:
            print(
                f"MLflow at {public(self.uri)} did not take everything; `proactive-sweep track {self.folder}` sends it again",
                file=sys.stderr,
                flush=True,
            )

    # -- the thread ---------------------------------------------------------------------------------------------------
    def _work(self) -> None:
        mirror: Mirror | None = None
        proven = False  # whether this mirror has taken a round
        pause, failures = EVERY, 0
        while failures < LAST_TRIES:
            status, ready = self._take(pause)
            try:
                mirror = mirror or Mirror(self.uri, self.experiment, self.folder, self.params, self.name)
                _send(mirror, ready, status)
                self._back()
                if status:
                    self._complete = True
                    return
                proven, pause = True, EVERY
            except Exception as problem:  # whatever MLflow raises: the sweep must not hear of it
                self._give_back(ready)
                mirror = None  # found again from the server: runs may have been deleted, or the server emptied
                if proven:
                    proven, pause = False, 0.0
                    continue
                self._warn(problem)
                failures += bool(status)
                pause = COOL_DOWN

    def _take(self, pause: float) -> tuple[str, Waiting]:
        """What waits, after a pause that ``close`` cuts short."""
        with self._wake:
            if not self._status:
                self._wake.wait_for(lambda: bool(self._status), pause)
            ready, self._waiting = self._waiting, Waiting({}, [], [])
            return self._status, ready

    def _give_back(self, ready: Waiting) -> None:
        """Keep what could not be sent, unless something newer took its place."""
        with self._wake:
            newer = self._waiting
            files = list(dict.fromkeys([*ready.files, *newer.files]))
            self._waiting = Waiting({**ready.cells, **newer.cells}, [*ready.progress, *newer.progress][-BATCH:], files)

    def _warn(self, problem: Exception) -> None:
        if not self._gone:
            self._gone = True
            self._say(f"cannot be reached, the sweep goes on without it: {_reason(problem)}")

    def _back(self) -> None:
        if self._gone:
            self._gone = False
            self._say("is back")

    def _say(self, what: str) -> None:
        if not self._left:
            print(f"MLflow at {public(self.uri)} {what}", file=sys.stderr, flush=True)


def track(folder: Path, uri: str | None = None) -> None:
    """Rebuild the mirror of a run folder; raises RunFolderError where the folder or MLflow does not allow it."""
    sweep, rows = _kept(folder)
    where = _where(folder, uri or sweep["tracking"].get("uri", LOCAL))
    done, at = int(rows["finished"].sum()), milliseconds()
    failed = "failed" in rows.columns and bool(rows["failed"].sum())
    ready = Waiting(
        {row["cell"]: {**row, "at": at} for row in rows.iter_rows(named=True)},
        [Point(done, None, at)],
        [folder / "sweep.resolved.toml", folder / "results.json"],
    )
    try:
        experiment = sweep["tracking"].get("experiment") or sweep["name"]
        mirror = Mirror(where, experiment, folder, parameters(sweep), sweep["name"])
        _send(mirror, ready, "FINISHED" if done == rows["planned"].sum() and not failed else "FAILED")
    except Exception as problem:  # MLflow's stores raise what they like: SQL, HTTP and file errors among them
        raise RunFolderError(
            f"MLflow at {public(where)} did not take the mirror of {folder}: {_reason(problem)}; type the command again when "
            f"it does, or with `--tracking-uri sqlite` for a file in the folder"
        ) from None


def _kept(folder: Path) -> tuple[dict[str, Any], pl.DataFrame]:
    """The resolved sweep and its results."""
    try:
        sweep = tomllib.loads((folder / "sweep.resolved.toml").read_text(encoding="utf-8"))
        rows = pl.read_parquet(folder / "results.parquet")
        rows.select(*NAMES, pl.col("planned", "finished").sum())
        return {"tracking": {}, **sweep, "name": str(sweep["name"])}, rows
    except (OSError, ValueError, KeyError, pl.exceptions.PolarsError) as problem:
        raise RunFolderError(
            f"{folder} holds no results to mirror ({_reason(problem)}); type `proactive-sweep run` with its sweep first"
        ) from None


def _where(folder: Path, uri: str) -> str:
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


def _send(mirror: Mirror, ready: Waiting, status: str) -> None:
    """One round; the files come last, so that a server that takes no files still gets the figures and the end."""
    mirror.send_progress(ready.progress)
    for row in ready.cells.values():
        mirror.send_cell(row)
    if status:
        mirror.end(status)
    mirror.send_files(ready.files)


def _reason(problem: Exception) -> str:
    lines = public(str(problem)).strip().splitlines()
    return (lines[0] if lines else type(problem).__name__)[:REASON]
