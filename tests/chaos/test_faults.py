"""After every fault each planned episode is stored exactly once, results.json is byte-identical, and no process is left."""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.chaos.ground import COPIES, PLANNED, finish_process, parent, parts, sweep, tally, wait_until_playing

pytestmark = [pytest.mark.slow, pytest.mark.long]


def test_workers_killed_mid_lease(ground, sweep_file, undisturbed, check_survival, tmp_path):
    out = tmp_path / "run"
    process = ground.start("run", sweep_file, "--output", out)
    wait_until_playing(out, process)
    killed = 0
    for _ in range(3):
        for pid in ground.workers():
            os.kill(pid, signal.SIGKILL)
            killed += 1
        time.sleep(1.0)
    done = finish_process(process)
    assert killed >= 2

    assert done.returncode == 0, done.stderr
    check_survival("SIGKILL of both workers, up to three times", out)


def test_a_worker_that_hangs_is_replaced_and_does_not_stay(
    ground, demo_data, sweep_file, undisturbed, check_survival, tmp_path
):
    out = tmp_path / "run"
    process = ground.start("run", sweep_file, "--output", out, "--set", "cluster.silence=5")
    wait_until_playing(out, process)
    stopped = ground.workers()[:1]
    os.kill(stopped[0], signal.SIGSTOP)
    done = finish_process(process)

    assert done.returncode == 0, done.stderr
    check_survival("SIGSTOP of a worker", out)


def test_a_preempted_node_is_emptied_before_it_dies(ground, demo_data, tmp_path):
    """Ray announces that the cloud takes the node: what plays there ends and is stored, and no worker is lost with it."""
    copies, out, raylet = 6 * COPIES, tmp_path / "run", ground.raylet(ground.second)
    process = ground.start("run", sweep(tmp_path / "long.toml", demo_data, copies), "--output", out)
    try:
        wait_until_playing(out, process)
        announce_preemption(ground, ground.second.node_id)
        deadline = time.monotonic() + 60
        while any(parent(pid) == raylet for pid in ground.workers()) and time.monotonic() < deadline:
            assert process.poll() is None, "the node must be emptied while the run goes on"
            time.sleep(0.1)
        assert not any(parent(pid) == raylet for pid in ground.workers())
        ground.remove_second(gracefully=False)
        done = finish_process(process)
    finally:
        ground.restore_second()

    log = "".join(path.read_text() for path in out.glob("logs/attempt-*/driver.log"))
    assert done.returncode == 0, done.stderr
    assert "Ray drains node" in log and "is lost: " not in log
    assert tally(out) == (copies * 2 * 70, 0)


def announce_preemption(ground, node: str) -> None:
    """Tell Ray, as a cloud's notice does, that a node ends in 90 seconds."""
    ray = Path(sys.executable).with_name("ray")
    command = [ray, "drain-node", "--address", ground.cluster.address, "--node-id", node]
    reason = ["--reason", "DRAIN_NODE_REASON_PREEMPTION", "--reason-message", "spot"]
    subprocess.run([*command, *reason, "--deadline-remaining-seconds", "90"], check=True)


def test_a_nodes_raylet_is_killed(ground, demo_data, undisturbed, check_survival, tmp_path):
    """Workers outlive their raylet for some seconds, so the sweep is three times as long as the others."""
    copies, out = 3 * COPIES, tmp_path / "run"
    process = ground.start("run", sweep(tmp_path / "long.toml", demo_data, copies), "--output", out)
    try:
        wait_until_playing(out, process)
        ground.remove_second(gracefully=False)
        done = finish_process(process)
    finally:
        ground.restore_second()

    assert done.returncode == 0, done.stderr
    rows = {row["cell"]: row for row in json.loads((out / "results.json").read_text())}
    same = all(rows[row["cell"]] == row for row in json.loads(undisturbed))
    check_survival("SIGKILL of a node's raylet", out, same, 3 * PLANNED)
    assert re.search(
        r"worker \d+ of builtin is lost: .*node", (out / "logs" / "attempt-0001" / "driver.log").read_text()
    )


def test_a_node_comes_back_while_the_sweep_plays(ground, sweep_file, undisturbed, check_survival, tmp_path):
    out = tmp_path / "run"
    ground.remove_second()
    process = ground.start("run", sweep_file, "--output", out)
    wait_until_playing(out, process)
    ground.restore_second()
    done = finish_process(process)

    assert done.returncode == 0, done.stderr
    check_survival("a node added", out)


def test_the_driver_is_killed_and_the_same_command_ends_the_sweep(
    ground, sweep_file, undisturbed, check_survival, tmp_path
):
    out = tmp_path / "run"
    for kill in range(2):
        process = ground.start("run", sweep_file, "--output", out)
        wait_until_playing(out, process, more_than=len(parts(out)))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert ground.orphans() == [], f"workers outlive driver {kill + 1}"
    done = ground.run("run", sweep_file, "--output", out)

    assert done.returncode == 0, done.stderr
    check_survival("kill -9 of the driver, twice, then the same command", out)


def test_a_full_disk_stops_with_a_sentence_and_loses_nothing(ground, sweep_file, undisturbed, check_survival, tmp_path):
    out, copied = tmp_path / "run", tmp_path / "kept"
    with SmallDisk(out) as disk:
        process = ground.start("run", sweep_file, "--output", out)
        wait_until_playing(out, process)
        disk.fill(process.pid)
        done = finish_process(process)
        assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr
        assert "stored episodes are kept" in done.stderr, done.stderr
        disk.free()
        shutil.copytree(out, copied)
    assert 0 < tally(copied)[0] < PLANNED
    done = ground.run("run", sweep_file, "--output", copied)

    assert done.returncode == 0, done.stderr
    check_survival("disk full while parts are written, then space", copied)


class SmallDisk:
    """A file system of its own where this user may mount one, filled to the brim; else a limit on what the driver writes."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.mounted = folder, False

    def __enter__(self) -> SmallDisk:
        self.folder.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(self.folder)]
        self.mounted = bool(shutil.which("mount")) and subprocess.run(command, capture_output=True).returncode == 0
        return self

    def fill(self, driver: int) -> None:
        if not self.mounted:
            resource.prlimit(driver, resource.RLIMIT_FSIZE, (4096, 4096))
            return
        with (self.folder / "filler").open("wb", buffering=0) as filler, contextlib.suppress(OSError):
            while True:
                filler.write(bytes(1 << 12))

    def free(self) -> None:
        (self.folder / "filler").unlink(missing_ok=True)

    def __exit__(self, *_: object) -> None:
        if self.mounted:
            subprocess.run(["umount", str(self.folder)], check=True)


def test_a_corrupted_part_is_played_again(ground, sweep_file, undisturbed, check_survival, tmp_path):
    out, table = tmp_path / "run", "turns"
    process = ground.start("run", sweep_file, "--output", out)
    wait_until_playing(out, process, more_than=1)
    process.send_signal(signal.SIGTERM)
    process.communicate()
    victim = sorted((out / table).glob("part-*.parquet"))[0]
    raw = bytearray(victim.read_bytes())
    raw[len(raw) // 3 : len(raw) // 3 + 64] = bytes(64)
    victim.write_bytes(raw)
    done = ground.run("run", sweep_file, "--output", out)

    assert done.returncode == 0, done.stderr
    assert "damaged" in done.stderr and list((out / "damaged").iterdir())
    check_survival(f"64 bytes of a part of {table} overwritten", out)


def test_no_mlflow_server_answers(ground, sweep_file, undisturbed, check_survival, tmp_path):
    out = tmp_path / "run"
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes connections and never answers
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        done = ground.run("run", sweep_file, "--output", out, "--tracking-uri", address)

    assert done.returncode == 0, done.stderr
    check_survival("an MLflow server that hangs", out)
