"""A local cluster of two Ray nodes with a fake GPU each, real processes, and what can be done to them."""

from __future__ import annotations

import itertools
import os
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import polars as pl

from orchestrator.storage.episode_store import episodes, turns

ROOT = Path(__file__).parents[2]
MARK = "PROACTIVE_SWEEP_CHAOS"
NODE = {"num_cpus": 1, "num_gpus": 1}
COPIES = 400
"""Names of one policy: 400 x 2 conditions x 70 samples play for some seconds on two workers."""
PLANNED = COPIES * 2 * 70


class Ground:
    """The cluster, and the command line on it."""

    def __init__(self, **head: Any) -> None:
        """``head``: more arguments of the first node, as ``ray start`` has them."""
        from ray.cluster_utils import Cluster

        os.environ[MARK] = uuid.uuid4().hex  # Ray's processes, their actors and those actors' children inherit it
        self.cluster = start_patiently(
            lambda: Cluster(initialize_head=True, head_node_args={**NODE, "include_dashboard": False, **head})
        )
        self.second = start_patiently(self._add)

    def close(self) -> None:
        self.cluster.shutdown()

    # -- the command line ------------------------------------------------------------------------------------------
    def start(
        self, *args: object, environment: Mapping[str, str] | None = None, **kwargs: Any
    ) -> subprocess.Popen[str]:
        ours = {"RAY_ADDRESS": self.cluster.address, "PYTHONUNBUFFERED": "1", **(environment or {})}
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **kwargs}
        command = [sys.executable, "-m", "orchestrator", *map(str, args)]
        return subprocess.Popen(command, env={**os.environ, **ours}, text=True, cwd=ROOT, **streams)

    def run(self, *args: object, timeout: float = 600) -> subprocess.CompletedProcess[str]:
        return finish_process(self.start(*args), timeout)

    # -- its processes -----------------------------------------------------------------------------------------------
    def raylet(self, node: Any) -> int:
        return int(node.all_processes["raylet"][0].process.pid)

    def workers(self) -> list[int]:
        """Pids of our actors on the cluster's nodes, stopped ones included."""
        raylets = {self.raylet(node) for node in self.cluster.list_all_nodes()}
        return [pid for pid in actors() if parent(pid) in raylets]

    def remove_second(self, gracefully: bool = True) -> None:
        """Remove the second node, if there is one: its last start may have failed."""
        if self.second not in self.cluster.list_all_nodes():
            return
        if gracefully:
            self.cluster.remove_node(self.second, allow_graceful=True)
        else:
            os.kill(self.raylet(self.second), signal.SIGKILL)

    def restore_second(self, seconds: float = 600.0) -> None:
        """A second node, whatever happened to the last one; raises NoNodeStarted after so many seconds of tries."""
        if self.second in self.cluster.list_all_nodes():
            self.cluster.remove_node(self.second, allow_graceful=False)
        self.second = start_patiently(self._add, seconds)
        self.cluster.wait_for_nodes(seconds)

    def _add(self) -> Any:
        """One more node; the cluster keeps none that came too late."""
        before = set(self.cluster.worker_nodes)
        try:
            return self.cluster.add_node(**NODE)
        except Exception:
            for late in self.cluster.worker_nodes - before:
                self.cluster.remove_node(late, allow_graceful=False)
            raise

    def orphans(self, seconds: float = 30.0) -> list[int]:
        """Our actors that are still there some seconds after their driver's end, on any node or without one."""
        deadline = time.monotonic() + seconds
        while actors() and time.monotonic() < deadline:
            time.sleep(0.2)
        return actors()


class NoNodeStarted(Exception):
    """The machine was too busy for a node of Ray, for as long as a test waits."""


def start_patiently(start: Callable[[], Any], seconds: float = 600.0) -> Any:
    """Start a node of Ray, again and again: Ray gives up after 30 s on a busy machine; what is left of a try is killed."""
    before, deadline = set(servers()), time.monotonic() + seconds
    for tries in itertools.count(1):
        try:
            return start()
        except Exception as problem:  # Ray raises this bare class, TimeoutError, RuntimeError of its GCS
            for pid in set(servers()) - before:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if time.monotonic() > deadline:
                load = f"load {os.getloadavg()[0]:.0f} on {os.cpu_count()} cores"
                raise NoNodeStarted(f"{tries} tries in {seconds:.0f} s, {load}; Ray says: {problem}") from problem
            time.sleep(min(30.0, 2.0**tries))  # else each try adds to what made the last one fail


def servers() -> list[int]:
    """Pids of Ray's own processes that make a node."""
    parts = (b"raylet/raylet", b"gcs/gcs_server", b"ray/_private/log_monitor.py")
    return [pid for pid, line in command_lines() if any(part in line for part in parts)]


def actors() -> list[int]:
    """Pids of all processes that hold one of our actors, or an engine of one."""
    return [pid for pid, line in command_lines() if line.startswith((b"ray::Worker", b"VLLM::"))]


def engines() -> list[int]:
    """Pids of vLLM's engine processes."""
    return [pid for pid, line in command_lines() if line.startswith(b"VLLM::EngineCore")]


def command_lines() -> Iterator[tuple[int, bytes]]:
    """Of the processes that this cluster started, or that they did."""
    mark = f"{MARK}={os.environ[MARK]}".encode()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if mark in (entry / "environ").read_bytes():
                    yield int(entry.name), (entry / "cmdline").read_bytes()
            except OSError:
                continue


def parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, IndexError):
        return 0


def finish_process(process: subprocess.Popen[str], timeout: float = 240) -> subprocess.CompletedProcess[str]:
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


# -- sweeps and run folders ------------------------------------------------------------------------------------------------
def sweep(path: Path, data: Path, copies: int = COPIES, extra: str = "") -> Path:
    """One policy under many names, a fake GPU a worker."""
    entry = '[[model]]\nname = "u{}"\nsource = "builtin:uniform"\nbackend = "builtin"\ngpus = 1\n'
    path.write_text(
        f'# A test.\nname = "chaos"\ndata = "{data}"\nconditions = ["zero-shot", "hint"]\ntracking = {{ uri = "none" }}\n'
        f"{extra}" + "".join(entry.format(number) for number in range(copies))
    )
    return path


def parts(folder: Path) -> list[Path]:
    """Durable parts, oldest first."""
    return sorted((folder / "episodes").glob("part-*.parquet"))


def wait_until_playing(folder: Path, process: subprocess.Popen[str], more_than: int = 0, seconds: float = 90) -> None:
    """Wait until more than so many parts are durable; fails if the run ended before."""
    deadline = time.monotonic() + seconds
    while len(parts(folder)) <= more_than and time.monotonic() < deadline:
        assert process.poll() is None, "the fault must fall into the run for this test to mean anything"
        time.sleep(0.02)
    assert len(parts(folder)) > more_than, "no part was written in time"
    assert process.poll() is None, "the fault must fall into the run for this test to mean anything"


def tally(folder: Path) -> tuple[int, int]:
    """Stored episodes, and how many were ever there twice; every turn must belong to one.

    A run merges its parts at its end and takes each episode once then, so what it found twice is read from its logs too.
    """
    stored = episodes(folder).select("key", "turns").collect()
    assert turns(folder).select(pl.len()).collect().item() == stored["turns"].sum()
    raw = pl.concat([pl.read_parquet(path, columns=["key"]) for path in parts(folder)])
    logs = "".join(path.read_text("utf-8", "replace") for path in folder.glob("logs/attempt-*/driver.log"))
    merged = sum(int(count) for count in re.findall(r"(\d+) episodes were stored twice", logs))
    return stored.height, merged + raw.height - raw["key"].n_unique()
