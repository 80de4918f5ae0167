"""``plan`` describes a training before any model is loaded: states, steps and hours."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from envs.demo import draw
from orchestrator.cli.main import app
from orchestrator.learning import settings
from orchestrator.learning.plan import describe_hours, plan_lines, state_order, with_steps
from orchestrator.learning.settings import train_table
from sweeps.load import SweepError

DEMO = Path(__file__).parents[3] / "sweeps" / "demo-learning.toml"


def run_plan(*arguments):
    done = CliRunner().invoke(app, ["plan", str(DEMO), *(str(argument) for argument in arguments)])
    assert done.exit_code == 0, done.output
    return " ".join(done.output.split())


def paper(model, **more):
    """Return the settings of one pass over the published split."""
    train = train_table({"train": {"model": model, "data": "d", **more}}, "x.toml")
    return with_steps(train, 26_879)


def hours(text):
    return tuple(map(float, re.search(r"([\d.]+) to ([\d.]+) GPU-hours", text).groups()))


def test_plan_describes_training(demo_data, tmp_path):
    draw(tmp_path / "own", 4, 5000, ("QD", "COCO"))
    output = run_plan("--set", f"data={demo_data}", "--set", f"train.data={tmp_path / 'own'}")

    assert "training of embedded: " in output and "4 hidden" in output and "4 clear" in output
    assert "120 steps of 16 states x 8 replies (15,360 replies in all), about 0.02 CPU-hours" in output


def test_hours_of_paper_models_match_paper():
    assert hours(describe_hours(paper("qwen2.5-vl-3b"), "a100")) == pytest.approx((32, 40), rel=0.01)
    assert hours(describe_hours(paper("llava-next-mistral-7b"), "a100")) == pytest.approx((128, 160), rel=0.01)


def test_hours_follow_replies_parameters_gpu_and_their_number():
    full, half = paper("qwen2.5-vl-3b"), paper("qwen2.5-vl-3b", rollouts=4, batch=256)

    assert hours(describe_hours(half, "a100")) == pytest.approx((16, 20), rel=0.01)
    assert hours(describe_hours(full, "h200"))[1] == pytest.approx(40 * 0.35, rel=0.01)
    assert hours(describe_hours(paper("llava-ov-7b"), "a100")) == pytest.approx((7 * 32 / 3, 160), rel=0.01)
    assert "16.0 to 20.0 h on 2 " in describe_hours(full, "a100", 2).replace("15.9 to 20.0", "16.0 to 20.0")


def test_forecast_without_data_uses_published_split(tmp_path):
    training = settings.load(DEMO, ["train.data=nowhere", "train.steps=0", "train.batch=512"])
    (line,) = plan_lines(training, "h200", 4)

    assert "26,879 states of the published train split (nowhere does not exist), 419 steps of 64 states" in line


def test_hours_on_unknown_gpu_are_refused():
    with pytest.raises(SweepError, match="no rates are known for GPU type 'tpu'"):
        describe_hours(paper("qwen2.5-vl-3b"), "tpu")


def test_each_trl_pass_has_every_state_once_in_new_order():
    train = train_table(
        {"train": {"model": "embedded", "data": "d", "engine": "trl", "batch": 32, "steps": 20}}, "x.toml"
    )
    order = state_order(30, train)

    assert len(order) == 80 and sorted(order[:30]) == sorted(order[30:60]) == list(range(30)) != order[:30]
    assert order[:30] != order[30:60] and len(set(order[60:])) == 20
    assert order == state_order(30, train) != state_order(30, train.model_copy(update={"seed": 1}))
