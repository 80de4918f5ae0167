"""Installs a model's own versions of packages on one node, into a folder that comes first in ``sys.path``.

pip decides what differs from the installed packages, and only that is installed: all others stay visible. Ray's own
``runtime_env`` would copy the whole environment, gigabytes, for each run.
"""

import json
import shutil
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from actors.text.printable import one_line
from actors.text.redaction import redact_addresses, redact_environment
from sweeps.engine_options import SHARED

INSTALL_TIMEOUT_S = 1500.0
"""Seconds that a step of an installation may take, and the wait for one by another process."""
PIP = ("-m", "pip", "--disable-pip-version-check", "--no-input", "--no-color", "install", "--quiet")


class InstallError(Exception):
    """Packages cannot be installed; the text says why."""


def install(requirements: Sequence[str], folder: str) -> str:
    """Install what the requirements change, unless the folder exists; return why that failed, or an empty string."""
    target = Path(folder)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{folder}.lock", timeout=INSTALL_TIMEOUT_S):
            if not target.is_dir():
                _install(requirements, target)
        return ""
    except (Timeout, subprocess.TimeoutExpired, InstallError, OSError) as problem:
        reason = redact_environment(redact_addresses(one_line(str(problem))))
        return f"{', '.join(requirements)} cannot be installed on {socket.gethostname()}: {reason}"


def _install(requirements: Sequence[str], folder: Path) -> None:
    """Install into a folder beside it, which gets its name once it is complete; only one process of the node does so."""
    partial, report = Path(f"{folder}.partial"), Path(f"{folder}.json")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        _run_pip("--dry-run", "--report", str(report), "--", *requirements)
        changes: list[dict[str, Any]] = json.loads(report.read_bytes())["install"]
        releases = {change["metadata"]["name"]: change for change in changes}
        if shared := min((name for name in releases if name.lower() in SHARED), default=""):
            raise InstallError(f"they need another {shared} version than the driver's; name releases that work with it")
        partial.mkdir()
        if releases:
            _run_pip("--no-deps", "--target", str(partial), *(_format(name, releases[name]) for name in releases))
        partial.rename(folder)
    finally:
        report.unlink(missing_ok=True)
        shutil.rmtree(partial, ignore_errors=True)


def _format(name: str, change: dict[str, Any]) -> str:
    """Return a release of pip's report as a requirement."""
    if change["is_direct"]:
        return f"{name} @ {change['download_info']['url']}"
    return f"{name}=={change['metadata']['version']}"


def _run_pip(*arguments: str) -> None:
    """Run ``pip install`` of this interpreter; raises InstallError with its last error."""
    result = subprocess.run(
        [sys.executable, *PIP, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=INSTALL_TIMEOUT_S,
    )  # fmt: skip
    if result.returncode:
        lines = result.stderr.strip().splitlines() or ["nothing"]
        if lines[-1].endswith("No module named pip"):  # as in environments of uv
            raise InstallError(f"{sys.executable} has no pip; add it, for example by uv pip install pip")
        last_error = next((line for line in reversed(lines) if line.startswith("ERROR: ")), lines[-1])
        raise InstallError(
            f'pip says "{last_error.removeprefix("ERROR: ")}"; correct the requirements, or without internet set PIP_INDEX_URL or'
            " PIP_FIND_LINKS where Ray starts"
        )
