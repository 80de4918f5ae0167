"""A Ray head node of one's own on free ports of this machine, as ``ray start`` makes it; it takes only itself down."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

from tests.conftest import ENVIRONMENT

BIN = Path(sys.executable).parent
PORTS = (
    "port",
    "dashboard-port",
    "ray-client-server-port",
    "dashboard-agent-listen-port",
    "dashboard-agent-grpc-port",
    "metrics-export-port",
    "runtime-env-agent-port",
)
"""What two Ray nodes on one machine would both want; the workers' ports are left to the system."""


HEAD_TYPE = "ray.head.default"
"""The type that Ray gives a head itself."""


class Head:
    """A running head: its dashboard's address, and the environment of its clients."""

    def __init__(self, folder: Path, gpus: int = 0, node_types: dict[str, Any] | None = None, **variables: str) -> None:
        """``node_types``: the nodes that its autoscaler may add, as processes, by their names in Ray's cluster file."""
        self.folder = folder
        ports = dict(zip(PORTS, free_ports(len(PORTS)), strict=True))
        self.jobs = f"http://127.0.0.1:{ports['dashboard-port']}"
        self.address = f"127.0.0.1:{ports['port']}"
        if node_types is not None:
            variables |= {"RAY_FAKE_CLUSTER": "1", "AUTOSCALER_UPDATE_INTERVAL_S": "1"}
        # a job's `python` is looked up in the PATH that `ray start` had
        self.environment = {**os.environ, **ENVIRONMENT, "PATH": f"{BIN}:{os.environ['PATH']}", **variables}
        self.environment.pop("RAY_ADDRESS", None)
        scaling = [] if node_types is None else [f"--autoscaling-config={self._write_scaling(node_types)}"]
        with open(folder / "start.log", "wb") as log:
            self.process = subprocess.Popen(
                [BIN / "ray", "start", "--head", "--block", "--node-ip-address=127.0.0.1", "--dashboard-host=127.0.0.1",
                 "--num-cpus=2", f"--num-gpus={gpus}", "--object-store-memory=200000000", "--disable-usage-stats",
                 f"--temp-dir={folder}",
                 "--min-worker-port=0", "--max-worker-port=0", *scaling,
                 *(f"--{name}={port}" for name, port in ports.items())],
                env=self.environment, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        self.log = folder / "start.log"

    def _write_scaling(self, node_types: dict[str, Any]) -> Path:
        own = {"resources": {"CPU": 2}, "node_config": {}, "max_workers": 0}
        lists = (
            "cluster_synced_files", "initialization_commands", "setup_commands", "head_setup_commands",
            "worker_setup_commands", "head_start_ray_commands", "worker_start_ray_commands",
        )  # fmt: skip
        config = {
            "cluster_name": "test", "max_workers": 8, "upscaling_speed": 100.0, "idle_timeout_minutes": 0.05,
            "provider": {
                "type": "fake_multinode", "gcs_address": self.address, "use_node_id_as_ip": True,
                "disable_node_updaters": True,
            },
            "available_node_types": {HEAD_TYPE: own, **node_types}, "head_node_type": HEAD_TYPE, "auth": {}, "docker": {},
            "file_mounts": {}, "file_mounts_sync_continuously": False, **{name: [] for name in lists},
        }  # fmt: skip
        path = self.folder / "scaling.json"
        path.write_text(json.dumps(config))
        return path

    def ready(self, seconds: float = 240) -> None:
        """Wait until jobs can be submitted."""
        deadline = time.monotonic() + seconds
        while True:
            assert self.process.poll() is None, self.log.read_text()
            try:
                urlopen(f"{self.jobs}/api/jobs/", timeout=5).close()
                return
            except HTTPError:  # it asks for a token
                return
            except OSError:
                pass
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.5)

    def submit(
        self, *arguments: str | Path, folder: Path, entry: tuple[object, ...]
    ) -> subprocess.CompletedProcess[str]:
        """``ray job submit`` from the outside, to its end."""
        return subprocess.run(
            [BIN / "ray", "job", "submit", "--address", self.jobs, "--working-dir", str(folder), *arguments,
             "--", "python", "-m", "orchestrator", *map(str, entry)],
            env=self.environment, capture_output=True, text=True, timeout=400, cwd=folder,
        )  # fmt: skip

    def processes(self) -> dict[int, str]:
        """Everything that came of this head and lives: pid -> command line."""
        parents, command_lines = {}, {}
        for entry in Path("/proc").iterdir():
            with suppress(OSError, ValueError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if entry.name.isdigit() and fields[0] != "Z":
                    parents[int(entry.name)] = int(fields[1])
                    command_lines[int(entry.name)] = (
                        (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                    )
        ours, grown = {self.process.pid}, True
        while grown:
            children = {pid for pid, parent in parents.items() if parent in ours} - ours
            ours, grown = ours | children, bool(children)
        return {pid: line for pid, line in command_lines.items() if pid in ours}

    def workers(self) -> list[int]:
        """Actors of ours that live under this head."""
        return [pid for pid, line in self.processes().items() if line.startswith("ray::Worker")]

    def stop(self) -> None:
        """Take down this head and what came of it, by pid."""
        ours = self.processes()
        self.process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(30)
        for pid, line in ours.items():
            with suppress(OSError):
                if Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace") == line:
                    os.kill(pid, signal.SIGKILL)
        self.process.wait(10)


@contextmanager
def head(gpus: int = 0, node_types: dict[str, Any] | None = None, **variables: str) -> Iterator[Head]:
    """A head in a folder of its own, with a short name: sockets lie in it."""
    folder = Path(tempfile.mkdtemp(prefix="ray", dir="/tmp"))
    node = Head(folder, gpus, node_types, **variables)
    try:
        node.ready()
        yield node
    finally:
        node.stop()
        shutil.rmtree(folder, ignore_errors=True)


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for listener in sockets:
            listener.bind(("127.0.0.1", 0))
        return [int(listener.getsockname()[1]) for listener in sockets]
    finally:
        for listener in sockets:
            listener.close()
