"""The package ``proactivebench`` in a child process, on a Python version that it supports (3.12 or newer)."""

from __future__ import annotations

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

from orchestrator.storage.lock import RunFolderError

PACKAGE, VERSION = "proactivebench", "0.1.1"
NEEDS = (3, 12)
"""Its environment module nests quotes in f-strings, which Python reads from 3.12 on."""


class AuditError(RunFolderError):
    """What the user should read."""


@contextlib.contextmanager
def referee(data: Path, package: Path | None, python: str | None) -> Iterator[Any]:
    """A process of the package; the value asks it a list of tasks and gives the list of its answers."""
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8"}
    interpreter = _python(python)
    if folder := _package(package):
        environment["PYTHONPATH"] = str(folder)
    _importable(interpreter, environment)
    script = Path(__file__).with_name("reference_worker.py")
    process = subprocess.Popen(
        [interpreter, str(script), str(data)], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        encoding="utf-8",
    )  # fmt: skip

    def ask(tasks: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        assert process.stdin is not None and process.stdout is not None
        lines = "".join(json.dumps(task) + "\n" for task in tasks)
        writer = Thread(target=_written, args=(process.stdin, lines))
        writer.start()  # both pipes hold only some kilobytes: read while writing
        answers = [process.stdout.readline() for _ in tasks]
        writer.join()
        if not all(answers):
            raise AuditError("the package stopped in the middle; its own message stands above")
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


def _written(pipe: Any, text: str) -> None:
    with contextlib.suppress(OSError):  # the reader sees that the process is gone
        pipe.write(text)
        pipe.flush()


def _package(named: Path | None) -> Path | None:
    """The folder that holds ``proactivebench``; None leaves it to the interpreter's own packages."""
    if named is None and (path := os.environ.get("PROACTIVEBENCH_PATH")):
        named = Path(path)
    if named is not None:
        if not (named / PACKAGE / "environment.py").is_file():
            raise AuditError(f"{named} holds no folder {PACKAGE} with environment.py; --package names what it lies in")
        return named
    spec = importlib.util.find_spec(PACKAGE)
    return Path(spec.origin).parents[1] if spec is not None and spec.origin else None


def _python(named: str | None) -> str:
    if named is not None:
        if not _new_enough(named):
            raise AuditError(f"--python {named} does not start, or is older than Python 3.12, which the package needs")
        return named
    if sys.version_info >= NEEDS:
        return sys.executable
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    candidates = [shutil.which(f"python3.{minor}") for minor in range(12, 16)]
    candidates += [str(path) for path in sorted(root.glob("versions/3.*/bin/python"))]
    for path in candidates:
        if path and _new_enough(path):
            return path
    raise AuditError(
        f"the package {PACKAGE} needs Python 3.12 or newer, this is {sys.version_info.major}.{sys.version_info.minor} "
        "and no newer one was found; name one with --python /path/to/python3.12"
    )


def _new_enough(python: str) -> bool:
    """Return True if it starts and is new enough; pyenv's shims exist for versions that are not active."""
    test = f"import sys; sys.exit(sys.version_info < {NEEDS})"
    try:
        return subprocess.run([python, "-c", test], capture_output=True, timeout=60).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def _importable(python: str, environment: Mapping[str, str]) -> None:
    tried = subprocess.run(
        [python, "-c", f"import {PACKAGE}.environment, {PACKAGE}.open_ended_gen"],
        env=dict(environment),
        capture_output=True,
        timeout=60,
    )
    if tried.returncode:
        raise AuditError(
            f"{python} cannot import {PACKAGE}: `pip install --no-deps --target DIR --python-version 3.12 "
            f"--only-binary=:all: {PACKAGE}=={VERSION}` fetches it, `--package DIR` names it"
        )
