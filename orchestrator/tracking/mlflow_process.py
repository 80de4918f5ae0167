"""MLflow lives in a process of its own, at low priority: its import and its work take no turn from the driver's interpreter.

The driver hands over rounds and hears how they went. The process ends with its driver, however that ends, so that the next
attempt never meets a late writer.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from actors.child_process import end_with, started
from orchestrator.tracking.mlflow_client import MlflowRun, Round, client_class, first_line
from orchestrator.tracking.rollup import Roster

NICENESS = 10
"""Added to the nice value, so that the sweep goes first."""
LEAST = 19
"""The greatest nice value."""
IDLE_PRIORITY_S = 20.0
"""Seconds in which it runs only on idle CPUs: importing MLflow slowed workers that start by a third."""


class RunArguments(NamedTuple):
    """Which run; pickled, so that no password stands on a command line."""

    uri: str
    experiment: str
    folder: Path
    params: Mapping[str, str]
    name: str
    roster: Roster
    driver: int
    """The driver's process id."""
    idle: bool
    """Whether it runs only on idle CPUs at first."""


_ahead: subprocess.Popen[bytes] | None = None
"""Imports MLflow, and waits to be told which run it is for."""


@contextmanager
def imported_ahead(wanted: bool) -> Iterator[None]:
    """Begin to import MLflow, in the process of the first run that the block sends: on CPUs that plan and Ray leave idle."""
    global _ahead
    _ahead = _launched() if wanted else None
    try:
        yield
    finally:
        unused, _ahead = _ahead, None
        if unused is not None:
            unused.kill()
            unused.communicate()


def _launched() -> subprocess.Popen[bytes]:
    return started(__name__, stderr=subprocess.DEVNULL)


class MlflowFailed(Exception):
    """MLflow, or the process that talks to it, did not take a round; the message is its reason."""


class MlflowProcess:
    """The driver's end: a run in a process of its own, started when the first round is sent."""

    def __init__(
        self, uri: str, experiment: str, folder: Path, params: Mapping[str, str], name: str, roster: Roster
    ) -> None:
        self.arguments = RunArguments(uri, experiment, folder, params, name, roster, os.getpid(), idle=True)
        self._process: subprocess.Popen[bytes] | None = None
        self._ended = False

    def send(self, round_: Round) -> None:
        """Hand over a round and wait until it is taken; raises MlflowFailed."""
        process = self._running()
        assert process.stdin is not None and process.stdout is not None
        try:
            pickle.dump(round_, process.stdin)
            process.stdin.flush()
            problem = pickle.load(process.stdout)
        except (OSError, EOFError, ValueError, pickle.UnpicklingError):
            process.kill()
            raise MlflowFailed(f"its process ended ({process.wait()})") from None
        if problem:
            raise MlflowFailed(problem)

    def hurry(self) -> None:
        """The driver waits for it now: from here on it is no more than nice, where the system lets it be so again."""
        self.arguments = self.arguments._replace(idle=False)
        if self._process is not None:
            _only_nice(self._process.pid)

    def kill(self) -> None:
        """End the process now: whatever it took is written, and a ``send`` that waits for it fails."""
        self._ended = True
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._ended:
            raise MlflowFailed("its process was ended")
        global _ahead
        if self._process is None or self._process.poll() is not None:
            self._process, _ahead = _ahead or _launched(), None
            assert self._process.stdin is not None
            pickle.dump(self.arguments, self._process.stdin)
        return self._process


def main() -> None:
    """Take rounds from standard input until it ends; an answer is empty, or the reason of a failure."""
    rounds, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # MLflow prints, and an answer must stay an answer
    os.nice(NICENESS)
    _only_idle_cpus()
    with suppress(Exception):  # said when a round cannot be sent
        client_class()
    try:
        arguments: RunArguments = pickle.load(rounds)
    except (EOFError, pickle.UnpicklingError):
        return
    end_with(arguments.driver)
    if arguments.idle:
        timer = threading.Timer(IDLE_PRIORITY_S, _only_nice, (os.getpid(),))
        timer.daemon = True
        timer.start()
    else:
        _only_nice(os.getpid())
    run: MlflowRun | None = None
    while True:
        try:
            round_: Round = pickle.load(rounds)
        except (EOFError, pickle.UnpicklingError):
            return
        problem = ""
        try:
            run = run or MlflowRun(*arguments[:6])
            run.send(round_)
        except Exception as failure:  # whatever MLflow raises: it is the driver's to say
            run, problem = None, first_line(failure)  # found again from the server: runs may have been deleted
        pickle.dump(problem, answers)
        answers.flush()


def _only_idle_cpus() -> None:
    """SCHED_IDLE, of this process and of its autogroup; where the system forbids it, the nice value is all there is."""
    if sys.platform == "linux":
        with suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        _nice_autogroup(os.getpid(), LEAST)


def _only_nice(pid: int) -> None:
    if sys.platform == "linux":
        with suppress(OSError):
            os.sched_setscheduler(pid, os.SCHED_OTHER, os.sched_param(0))
        _nice_autogroup(pid, NICENESS)


def _nice_autogroup(pid: int, niceness: int) -> None:
    """The nice value of the process's session, where the kernel shares CPUs among sessions first (sched(7), autogroup).

    A process that is alone in its session is otherwise given as much as a busy worker, whatever its own nice value.
    """
    with suppress(OSError):
        Path(f"/proc/{pid}/autogroup").write_text(str(niceness))


if __name__ == "__main__":
    main()
