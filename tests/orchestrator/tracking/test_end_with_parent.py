"""The process that records a sweep in MLflow: when it ends."""

import os
import subprocess
import sys
import time

import pytest


def test_a_child_ends_with_its_parent():
    """A process starts a child that waits for 60 s, and ends; the pipe that only the child holds closes."""
    child = (
        "import os, sys, time; from orchestrator.tracking.process import end_with_parent; end_with_parent(os.getppid()); "
        "print(os.getpid(), flush=True); time.sleep(60)"
    )
    parent = (
        "import subprocess, sys; c = subprocess.Popen([sys.executable, '-c', sys.argv[1]], stdout=subprocess.PIPE); "
        "print(c.stdout.readline().decode(), flush=True)"
    )
    run = subprocess.run([sys.executable, "-c", parent, child], stdout=subprocess.PIPE, timeout=50, check=True)
    number = int(run.stdout)

    for _ in range(200):
        if not os.path.exists(f"/proc/{number}") or " Z " in open(f"/proc/{number}/stat").read():  # noqa: SIM115
            return
        time.sleep(0.1)
    pytest.fail("the child outlives its parent")
