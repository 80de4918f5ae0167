"""Faults of the system around a sweep: a driver that stands still, memory, the clock, the object store."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.ground import ROOT, Ground, finish_process, parts, sweep, tally, wait_until_playing
from tests.orchestrator.buckets import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.long]


def read_driver_logs(out: Path) -> str:
    """What the drivers of a run folder wrote into their logs."""
    return "".join(path.read_text() for path in sorted(out.glob("logs/attempt-*/driver.log")))


@pytest.mark.parametrize(("seconds", "silence"), [(40, 30), (100, 900)])
@pytest.mark.timeout(600)
def test_a_driver_that_stood_still_loses_no_worker(
    ground, sweep_file, undisturbed, check_survival, tmp_path, seconds, silence
):
    out = tmp_path / "run"
    process = ground.start("run", sweep_file, "--output", out, "--set", f"cluster.silence={silence}")
    wait_until_playing(out, process)
    process.send_signal(signal.SIGSTOP)
    time.sleep(seconds)
    process.send_signal(signal.SIGCONT)
    done = finish_process(process)

    assert done.returncode == 0, done.stderr
    assert (
        "the driver was stopped for" in read_driver_logs(out)
        and " is lost: " not in read_driver_logs(out)
        and "silent for" not in read_driver_logs(out)
    )
    check_survival(f"SIGSTOP of the driver for {seconds} s, silence {silence} s", out)


class SmallMemory:
    """A memory cgroup of this test's own; a process in it that takes another page is killed by the kernel."""

    def __init__(self) -> None:
        root = Path("/sys/fs/cgroup/memory")
        self.folder = (root if root.is_dir() else root.parent) / f"proactive-sweep-{os.getpid()}"
        self.limit = "memory.limit_in_bytes" if root.is_dir() else "memory.max"

    def __enter__(self) -> SmallMemory:
        try:
            self.folder.mkdir()
            (self.folder / self.limit).write_text(str(1 << 20))
        except OSError as problem:
            with contextlib.suppress(OSError):
                self.folder.rmdir()
            pytest.skip(f"this user may make no memory cgroup: {problem}")
        return self

    def take(self, pid: int) -> None:
        (self.folder / "cgroup.procs").write_text(str(pid))

    def killed(self) -> bool:
        """Whether the kernel has killed anything in it."""
        events = self.folder / ("memory.oom_control" if "limit" in self.limit else "memory.events")
        return not re.search(r"^oom_kill 0$", events.read_text(), re.M)

    def __exit__(self, *_: object) -> None:
        for pid in (self.folder / "cgroup.procs").read_text().split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        while (self.folder / "cgroup.procs").read_text():
            time.sleep(0.1)
        self.folder.rmdir()


def test_a_worker_that_the_kernel_kills_for_memory_is_replaced(
    ground, sweep_file, undisturbed, check_survival, tmp_path
):
    out = tmp_path / "run"
    process = ground.start("run", sweep_file, "--output", out)
    with SmallMemory() as memory:
        wait_for(ground.workers)  # it loads the plan and the data now, which takes more than is left
        victim = ground.workers()[0]
        memory.take(victim)
        wait_for(lambda: memory.killed() or not Path(f"/proc/{victim}").exists())
        assert memory.killed(), "the kernel must kill it for this test to mean anything"
    done = finish_process(process)

    assert done.returncode == 0, done.stderr
    assert " is lost: " in read_driver_logs(out)
    check_survival("a worker killed by the kernel for memory", out)


CLOCK = """
import os, time
real, real_ns, place = time.time, time.time_ns, os.environ["CLOCK_FILE"]
def ahead():
    with open(place) as file:
        return int(file.read() or 0)
time.time = lambda: real() + ahead()
time.time_ns = lambda: real_ns() + ahead() * 10**9
"""


def test_a_clock_that_jumps_a_day_forth_and_back_changes_nothing(
    ground, sweep_file, undisturbed, check_survival, tmp_path
):
    """The driver's wall clock, as Python reads it: the machine's own belongs to other programs, too.

    Without MLflow, which takes minutes to store 5,600 runs.
    """
    out, clock = tmp_path / "run", tmp_path / "clock"
    clock.write_text("0")
    (tmp_path / "sitecustomize.py").write_text(CLOCK)
    environment = {"PYTHONPATH": str(tmp_path), "CLOCK_FILE": str(clock)}
    process = ground.start("run", sweep_file, "--output", out, environment=environment)
    for ahead in (86_400, -86_400, 0):
        wait_until_playing(out, process, more_than=len(parts(out)))
        clock.write_text(str(ahead))
    done = finish_process(process)

    assert done.returncode == 0, done.stderr
    assert " is lost: " not in read_driver_logs(out) and "Traceback" not in done.stderr
    check_survival("the clock a day ahead, a day behind, right again", out)


FILLER = """
import sys, ray
ray.init(log_to_driver=False, logging_level="error")
kept = [ray.put(bytes(4 << 20)) for _ in range(60)]
print("full", flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def full_store(ground: Ground) -> Iterator[None]:
    """Another program that holds three times what the head's object store can, until the block is left."""
    with subprocess.Popen(
        [sys.executable, "-c", FILLER],
        env={**os.environ, "RAY_ADDRESS": ground.cluster.address}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as filler:  # fmt: skip
        assert filler.stdin is not None and filler.stdout is not None
        try:
            assert filler.stdout.readline().strip() == "full"
            yield
        finally:
            filler.stdin.close()


@pytest.mark.timeout(900)
def test_a_full_object_store_stops_nothing(undisturbed, sweep_file, check_survival, tmp_path):
    """80 MB that nobody may spill to the disk, and another program that wants 240: what a sweep puts goes past the store."""
    out = tmp_path / "run"
    small = Ground(object_store_memory=80 << 20, _system_config={"automatic_object_spilling_enabled": False})
    try:
        with full_store(small):
            done = small.run("run", sweep_file, "--output", out)
        assert done.returncode == 0, done.stderr
        check_survival("the object store full", out)
    finally:
        small.close()


NO_SHARED_MEMORY = 'mount -t tmpfs -o size=1m tmpfs /dev/shm && head -c 1048576 /dev/zero > /dev/shm/full && exec "$@"'


@pytest.mark.timeout(600)
def test_a_full_dev_shm_stops_nothing(demo_data, tmp_path):
    """A run on one machine whose ``/dev/shm`` another program has filled, in a mount namespace of its own."""
    if subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        pytest.skip("this user may make no mount namespace")
    file, out = sweep(tmp_path / "small.toml", demo_data, 2), tmp_path / "run"
    file.write_text(file.read_text().replace("gpus = 1", "gpus = 0"))
    environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    command = [sys.executable, "-m", "orchestrator", "run", str(file), "--output", str(out)]
    done = subprocess.run(
        ["unshare", "-m", "bash", "-c", NO_SHARED_MEMORY, "run", *command],
        capture_output=True, text=True, cwd=ROOT, env={**environment, "PYTHONPATH": str(ROOT)}, timeout=500,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert tally(out) == (2 * 2 * 70, 0)
