"""Runs ``tests.actors.rehearsal`` in a process that alone has torchvision, and reads what it says."""

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

from tests.actors.vision_packages import fetched

ROOT = Path(__file__).parents[2]


def rehearsed(kind: str, names: Sequence[str], folder: Path, data: Path, timeout: float) -> dict[str, dict[str, Any]]:
    """Name -> prompt -> what the engine and the package-style call made of it; skips where a package cannot be had."""
    try:
        packages = fetched(folder / "packages")
    except RuntimeError as problem:
        pytest.skip(f"processors of five architectures need torchvision: {problem}")
    copy = shutil.copytree(data, folder / f"data-{kind}")
    command = [sys.executable, "-m", "tests.actors.rehearsal", kind, str(folder / "checkpoints"), str(copy), *names]
    done = subprocess.run(
        command, cwd=ROOT, env=environment(packages), capture_output=True, text=True, timeout=timeout, check=False
    )
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
