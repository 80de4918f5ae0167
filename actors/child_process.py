"""A Python process of its own that ends with the one that started it."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

PR_SET_PDEATHSIG, SIGKILL = 1, 9
"""Linux: ``prctl(PR_SET_PDEATHSIG, SIGKILL)`` ends this process with its parent."""


def started(module: str, **more: Any) -> subprocess.Popen[bytes]:
    """A module of this program as a process, with pipes to its standard input and from its standard output.

    It has a session of its own: Ctrl-C is the parent's to hear. ``more`` goes to ``Popen``.
    """
    room = str(Path(__file__).resolve().parents[1])
    path = os.pathsep.join(filter(None, (room, os.environ.get("PYTHONPATH"))))
    return subprocess.Popen(
        [sys.executable, "-m", module], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path}, start_new_session=True, **more,
    )  # fmt: skip


def end_with(parent: int) -> None:
    """End this process with the process ``parent``, which started it; on Linux alone, elsewhere its pipes break."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, SIGKILL)
    if os.getppid() != parent:  # it died before it was asked
        raise SystemExit(1)
