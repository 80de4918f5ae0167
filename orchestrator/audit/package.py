"""The package ``proactivebench`` in a child process, on a Python version that it supports (3.12 or newer)."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from actors.text.printable import one_line
from envs.errors import RunFolderError

PACKAGE, VERSION = "proactivebench", "0.1.1"
Ask = Callable[[Sequence[Mapping[str, Any]]], list[dict[str, Any]]]
"""Returns the package's answers to tasks (``package_worker``)."""


def open_package(data: Path, folder: Path | None, python: str | None, install: bool = False) -> Ask:
    """Return a function from tasks to answers; ``install`` fetches the package first. Raises RunFolderError."""
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8"}
    if folder is not None and not (folder / PACKAGE / "environment.py").is_file():
        raise RunFolderError(f"{folder} has no folder {PACKAGE} with environment.py; --package names its parent folder")
    if found := _install() if install else folder:
        environment["PYTHONPATH"] = str(found)
    command = [_find_python(python, environment), str(Path(__file__).with_name("package_worker.py")), str(data)]

    def ask(tasks: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        lines = "".join(json.dumps(task) + "\n" for task in tasks)
        done = subprocess.run(
            command, env=environment, input=lines, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )
        if done.returncode:
            raise RunFolderError("the package stopped; its message is above")
        return [json.loads(answer) for answer in done.stdout.splitlines()]

    return ask


def _install() -> Path:
    """Return a folder of this user with the package, which pip fetches without its dependencies if it is not there.

    It is not below ``PROACTIVE_SWEEP_CACHE``, where other users may write and plant code.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "proactive-sweep" / f"{PACKAGE}-{VERSION}"
    if (folder / PACKAGE / "environment.py").is_file():
        return folder
    options = "install --quiet --upgrade --no-deps --ignore-requires-python --only-binary=:all: --target"
    command = [sys.executable, "-m", "pip", *options.split(), str(folder), f"{PACKAGE}=={VERSION}"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        reason = one_line((done.stderr.strip().splitlines() or ["pip failed"])[-1])
        raise RunFolderError(f"--install could not fetch {PACKAGE} {VERSION}: {reason}; give its folder with --package")
    return folder


def _find_python(python: str | None, environment: Mapping[str, str]) -> str:
    """Return an interpreter that imports the package, which nests quotes in f-strings, as Python 3.12 allows."""
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    interpreters = [sys.executable, *(shutil.which(f"python3.{minor}") for minor in range(12, 16))]
    interpreters += map(str, sorted(root.glob("versions/3.*/bin/python")))
    code = f"import {PACKAGE}.environment, {PACKAGE}.open_ended_gen"
    for candidate in filter(None, [python] if python else interpreters):
        with suppress(OSError, subprocess.TimeoutExpired):
            # pyenv's shims of inactive versions do not start
            done = subprocess.run([candidate, "-c", code], env=environment, capture_output=True, timeout=60)
            if done.returncode == 0:
                return candidate
    raise RunFolderError(
        f"{python or 'no Python here'} can{'not' if python else ''} import {PACKAGE}, which needs Python 3.12 or newer; "
        "`audit DIR --install` fetches it, and --python /path/to/python3.12 names another interpreter"
    )
