"""Describes a sweep's run in MLflow, and starts and ends the process that records it while the sweep plays.

The process reads the run folder, so the sweep never waits for MLflow and no result comes from it. It dies with its driver, so
nothing of one attempt at the sweep is written during the next.
"""

import os
import shlex
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Thread, Timer
from typing import Any, Self

from actors.text.printable import say
from actors.text.redaction import redact_address
from envs.errors import RunFolderError
from envs.types import Sample
from orchestrator.tracking.client import NAME, checkpoint, resolve_uri
from sweeps.protocol import ZERO_SHOT
from sweeps.spec import Sweep

OTLP = ("otlp://", "otlps://")
"""Addresses of OpenTelemetry, which version 0.2.0 had last."""
CLOSE_SERVER_S, CLOSE_LOCAL_S, CLOSE_KILLED_S = 60.0, 300.0, 2.0
"""Most seconds that ``close`` waits: for a server, for a file in the run folder, and after an interrupted run."""
SILENT_S = 5.0
"""Seconds after which ``close`` says that it waits."""
NICENESS = 10
"""Added while the sweep plays; not while it is planned, nor after its last episode, when the user waits."""


@dataclass(frozen=True, slots=True)
class TrackedRun:
    """The facts about a run; models and conditions are in the order of the sweep's file."""

    uri: str
    experiment: str
    folder: Path
    name: str
    """The sweep's name."""
    params: Mapping[str, str]
    models: tuple[str, ...] = ()
    baselines: frozenset[str] = frozenset()
    """The models that are built-in policies."""
    conditions: tuple[str, ...] = ()

    @classmethod
    def of(cls, sweep: Sweep, folder: Path, uri: str = "") -> Self:
        """Describe a sweep's run; ``uri`` replaces the sweep's own address."""
        models, conditions = (tuple(entry.name for entry in table) for table in (sweep.models, sweep.conditions))
        params, experiment = parameters(sweep), sweep.tracking.experiment or sweep.name
        return cls(
            uri or sweep.tracking.uri, experiment, folder, sweep.name, params, models, sweep.baselines, conditions
        )

    def kind(self, model: str) -> str:
        """Return ``model`` or ``baseline``, the tag and parameter ``kind`` of its runs."""
        return "baseline" if model in self.baselines else "model"

    def rank(self, model: str) -> int:
        """Return the model's position in a table: models first, then baselines."""
        ordered = sorted(self.models, key=lambda name: name in self.baselines)
        return ordered.index(model) if model in ordered else len(ordered)

    def main_condition(self, played: Collection[str]) -> str:
        """Return the condition that a model's ``acc`` measures: zero-shot if played, else the sweep's first; "" if none is."""
        return next((name for name in (ZERO_SHOT, *self.conditions, *sorted(played)) if name in played), "")


def is_mlflow(uri: str) -> bool:
    """Return True if a ``tracking.uri`` is MLflow's; ``none`` turns tracking off."""
    return uri != "none" and not uri.startswith(OTLP)


def parameters(sweep: Sweep) -> dict[str, str]:
    """Return names and settings of a sweep, without engine options and keys."""
    settings = sweep.model_dump(mode="json", exclude_none=True)
    params = {
        key: ", ".join(part["name"] if isinstance(part, dict) else str(part) for part in settings[key])
        for key in ("models", "scenarios", "conditions", "protocols")
    }
    params["seed"] = str(sweep.seed)
    for table in ("sampling", "selection"):
        params |= {f"{table}.{key}": str(value) for key, value in settings[table].items()}
    return params


def describe_dataset(name: str, source: str, samples: Mapping[str, Mapping[int, Sample]]) -> dict[str, Any]:
    """Return name, digest, source and counts of the samples that are played.

    The digest covers every field of every sample, so equal samples have equal digests wherever they are stored.
    """
    digest = sha256()
    for scenario in sorted(samples):
        for number in sorted(samples[scenario]):
            digest.update(repr(samples[scenario][number]).encode())
    counts = {scenario: len(numbered) for scenario, numbered in sorted(samples.items())}
    facts = {"digest": digest.hexdigest()[:8], "source": {"uri": source}}
    return {"name": f"{name}: {', '.join(counts)}", **facts, "profile": {"samples": sum(counts.values()), **counts}}


class Tracker:
    """The record of one attempt at a sweep in MLflow; nothing if the sweep is not tracked.

    As a block, it ends its process; if the block raises (as Ctrl-C does), a started record ends as KILLED.
    """

    def __init__(self, run: TrackedRun) -> None:
        """Start the process, which imports MLflow until ``start``. Raises RunFolderError for an address of OpenTelemetry."""
        if run.uri.startswith(OTLP):
            uri = redact_address(run.uri)
            raise RunFolderError(
                f"tracking.uri {uri}: OpenTelemetry left after 0.2.0; type an MLflow address, or `none`"
            )
        self.run, self.is_tracked = run, is_mlflow(run.uri)
        self._started, self._closing, self._uri = False, not self.is_tracked, resolve_uri(run.uri, run.folder)
        if not self.is_tracked:
            return
        self._process = _start_process()
        assert self._process.stdin is not None
        self._pipe = Connection(os.dup(self._process.stdin.fileno()), readable=False)
        self._process.stdin.close()
        self._relay = Thread(target=self._print_sentences, daemon=True)
        self._relay.start()
        self._send((os.getpid(), self._uri))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._started:
            self.close("KILLED")
        elif not self._closing:
            self._kill()  # nothing was played, so there is nothing to record

    def start(self, dataset: Mapping[str, Any]) -> None:
        """Record from now on; ``dataset`` is from ``describe_dataset``. The caller holds the folder's lock until ``close``."""
        self._started = True
        self._send((self.run, dict(dataset)))

    @contextmanager
    def in_background(self) -> Iterator[None]:
        """Lower the priority of the process in the block; it cannot do so itself while it imports MLflow."""
        usual = os.getpriority(os.PRIO_PROCESS, 0)
        self._set_niceness(min(19, usual + NICENESS))
        try:
            yield
        finally:
            self._set_niceness(usual)

    def close(self, status: str, timeout: float | None = None) -> None:
        """Record the end (FINISHED, FAILED or KILLED); print one sentence if not everything is recorded in time."""
        if self._closing:
            return
        self._closing = True
        usual = CLOSE_LOCAL_S if self._uri.startswith("sqlite") else CLOSE_SERVER_S
        patience = timeout or (CLOSE_KILLED_S if status == "KILLED" else usual)
        notice = Timer(min(SILENT_S, patience / 2), say, ["waiting for MLflow ..."])
        notice.start()
        self._send(status)
        try:
            self._process.wait(patience)
            self._relay.join()
        except subprocess.TimeoutExpired:
            self._kill()
        finally:
            notice.cancel()
        self._pipe.close()
        checkpoint(self.run.folder / NAME)
        if self._process.returncode:
            remedy = "the next `run` sends the cells, points and files that it lacks"
            if (self.run.folder / "results.parquet").exists():
                command = f"proactive-sweep track {shlex.quote(str(self.run.folder))}"
                remedy = f"{remedy}, and so does: {command}" if status == "KILLED" else f"send it with: {command}"
            say(f"MLflow at {redact_address(self._uri)} lacks what the run folder stored last; {remedy}")

    def _set_niceness(self, niceness: int) -> None:
        """Set it also for a kernel that groups CPUs by session (sched(7)); lower it only if the system allows."""
        if not self.is_tracked:
            return
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, self._process.pid, niceness)
            Path(f"/proc/{self._process.pid}/autogroup").write_text(str(niceness))

    def _kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def _send(self, message: object) -> None:
        with suppress(OSError):  # the process was killed, which ``close`` reports
            self._pipe.send(message)

    def _print_sentences(self) -> None:
        """Print the sentences of the process, above a live table."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            say(line.decode().rstrip("\n"))


def _start_process() -> subprocess.Popen[bytes]:
    """Start the recording process in its own session, so that Ctrl-C reaches only the driver."""
    root = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    return subprocess.Popen(
        [sys.executable, "-m", "orchestrator.tracking.process"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": path}, start_new_session=True,
    )  # fmt: skip
