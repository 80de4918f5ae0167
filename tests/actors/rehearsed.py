"""Run ``tests.actors.rehearsal`` in a subprocess that has torchvision, and read its output."""

from __future__ import annotations

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

ROOT = Path(__file__).parents[2]


def run_rehearsal(
    kind: str, names: Sequence[str], folder: Path, data: Path, timeout: float
) -> dict[str, dict[str, Any]]:
    """Map name and prompt to the outputs of engine and package-style call; skip if a package is unavailable."""
    try:
        packages = fetch_packages(folder / "packages")
    except RuntimeError as problem:
        pytest.skip(f"processors of five architectures need torchvision: {problem}")
    copy = shutil.copytree(data, folder / f"data-{kind}", dirs_exist_ok=True)
    return run_module("rehearsal", [kind, str(folder / "checkpoints"), str(copy), *names], packages, timeout)


def run_module(module: str, arguments: Sequence[str], packages: Path, timeout: float) -> dict[str, dict[str, Any]]:
    """Run a module of ``tests.actors`` with these packages; return its JSON lines by name."""
    done = subprocess.run(
        [sys.executable, "-m", f"tests.actors.{module}", *arguments],
        cwd=ROOT, env=environment(packages), capture_output=True, text=True, timeout=timeout, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"name"')]
    return {line.pop("name"): line for line in lines}


def environment(packages: Path) -> dict[str, str]:
    """The variables of a process that has the packages of a folder."""
    settings = {
        "PYTHONPATH": f"{packages}{os.pathsep}{ROOT}",
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "TRANSFORMERS_VERBOSITY": "error",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_LOGGING_LEVEL": "ERROR",
        "VLLM_NO_USAGE_STATS": "1",
    }
    return {**os.environ, **settings}
