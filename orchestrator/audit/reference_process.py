"""The package ``proactivebench`` in a child process, on a Python version that it supports (3.12 or newer)."""

import contextlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from threading import Thread
from typing import Any

from actors.text.printable import one_line
from envs.errors import RunFolderError

PACKAGE, VERSION = "proactivebench", "0.1.1"
MIN_PYTHON = (3, 12)
"""The package nests quotes in f-strings, which Python 3.12 allows."""


class AuditError(RunFolderError):
    """An audit that the user must correct."""


@contextlib.contextmanager
def reference_process(data: Path, package: Path | None, python: str | None, install: bool = False) -> Iterator[Any]:
    """Start a process with the package, and yield a function from tasks to answers; ``install`` fetches the package first."""
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8"}
    interpreter = _find_python(python)
    if folder := _install() if install else _package_folder(package):
        environment["PYTHONPATH"] = str(folder)
    _check_import(interpreter, environment)
    script = Path(__file__).with_name("reference_worker.py")
    process = subprocess.Popen(
        [interpreter, str(script), str(data)], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        encoding="utf-8",
    )  # fmt: skip

    def ask(tasks: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        assert process.stdin is not None and process.stdout is not None
        lines = "".join(json.dumps(task) + "\n" for task in tasks)
        writer = Thread(target=_write, args=(process.stdin, lines))
        writer.start()  # write while reading, because pipes buffer only some kilobytes
        answers = [process.stdout.readline() for _ in tasks]
        writer.join()
        if not all(answers):
            raise AuditError("the package stopped; its message is above")
        return [json.loads(answer) for answer in answers]

    try:
        yield ask
    finally:
        if process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.close()
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _write(pipe: Any, text: str) -> None:
    with contextlib.suppress(OSError):  # the reader sees that the process ended
        pipe.write(text)
        pipe.flush()


def _install() -> Path:
    """Return a folder of this user with the package, which pip fetches without its dependencies if it is not there."""
    folder = (
        Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "proactive-sweep" / f"{PACKAGE}-{VERSION}"
    )
    if (folder / PACKAGE / "environment.py").is_file():
        return folder
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--target",
        str(folder),
        "--python-version",
        "3.12",
    ]
    done = subprocess.run([*pip, "--only-binary=:all:", f"{PACKAGE}=={VERSION}"], capture_output=True, text=True)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["pip failed"])[-1]
        raise AuditError(
            f"--install could not fetch {PACKAGE} {VERSION}: {one_line(reason)}; give its folder with --package"
        )
    return folder


def _package_folder(folder: Path | None) -> Path | None:
    """Return the parent folder of ``proactivebench``; None for the packages of the interpreter."""
    if folder is None and (path := os.environ.get("PROACTIVEBENCH_PATH")):
        folder = Path(path)
    if folder is not None and not (folder / PACKAGE / "environment.py").is_file():
        raise AuditError(f"{folder} has no folder {PACKAGE} with environment.py; --package names its parent folder")
    spec = importlib.util.find_spec(PACKAGE) if folder is None else None
    return Path(spec.origin).parents[1] if spec is not None and spec.origin else folder


def _find_python(python: str | None) -> str:
    if python is not None:
        if not _is_new_enough(python):
            raise AuditError(f"--python {python} does not start, or is older than Python 3.12, which the package needs")
        return python
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    candidates = [sys.executable, *(shutil.which(f"python3.{minor}") for minor in range(12, 16))]
    candidates += [str(path) for path in sorted(root.glob("versions/3.*/bin/python"))]
    found = next((path for path in candidates if path and _is_new_enough(path)), None)
    if found is None:
        raise AuditError(
            f"the package {PACKAGE} needs Python 3.12 or newer, this is {sys.version_info.major}.{sys.version_info.minor} "
            "and no newer one was found; name one with --python /path/to/python3.12"
        )
    return found


def _is_new_enough(python: str) -> bool:
    """Return True if the interpreter starts and is new enough; pyenv's shims of inactive versions do not start."""
    test = f"import sys; sys.exit(sys.version_info < {MIN_PYTHON})"
    try:
        return subprocess.run([python, "-c", test], capture_output=True, timeout=60).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def _check_import(python: str, environment: Mapping[str, str]) -> None:
    command = [python, "-c", f"import {PACKAGE}.environment, {PACKAGE}.open_ended_gen"]
    if subprocess.run(command, env=dict(environment), capture_output=True, timeout=60).returncode:
        raise AuditError(f"{python} cannot import {PACKAGE}; `audit DIR --install` fetches it")
