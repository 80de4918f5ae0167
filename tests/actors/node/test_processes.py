"""Processes of a worker: what is read of their output, what they import, and when they end."""

import os
import subprocess
import sys
import time

import pytest

from actors.node.process_output import TAIL_BYTES, last_lines, read_tails


def test_the_end_of_an_output_is_read_without_secrets_and_a_lost_file_is_a_line(tmp_path, monkeypatch):
    monkeypatch.setenv("SERVICE_API_KEY", "sk-1234567890")
    (tmp_path / "out").write_bytes(b"a" * 9 + b"x" * TAIL_BYTES)
    (tmp_path / "err").write_bytes(b":job_id:01\nkey sk-1234567890 \xff\n")

    assert read_tails([str(tmp_path / "out")]) == "x" * TAIL_BYTES + "\n"
    text = read_tails([str(tmp_path / "err"), str(tmp_path / "gone.err")])
    assert last_lines(text) == ["key *** \ufffd", "gone.err cannot be read: No such file or directory"]


def test_a_child_ends_with_its_parent():
    """A process starts a child that waits for 60 s, and ends; the pipe that only the child holds closes."""
    child = (
        "import os, sys, time; from actors.node.child_process import end_with_parent; end_with_parent(os.getppid()); "
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
