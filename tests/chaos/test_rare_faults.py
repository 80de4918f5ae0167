"""Faults of the system around a sweep: a driver that stands still, memory, the clock, the object store."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.ground import Ground, finish_process, parts, wait_until_playing

pytestmark = [pytest.mark.slow, pytest.mark.long]


def read_driver_logs(out: Path) -> str:
    """What the drivers of a run folder wrote into their logs."""
    return "".join(path.read_text() for path in sorted(out.glob("logs/attempt-*/driver.log")))


@pytest.mark.timeout(600)
def test_a_driver_that_stood_still_loses_no_worker(ground, sweep_file, undisturbed, check_survival, tmp_path):
    out, seconds, silence = tmp_path / "run", 40, 30
    process = ground.start("run", sweep_file, "--output", out, "--set", f"cluster.silence={silence}")
    wait_until_playing(out, process)
    process.send_signal(signal.SIGSTOP)
    time.sleep(seconds)
    process.send_signal(signal.SIGCONT)
    done = finish_process(process)

    assert done.returncode == 0, done.stderr
    log = read_driver_logs(out)
    assert "the driver was stopped for" in log and " is lost: " not in log and "silent for" not in log
    check_survival(f"SIGSTOP of the driver for {seconds} s, silence {silence} s", out)


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
