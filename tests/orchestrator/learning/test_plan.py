"""``plan`` describes a training before any model is loaded: states, steps and hours."""

import re
from pathlib import Path
from random import Random

import pytest
from typer.testing import CliRunner

from orchestrator.cli.main import app
from orchestrator.learning import settings
from orchestrator.learning.plan import (
    describe_hours,
    describe_work,
    drawable_states,
    load_split_states,
    plan_lines,
    state_order,
    with_steps,
)
from orchestrator.learning.settings import train_table
from orchestrator.learning.states import SplitState
from proactive_demo.drawing import draw
from sweeps.load import SweepError
from tests.orchestrator.learning.test_train_split import row, write

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


@pytest.mark.parametrize(
    ("model", "gpu_type", "gpus", "sentence"),
    [
        ("qwen2.5-vl-3b", "a100", None, "31.9 to 39.9 GPU-hours of A100"),
        ("qwen2.5-vl-3b", "a100", 2, "31.9 to 39.9 GPU-hours of A100, 16.0 to 20.0 h on 2"),
        ("llava-next-mistral-7b", "a100", 4, "127.7 to 159.6 GPU-hours of A100, 31.9 to 39.9 h on 4"),
    ],
)
def test_the_sentence_of_the_paper_s_models(model, gpu_type, gpus, sentence):
    """One pass are 419 steps of 512 replies: 214,528 of the 215,032 for which the paper took 32 to 40 hours."""
    assert describe_hours(paper(model), gpu_type, gpus) == (
        f"{sentence} (estimated from the paper's 8 to 10 hours on A100)"
    )


def test_hours_of_a_model_without_parameters_are_those_of_7_billion():
    train = paper("llava-ov-7b")
    unknown = train.model_copy(update={"model": train.model.model_copy(update={"parameters": None})})
    seven = train.model_copy(update={"model": train.model.model_copy(update={"parameters": 7.0})})
    idle = train.model_copy(update={"model": train.model.model_copy(update={"gpus": 0})})

    assert describe_hours(unknown, "a100") == describe_hours(seven, "a100") and describe_hours(idle, "a100") == ""
    assert hours(describe_hours(unknown, "a100")) == pytest.approx((7 / 3 * 31.925, 159.625), abs=0.06)


def test_steps_are_one_pass_unless_they_are_stated():
    train = train_table({"train": {"model": "embedded", "data": "d", "batch": 64}}, "x.toml")

    assert train.groups == 8
    assert [with_steps(train, count).steps for count in (7, 8, 15, 16, 800)] == [1, 1, 1, 2, 100]
    stated = train.model_copy(update={"steps": 3})
    assert with_steps(stated, 800) is stated
    cloning = train_table(
        {"train": {"model": "embedded", "data": "d", "batch": 64, "exploration": {"clone": 40}}}, "x.toml"
    )
    assert with_steps(cloning, 800) is cloning
    assert describe_work(with_steps(train, 16_000)) == "2,000 steps of 8 states x 8 replies (128,000 replies in all)"
    assert describe_work(cloning.model_copy(update={"steps": 1})) == (
        "40 cloning steps, 1 steps of 8 states x 8 replies (64 replies in all)"
    )
    assert describe_hours(cloning, "a100") == "about 0.00 CPU-hours"
    assert describe_hours(with_steps(train, 160_000), "a100") == "about 1.78 CPU-hours"  # 1,280,000 x 0.005 / 3,600


def test_rows_are_drawn_by_seed_and_all_of_them_keep_their_order(tmp_path):
    folder = write(tmp_path, [row(number) for number in range(6)])

    def numbers(samples, seed=0):
        return [state.row.number for state in load_split_states(folder, samples, seed)]

    assert numbers(None) == numbers(6) == numbers(7) == list(range(6))
    assert numbers(5, 3) == Random("3/learning/rows").sample(range(6), 5) != numbers(5)


def test_a_row_is_a_state_of_unknown_kind(tmp_path):
    write(tmp_path, [row(number) for number in range(2)])
    states = load_split_states(tmp_path, None, 0)
    job = states[1].job()
    situation = job.request.situation

    assert [(state.key, state.kind, state.solution, state.scenario) for state in states] == [
        ("train/0", "middle", "Cat.", "QD"), ("train/1", "middle", "Cat.", "QD"),
    ]  # fmt: skip
    assert [(message.role, [image.path for image in message.images]) for message in job.request.messages] == [
        ("user", ["train/1"])
    ]
    assert (situation.sample.id, situation.sample.answer, situation.view.categories) == (1, "Cat.", ())
    assert situation.view.options == states[1].row.options and situation.state.turn == 0
    assert [path.path for path in job.pictures] == ["train/1"] and SplitState(states[0].row).kind == "middle"
    train = train_table({"train": {"model": "embedded", "data": "d"}}, "x.toml")
    assert drawable_states(states, train) == states
    without = train.model_copy(update={"states": train.states.model_copy(update={"middle": 0.0})})
    assert drawable_states(states, without) == []


def test_the_order_of_states_is_drawn_by_seed_and_pass():
    train = train_table({"train": {"model": "embedded", "data": "d", "batch": 32, "steps": 10, "seed": 3}}, "x.toml")
    passes = [Random(f"3/learning/pass/{number}").sample(range(30), 30) for number in range(2)]

    assert train.groups == 4 and state_order(30, train) == [*passes[0], *passes[1][:10]]
