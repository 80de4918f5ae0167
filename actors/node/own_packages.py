"""Installs a model's own versions of packages on one node, into a folder that comes first in ``sys.path``.

pip decides what differs from the installed packages, and only that is installed: all others stay visible. Each worker locks
its folder as long as it lives. When a folder is installed, others are deleted if no worker of this node holds them and none
has started with them for ``UNUSED_DAYS``.
"""

import fcntl
import json
import logging
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic, time
from typing import Any

from filelock import FileLock, Timeout

from actors.text.printable import one_line
from actors.text.redaction import redact_addresses, redact_environment
from sweeps.engine_options import SHARED

INSTALL_TIMEOUT_S = 1500.0
"""Seconds that an installation may take, including the wait for one by another process."""
RECORD = "installed.json"
"""The file that only a complete folder has: it lists what pip installed."""
UNUSED_DAYS = 30
"""A folder is deleted once no worker has started with it for this many days."""
UNUSED = "-unused"
"""Ending of the name of a folder that is being deleted."""
PIP = ("-m", "pip", "--disable-pip-version-check", "--no-input", "--no-color")


log = logging.getLogger(__name__)


class InstallError(Exception):
    """Packages cannot be installed; the text says why."""


def is_complete(folder: str) -> bool:
    """Return True if everything is installed in the folder."""
    return (Path(folder) / RECORD).is_file()


def hold(folder: str) -> None:
    """Keep the folder from being deleted until this process ends, kill -9 included. Raises OSError."""
    descriptor = os.open(Path(folder) / RECORD, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_SH)


def install(requirements: Sequence[str], folder: str) -> str:
    """Install what the requirements change, unless the folder is complete; return why that failed, or an empty string."""
    try:
        _install_once(requirements, Path(folder), monotonic() + INSTALL_TIMEOUT_S)
        return ""
    except (Timeout, subprocess.TimeoutExpired):
        return (
            f"{', '.join(requirements)} took longer than {INSTALL_TIMEOUT_S:.0f} s to install on {socket.gethostname()}"
        )
    except (InstallError, OSError) as problem:
        reason = redact_environment(redact_addresses(one_line(str(problem))))
        return f"{', '.join(requirements)} cannot be installed on {socket.gethostname()}: {reason}"


def _install_once(requirements: Sequence[str], folder: Path, deadline: float) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock", timeout=INSTALL_TIMEOUT_S):
        if is_complete(str(folder)):
            os.utime(folder / RECORD)
            return
        for unfinished in folder.parent.glob(f"{folder.name}-*"):
            shutil.rmtree(unfinished, ignore_errors=True)
        partial = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f"{folder.name}-"))
        try:
            packages = _find_changes(requirements, partial, deadline)
            if packages:
                _run_pip(["install", "--no-deps", "--quiet", "--target", str(partial), *packages], partial, deadline)
            (partial / RECORD).write_text(json.dumps(packages))
            partial.rename(folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    delete_unused(folder.parent)


def delete_unused(packages: Path) -> None:
    """Delete the folders that no worker holds, and with which none has started for ``UNUSED_DAYS``."""
    for record in sorted(packages.glob(f"*/{RECORD}")):
        with suppress(OSError, Timeout):  # in use, being installed, or deleted by another process
            _set_aside_unused(record)
    for folder in packages.glob(f"*{UNUSED}"):
        shutil.rmtree(folder, ignore_errors=True)


def _set_aside_unused(record: Path) -> None:
    """Rename the folder of this record if it is unused, while nobody installs or begins to hold it. Raises OSError."""
    with FileLock(f"{record.parent}.lock", timeout=0), record.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if time() - record.stat().st_mtime > UNUSED_DAYS * 86_400:
            record.parent.rename(f"{record.parent}{UNUSED}")
            log.info("%s is deleted: no worker has used it for %d days", record.parent, UNUSED_DAYS)


def _find_changes(requirements: Sequence[str], folder: Path, deadline: float) -> list[str]:
    """Return the releases that pip would install in addition to the installed packages."""
    report = folder / "report.json"
    _run_pip(["install", "--dry-run", "--quiet", "--report", str(report), "--", *requirements], folder, deadline)
    changes: list[dict[str, Any]] = json.loads(report.read_bytes())["install"]
    report.unlink()
    releases = {change["metadata"]["name"]: change for change in changes}
    if shared := sorted(name for name in releases if name.lower() in SHARED):
        raise InstallError(f"they need another {shared[0]} version than the driver's; name releases that work with it")
    return [_format_release(name, change) for name, change in releases.items()]


def _format_release(name: str, change: dict[str, Any]) -> str:
    if change["is_direct"]:
        return f"{name} @ {change['download_info']['url']}"
    return f"{name}=={change['metadata']['version']}"


def _run_pip(arguments: Sequence[str], folder: Path, deadline: float) -> None:
    """Run pip of this interpreter inside ``folder``; raises InstallError with its last error."""
    result = subprocess.run(
        [sys.executable, *PIP, *arguments], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=max(1.0, deadline - monotonic()),
    )  # fmt: skip
    if result.returncode == 0:
        return
    if "No module named pip" in result.stderr:
        raise InstallError(f"{sys.executable} has no pip; add it (`uv pip install pip`)")
    errors = [line.removeprefix("ERROR: ") for line in result.stderr.splitlines() if line.startswith("ERROR: ")]
    last_error = errors[-1] if errors else (result.stderr.strip().splitlines() or ["nothing"])[-1]
    raise InstallError(
        f'pip says "{last_error}"; correct the requirements, or without internet set PIP_INDEX_URL or PIP_FIND_LINKS where '
        "Ray starts"
    )
