"""What ``plan`` says of a training before any model is loaded: states, steps and hours."""

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


def planned(*arguments):
    done = CliRunner().invoke(app, ["plan", str(DEMO), *(str(one) for one in arguments)])
    assert done.exit_code == 0, done.output
    return " ".join(done.output.split())


def paper(model, **more):
    """One pass over the published split."""
    train = train_table({"train": {"model": model, "data": "d", **more}}, "x.toml")
    return with_steps(train, 26_879)


def hours(text):
    return tuple(map(float, re.search(r"([\d.]+) to ([\d.]+) GPU-hours", text).groups()))


def test_plan_says_what_a_training_will_do(demo_data, tmp_path):
    draw(tmp_path / "own", 4, 5000, ("QD", "COCO"))
    told = planned("--set", f"data={demo_data}", "--set", f"train.data={tmp_path / 'own'}")

    assert "training of embedded: " in told and "4 hidden" in told and "4 clear" in told
    assert "120 steps of 16 states x 8 replies (15,360 replies in all), about 0.02 CPU-hours" in told


def test_hours_of_the_papers_models_are_the_papers():
    assert hours(describe_hours(paper("qwen2.5-vl-3b"), "a100")) == pytest.approx((32, 40), rel=0.01)
    assert hours(describe_hours(paper("llava-next-mistral-7b"), "a100")) == pytest.approx((128, 160), rel=0.01)


def test_hours_follow_replies_parameters_gpu_and_their_number():
    one, half = paper("qwen2.5-vl-3b"), paper("qwen2.5-vl-3b", rollouts=4, batch=256)

    assert hours(describe_hours(half, "a100")) == pytest.approx((16, 20), rel=0.01)
    assert hours(describe_hours(one, "h200"))[1] == pytest.approx(40 * 0.35, rel=0.01)
    assert hours(describe_hours(paper("llava-ov-7b"), "a100")) == pytest.approx((7 * 32 / 3, 160), rel=0.01)
    assert "16.0 to 20.0 h on 2 " in describe_hours(one, "a100", 2).replace("15.9 to 20.0", "16.0 to 20.0")


def test_a_forecast_counts_the_published_split_where_the_data_are_not_there(tmp_path):
    training = settings.load(DEMO, ["train.data=nowhere", "train.steps=0", "train.batch=512"])
    (line,) = plan_lines(training, "h200", 4)

    assert "26,879 states of the published train split (nowhere does not exist), 419 steps of 64 states" in line


def test_hours_on_a_gpu_that_nobody_knows_are_one_sentence():
    with pytest.raises(SweepError, match="no rates are known for GPU type 'tpu'"):
        describe_hours(paper("qwen2.5-vl-3b"), "tpu")


def test_each_pass_of_trl_has_every_state_once_in_an_order_of_its_own():
    train = train_table(
        {"train": {"model": "embedded", "data": "d", "engine": "trl", "batch": 32, "steps": 20}}, "x.toml"
    )
    places = state_order(30, train)

    assert len(places) == 80 and sorted(places[:30]) == sorted(places[30:60]) == list(range(30)) != places[:30]
    assert places[:30] != places[30:60] and len(set(places[60:])) == 20
    assert places == state_order(30, train) != state_order(30, train.model_copy(update={"seed": 1}))
