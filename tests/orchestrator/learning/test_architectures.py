"""Both engines train tiny random checkpoints of the architectures that the paper trains, and of others (docs/learning.md)."""

import json
import subprocess
import sys

import pytest

pytest.importorskip("torch", reason="the extra `transformers` is not installed")
pytest.importorskip("trl", reason="the package trl is not installed")

from proactive_demo.drawing import draw
from tests.actors.rehearsed import ROOT, environment
from tests.actors.vision_packages import fetch_packages

pytestmark = pytest.mark.long
NAMES = ("llava-next-mistral", "qwen2.5-vl")
"""The architectures of the paper's two models."""
ALONE = "smolvlm"
"""An architecture whose processor takes one question at a time."""


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory, demo_data):
    """(architecture, engine) -> the outcome of its training."""
    folder = tmp_path_factory.mktemp("architectures")
    try:
        packages = fetch_packages(folder / "packages")
    except RuntimeError as problem:
        pytest.skip(f"the processor of Qwen2.5-VL needs torchvision: {problem}")
    draw(folder / "learnt", 8, 5000, ("QD", "COCO"))
    command = [
        sys.executable,
        "-m",
        "tests.orchestrator.learning.rehearsal",
        folder,
        demo_data,
        folder / "learnt",
        *NAMES,
        ALONE,
    ]
    done = subprocess.run(
        list(map(str, command)), cwd=ROOT, env=environment(packages), capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, done.stderr[-2000:]
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"name"')]
    return {(line["name"], line["engine"]): line for line in lines}


@pytest.mark.parametrize("name", NAMES)
def test_trl_trains_on_tokens_and_pixels_of_sweep(outcomes, name):
    outcome = outcomes[name, "trl"]

    assert "failed" not in outcome and outcome["tokens"], outcome
    assert (
        outcome["sampled from"] == outcome["learnt under"] == outcome["fields"] and "pixel_values" in outcome["fields"]
    )
    assert outcome["rollouts"] == 128 and outcome["live groups"] > 0 and outcome["moved"] > 1e-3
    assert outcome["logprob gap"] < 2e-3


def test_native_engine_trains_models_with_one_position_dimension(outcomes):
    outcome, refused = (outcomes[name, "native"] for name in NAMES)

    assert "failed" not in outcome and outcome["logprob gap"] < 2e-3, outcome
    assert outcome["rollouts"] == 128 and outcome["live groups"] > 0 and outcome["moved"] > 1e-3
    assert "numbers positions in three dimensions" in refused["refused"] and 'engine = "trl"' in refused["refused"]


def test_native_engine_refuses_single_question_processor(outcomes):
    by_trl, refused = (outcomes[ALONE, engine] for engine in ("trl", "native"))

    assert by_trl["rollouts"] == 128, "evaluations ask one by one"
    assert "refuses several questions at once" in refused["refused"] and "set train.at_once = 1" in refused["refused"]
