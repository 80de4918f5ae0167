"""Starts modules in child processes, which end with their parent."""

import ctypes
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

PR_SET_PDEATHSIG, SIGKILL = 1, 9
"""Linux: ``prctl(PR_SET_PDEATHSIG, SIGKILL)`` ends this process with its parent."""


def start_module(module: str, **options: Any) -> subprocess.Popen[bytes]:
    """Start a module of this program with pipes to its standard input and from its standard output.

    It gets its own session, so that Ctrl-C reaches only the parent. ``options`` go to ``Popen``.
    """
    root = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    return subprocess.Popen(
        [sys.executable, "-m", module], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path}, start_new_session=True, **options,
    )  # fmt: skip


def end_with_parent(parent: int) -> None:
    """End this process when its ``parent`` ends; on other systems than Linux, only its pipes break then."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, SIGKILL)
    if os.getppid() != parent:  # it died before the call above
        raise SystemExit(1)
