"""``make gpu`` at small size on the CPU: every part that needs no CUDA runs, every other one says why it did not."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench.gpu import PARTS

pytest.importorskip("torch", reason="the extra 'transformers' is not installed")
pytest.importorskip("transformers", reason="the extra 'transformers' is not installed")

ROOT = Path(__file__).parents[1]
CUDA = {"driver", "release", "out-of-memory", "device-assert"}
"""Parts that ask a driver or a device for something that a CPU has not."""


def run_parts(folder: Path, *arguments: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.bench.gpu", "--out", str(folder), *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=timeout, check=False)


@pytest.mark.long
def test_every_part_runs_or_says_why_not(tmp_path: Path) -> None:
    parts = [
        part for part in PARTS if part != "ray"
    ]  # a cluster of its own: tests/orchestrator/execution/test_model_trial.py
    done = run_parts(tmp_path, "--device", "cpu", "--small", *parts, timeout=590)

    findings = json.loads((tmp_path / "gpu.json").read_text())["parts"]
    assert done.returncode == 0, findings
    assert {part for part, row in findings.items() if row["state"] == "skipped"} == CUDA
    assert all(row["why"] for row in findings.values() if row["state"] == "skipped")
    assert findings["batch"]["found"]["equal replies"] == "16 of 16"
    assert findings["architectures"]["found"]["llava-1.5"] == "ids equal, reply equal (float32)"
    assert len(findings["prefill"]["found"]) == 6 and all(
        "s, " in timing for timing in findings["prefill"]["found"].values()
    )
    assert set(findings["decode"]["found"]) == {"2-way", "8-way"}
    written = (tmp_path / "gpu.md").read_text()
    assert all(f"| {part} | {findings[part]['state']} |" in written for part in parts)


@pytest.mark.slow
def test_a_part_that_cannot_run_is_skipped_with_its_reason(tmp_path: Path) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device here: `make gpu` is the test")
    done = run_parts(tmp_path, "driver", timeout=300)

    assert done.returncode == 0, done.stderr
    row = json.loads((tmp_path / "gpu.json").read_text())["parts"]["driver"]
    assert (row["state"], row["why"]) == ("skipped", "torch sees no CUDA device")


def test_unknown_part_is_a_mistake(tmp_path: Path) -> None:
    done = run_parts(tmp_path, "drivers")

    assert done.returncode == 2 and "there is no part 'drivers'; there are driver, release" in done.stderr
