"""Run ``tests.actors.rehearsal`` in a subprocess that has torchvision, and read its output."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.actors.vision_packages import fetch_packages
from tests.conftest import ENGINE_ENVIRONMENT

ROOT = Path(__file__).parents[2]


def run_rehearsal(
    tasks: Sequence[str],
    folder: Path,
    data: Path,
    timeout: float,
    program: Sequence[str] = ("-m", "tests.actors.rehearsal"),
) -> dict[str, dict[str, Any]]:
    """Map each task to its outcome; skip if a package is unavailable."""
    try:
        packages = fetch_packages(folder / "packages")
    except RuntimeError as problem:
        pytest.skip(f"processors of five architectures need torchvision: {problem}")
    copy = shutil.copytree(data, folder / "data", dirs_exist_ok=True)
    done = subprocess.run(
        [sys.executable, *program, str(folder / "checkpoints"), str(copy), *tasks],
        cwd=ROOT, env=environment(packages), capture_output=True, text=True, timeout=timeout, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"task"')]
    return {line.pop("task"): line for line in lines}


def environment(packages: Path) -> dict[str, str]:
    """The variables of a process that has the packages of a folder."""
    settings = {
        "PYTHONPATH": os.pathsep.join([str(packages), str(ROOT), os.environ.get("PYTHONPATH", "")]),
        "OMP_NUM_THREADS": "1",
        "TRANSFORMERS_VERBOSITY": "error",
        "VLLM_LOGGING_LEVEL": "ERROR",
        **ENGINE_ENVIRONMENT,
    }
    return {**os.environ, **settings}
