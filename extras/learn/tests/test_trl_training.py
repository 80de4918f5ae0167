"""TRL's trainer asks a sweep's questions, is rewarded by the game's verdict, explores by hints, resumes and can be stopped."""

import os
import signal
from statistics import mean, stdev
from threading import Event

import polars as pl
import pytest

pytest.importorskip("trl", reason="the packages of proactive-sweep-learn are not installed")

from actors.engine.hf.backend import ModelAndProcessor
from proactive_demo.drawing import draw
from proactive_learn import settings, trainer
from proactive_learn.commands import SWEEPS
from proactive_learn.progress import TrainingProgress
from proactive_learn.run_files import ROLLOUT_SCHEMA, ROLLOUTS, complete_checkpoints
from proactive_learn.settings import TrainError
from proactive_learn.states import load_training_states, state_order

pytestmark = pytest.mark.long
DEMO = SWEEPS / "demo-learning.toml"
SMALL = (
    "train.steps=4", "train.batch=32", "train.checkpoint_every=2", "train.lora.dropout=0.1", "train.temperature=1.5",
    "tracking.uri=none",
)  # fmt: skip


@pytest.fixture(scope="module")
def own(demo_data, tmp_path_factory):
    """Overrides for a training of seconds."""
    folder = tmp_path_factory.mktemp("trl") / "data"
    draw(folder, 12, 5000, ("QD", "COCO"))
    return [f"data={demo_data}", f"train.data={folder}", *SMALL]


@pytest.fixture(scope="module")
def finished_run(own, tmp_path_factory):
    """A training that was never interrupted, with MLflow."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    done, lines = train(folder, [*own, "tracking.uri=sqlite"])
    assert done.steps == 4 and done.model == folder / "model.toml"
    assert "24 states (12 hidden, 0 middle, 12 clear), 4 steps of 4 states x 8 replies" in lines[0]
    return folder


def train(folder, overrides):
    lines = []
    return trainer.train(settings.load(DEMO, overrides), folder, lines.append), lines


def read_rollouts(folder):
    parts = [pl.read_parquet(part) for part in sorted((folder / ROLLOUTS).glob("steps-*.parquet"))]
    return pl.concat(parts, rechunk=True).sort("step", "group", maintain_order=True)


def adapter_bytes(folder):
    (adapter,) = folder.glob("adapter-*")
    return (adapter / "adapter_model.safetensors").read_bytes()


@pytest.fixture
def verdict_trainer(own, tmp_path):
    """A trainer before its first step, with a hint in half of each group."""
    return make_trainer(own, tmp_path)


def make_trainer(overrides, folder):
    from proactive_learn.verdict_trainer import VerdictTrainer, grpo_config

    training = settings.load(DEMO, overrides)
    states, options = load_training_states(training), training.train
    progress = TrainingProgress(training, folder, print)
    return VerdictTrainer(training, grpo_config(options, folder, 1), states, progress, Event())


def test_replies_to_hints_are_learnt_as_replies_to_the_plain_question(verdict_trainer):
    """Half of each group is sampled from the hinted question; tokens and pixels are those of a sweep's plain question."""
    asked = []
    sample = verdict_trainer._generate_single_turn

    def record(ids, *rest):
        asked.extend(ids)
        return sample(ids, *rest)

    verdict_trainer._generate_single_turn = record
    states, order = verdict_trainer.game_states, state_order(24, verdict_trainer.settings)
    rows = [verdict_trainer.train_dataset[number] for number in range(4) for _ in range(8)]
    learnt = verdict_trainer._generate_and_score_completions(rows)

    sweep_model = ModelAndProcessor(settings.transformers_spec(verdict_trainer.settings.model))
    plain = sweep_model.inputs([states[row["state_index"]].job() for row in rows])
    jobs = [states[row["state_index"]].job(hint=n % 8 >= 4) for n, row in enumerate(rows)]
    assert [row["state_index"] for row in rows[::8]] == order[:4]
    assert (learnt["prompt_ids"] == plain["input_ids"]).all()
    assert all((learnt[name] == plain[name]).all() for name in plain if name.startswith("pixel"))
    questions = sweep_model.inputs(jobs)
    assert [list(ids) for ids in asked] == [
        ids[mask.bool()].tolist() for ids, mask in zip(questions["input_ids"], questions["attention_mask"], strict=True)
    ]
    assert [row["variant"] for row in verdict_trainer.rows] == [*["plain"] * 4, *["hint"] * 4] * 4


def test_group_rewards_come_from_the_game(finished_run, own):
    rollouts = read_rollouts(finished_run)
    by_key = {state.key: state for state in load_training_states(settings.load(DEMO, own))}

    assert rollouts.schema == pl.Schema(ROLLOUT_SCHEMA) and rollouts.height == 4 * 32
    assert rollouts.filter(variant="hint").group_by("step").len().sort("step")["len"].to_list() == [16, 16]
    for row in rollouts.iter_rows(named=True):
        assert row["reward"] == by_key[row["state"]].outcome(row["reply"]).reward(0.5)
    for _, group in rollouts.group_by("step", "group"):
        rewards = group["reward"].to_list()
        expected = [(reward - mean(rewards)) / (stdev(rewards) + 1e-4) for reward in rewards]
        assert group["advantage"].to_list() == pytest.approx(expected, abs=1e-3)
    assert rollouts.group_by("step", "group").agg(pl.col("reward").n_unique() > 1)["reward"].sum() >= 2


def test_shuffled_rewards_stay_in_their_group(own, tmp_path):
    """The control: each group has the rewards of its replies, in another order."""
    control = make_trainer([*own, "train.shuffle_rewards=true"], tmp_path)
    states = [control.game_states[number // 8] for number in range(32)]
    tokens = control.student.tokenizer
    replies = [state.sample.answer if number % 8 < 3 else "nothing" for number, state in enumerate(states)]
    control.asked_states = states
    shuffled = control.rewards([tokens(reply, add_special_tokens=False)["input_ids"] for reply in replies])
    honest = [state.outcome(reply).reward(0.5) for state, reply in zip(states, replies, strict=True)]

    groups = [slice(start, start + 8) for start in range(0, 32, 8)]
    assert [sorted(shuffled[group]) for group in groups] == [sorted(honest[group]) for group in groups]
    assert shuffled != honest


def test_metrics_are_in_mlflow_once_a_step(finished_run):
    from mlflow.tracking import MlflowClient

    client = MlflowClient(f"sqlite:///{finished_run / 'mlflow.db'}")
    experiments = [each.experiment_id for each in client.search_experiments() if each.name == "demo-learning"]
    (run,) = client.search_runs(experiments)
    rollouts = read_rollouts(finished_run)
    points = client.get_metric_history(run.info.run_id, "reward")

    assert run.info.status == "FINISHED" and [point.step for point in points] == [0, 1, 2, 3]
    assert points[1].value == pytest.approx(rollouts.filter(step=1)["reward"].mean())


def test_a_training_goes_on_without_an_mlflow_that_fails(tmp_path, capsys):
    training = settings.load(DEMO, ["tracking.uri=sqlite:////proc/none/mlflow.db"])
    with TrainingProgress(training, tmp_path, print) as progress:
        progress.record(0, {"live_groups": 0.5})

    assert "the training continues without it" in capsys.readouterr().err


class Interrupt(BaseException):
    """Ends a training as a kill would."""


def act_at_step_3(monkeypatch, act):
    """Call ``act`` at the end of step 3."""
    from proactive_learn.verdict_trainer import StepCallback

    after = StepCallback.on_step_end

    def end_step(self, args, state, control, **kwargs):
        if state.global_step == 3:
            act()
        return after(self, args, state, control, **kwargs)

    monkeypatch.setattr(StepCallback, "on_step_end", end_step)


def test_a_killed_training_resumes_to_the_same_weights(finished_run, own, tmp_path, monkeypatch):
    def die():
        raise Interrupt

    with monkeypatch.context() as patched, pytest.raises(Interrupt):
        act_at_step_3(patched, die)
        train(tmp_path / "run", own)
    (tmp_path / "run" / "checkpoint-3").mkdir()
    done, lines = train(tmp_path / "run", own)

    assert done.model and "2 steps are already complete" in lines
    assert adapter_bytes(tmp_path / "run") == adapter_bytes(finished_run)
    assert read_rollouts(tmp_path / "run").equals(read_rollouts(finished_run))


def test_ctrl_c_keeps_a_checkpoint_and_a_damaged_one_is_refused(finished_run, own, tmp_path, monkeypatch):
    with monkeypatch.context() as patched:
        act_at_step_3(patched, lambda: os.kill(os.getpid(), signal.SIGINT))
        done, _ = train(tmp_path / "run", own)
    assert done == (None, 3) and not (tmp_path / "run/model.toml").exists()
    shown = load_training_states(settings.load(DEMO, own))[0]  # in step 4
    picture = shown.renderer.folder / shown.job().request.messages[0].images[0].path
    damaged = {tmp_path / "run/checkpoint-3/optimizer.pt": r"checkpoint-3 .* if it is damaged, remove it"}
    for path, reason in (damaged | {picture: rf"^{shown.key} cannot be shown"}).items():
        content = path.read_bytes()
        path.write_bytes(b"")
        with pytest.raises(TrainError, match=reason):
            train(tmp_path / "run", own)
        path.write_bytes(content)

    assert train(tmp_path / "run", own)[0].model and 4 in complete_checkpoints(tmp_path / "run")
    assert adapter_bytes(tmp_path / "run") == adapter_bytes(finished_run)


def test_a_layer_that_is_missing_is_named_with_those_there(own, tmp_path):
    with pytest.raises(TrainError, match=r"has no layer q_porj; name some of .*q_proj.* as train.lora.targets"):
        train(tmp_path / "run", [*own, 'train.lora.targets=["q_porj"]'])
