"""TRL trains tiny random checkpoints of the architectures that the paper trains (docs/learning.md)."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("trl", reason="the packages of proactive-sweep-learn are not installed")

from proactive_demo.drawing import draw
from tests.actors.rehearsed import environment
from tests.actors.vision_packages import fetch_packages
from tests.conftest import PYTHONPATH, ROOT

pytestmark = pytest.mark.long
NAMES = ("llava-next-mistral", "qwen2.5-vl")


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory, demo_data):
    """Architecture -> the outcome of its training."""
    folder = tmp_path_factory.mktemp("architectures")
    try:
        packages = fetch_packages(folder / "packages")
    except RuntimeError as problem:
        pytest.skip(f"the processor of Qwen2.5-VL needs torchvision: {problem}")
    draw(folder / "learnt", 8, 5000, ("QD", "COCO"))
    script = Path(__file__).with_name("learning_architectures.py")
    command = [sys.executable, script, folder, demo_data, folder / "learnt", *NAMES]
    variables = {**environment(packages), "PYTHONPATH": f"{packages}{os.pathsep}{PYTHONPATH}"}
    done = subprocess.run(list(map(str, command)), cwd=ROOT, env=variables, capture_output=True, text=True, timeout=580)
    assert done.returncode == 0, done.stderr[-2000:]
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"name"')]
    return {line["name"]: line for line in lines}


@pytest.mark.parametrize("name", NAMES)
def test_trl_trains_on_tokens_and_pixels_of_a_sweep(outcomes, name):
    outcome = outcomes[name]

    assert outcome["tokens"] and "pixel_values" in outcome["fields"] and all(outcome["fields"].values()), outcome
    assert outcome["steps"] == 2 and outcome["moved"] > 1e-3
