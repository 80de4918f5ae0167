"""Processes of a worker: what is read of their output, what they import, and when they end."""

import os
import subprocess
import sys
import time

import pytest

from actors.node.process_output import HEAD_BYTES, TAIL_BYTES, read_excerpt


def test_both_ends_of_a_long_output_are_read(tmp_path):
    path = tmp_path / "worker-1.err"
    path.write_bytes(b"a" * HEAD_BYTES + b"b" * 1_234 + b"c" * TAIL_BYTES)
    assert read_excerpt([str(path)]) == (
        f"== err\n{'a' * HEAD_BYTES}\n... 1,234 bytes left out ...\n{'c' * TAIL_BYTES}\n"
    )
    path.write_bytes(b"a" * HEAD_BYTES + b"c" * TAIL_BYTES)
    assert read_excerpt([str(path)]) == f"== err\n{'a' * HEAD_BYTES}{'c' * TAIL_BYTES}\n"
    assert HEAD_BYTES + TAIL_BYTES == 256 * 1024


def test_output_has_no_secret_and_a_line_for_what_cannot_be_read(tmp_path, monkeypatch):
    monkeypatch.setenv("SERVICE_API_KEY", "sk-1234567890")
    (tmp_path / "out").write_bytes(b"key sk-1234567890 \xff\n")

    assert read_excerpt([str(tmp_path / "out"), str(tmp_path / "gone.err")]) == (
        "== out\nkey *** \ufffd\n== gone.err cannot be read: No such file or directory\n"
    )


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
