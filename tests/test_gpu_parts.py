"""``make gpu`` at small size on the CPU: every part that needs no CUDA runs, every other one says why it did not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.actors.vision_packages import fetch_packages

ROOT = Path(__file__).parents[1]


def run_gpu(*arguments: str, path: Path | None = None, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *([str(path)] if path else [])])}
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=timeout, check=False
    )


@pytest.mark.slow
@pytest.mark.long
def test_parts_run_on_a_cpu_and_a_skipped_part_is_no_success(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="the extra 'transformers' is not installed")
    try:
        packages = fetch_packages(tmp_path / "packages")
    except RuntimeError as reason:
        pytest.skip(str(reason))
    parts = ("qwen2.5-vl-3b", "faults", "batch")
    options = ("--device", "cpu", "--small", "--out", str(tmp_path), *parts)
    process = run_gpu("-m", "tests.bench.gpu", *options, path=packages, timeout=400)

    rows = json.loads((tmp_path / "gpu.json").read_text())["parts"]
    assert process.returncode == 3, rows
    assert {part: row["state"] for part, row in rows.items()} == dict(zip(parts, ("ok", "skipped", "ok"), strict=True))
    assert rows["qwen2.5-vl-3b"]["figures"]["worker requests/s"] > 0
    assert rows["batch"]["figures"]["changed in batches of 8"] == "0 of 8"
    assert all(f"| {part} | {rows[part]['state']} |" in (tmp_path / "gpu.md").read_text() for part in parts)


@pytest.mark.slow
@pytest.mark.long
def test_vllm_part_measures_worker_and_plain_chat() -> None:
    pytest.importorskip("vllm", reason="the extra 'vllm' is not installed")
    process = run_gpu("-m", "tests.bench.gpu.part", "vllm", "cpu", "small", timeout=400)

    assert process.returncode == 0, process.stderr[-2000:]
    assert min(json.loads(process.stdout.splitlines()[-1]).values()) > 0


def test_missing_packages_are_named_first_with_what_to_carry() -> None:
    process = run_gpu("-S", "-m", "tests.bench.gpu")

    assert process.returncode == 3
    assert "missing: torch transformers" in process.stdout and "pip download" in process.stdout


def test_unknown_part_is_a_mistake() -> None:
    process = run_gpu("-m", "tests.bench.gpu", "drivers")

    assert process.returncode == 2 and "no part 'drivers'" in process.stderr
