"""The ``trl`` engine: TRL's trainer asks a sweep's questions, is rewarded by the game's verdict, resumes and uses workers."""

import os
import signal
import time
import tomllib
from pathlib import Path
from statistics import mean, stdev

import polars as pl
import pytest

pytest.importorskip("torch", reason="the extra `transformers` is not installed")
pytest.importorskip("trl", reason="the package trl is not installed")

from actors.engine.hf.backend import ModelAndProcessor, PreparedBatch
from envs import SCENARIOS
from orchestrator.learning import settings, trainer
from orchestrator.learning.evaluation import evaluate, measures
from orchestrator.learning.plan import load_training_states, state_order
from orchestrator.learning.policy import Policy
from orchestrator.learning.settings import TrainError
from orchestrator.learning.student import Student, transformers_spec
from orchestrator.learning.trl_engine import complete_checkpoints
from proactive_demo.drawing import draw
from sweeps.load import load
from tests.conftest import ROOT
from tests.orchestrator.learning.rollout_files import read_rollouts

pytestmark = pytest.mark.long
DEMO = Path(__file__).parents[3] / "sweeps" / "demo-learning.toml"
SMALL = (
    "train.engine=trl", "train.exploration.hint=0", "train.steps=4", "train.batch=32", "train.checkpoint_every=2",
    "train.lora.dropout=0.1", "train.temperature=1.5", "tracking.uri=none",
)  # fmt: skip


@pytest.fixture(scope="module")
def own(demo_data, tmp_path_factory):
    """Overrides for a training of seconds."""
    folder = tmp_path_factory.mktemp("trl") / "data"
    draw(folder, 12, 5000, ("QD", "COCO"))
    return [f"data={demo_data}", f"train.data={folder}", *SMALL]


def run_training(folder, overrides):
    lines = []
    return trainer.train(settings.load(DEMO, overrides), folder, lines.append), lines


@pytest.fixture(scope="module")
def finished_run(own, tmp_path_factory):
    """A training that was never interrupted, with MLflow and evaluations."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    overrides = ["tracking.uri=sqlite", "train.evaluate_every=2", "train.evaluate_samples=2"]
    done, _ = run_training(folder, [*own, *overrides])
    assert done.steps == 4 and done.model == folder / "model.toml"
    return folder


def test_trainer_reads_tokens_and_pixels_of_sweep(own, tmp_path):
    from threading import Event

    from orchestrator.learning.progress import MetricsLog, TrainingProgress
    from orchestrator.learning.trl_trainer import VerdictTrainer, grpo_config

    training = settings.load(DEMO, own)
    states, train = load_training_states(training), training.train
    progress = TrainingProgress(train, MetricsLog(training.sweep, train, tmp_path), print)
    verdict_trainer = VerdictTrainer(training, grpo_config(train, tmp_path), states, progress, Event())
    order = state_order(len(states), train)
    rows = [verdict_trainer.train_dataset[k] for k in range(8)]
    prompts = [[{**m, "content": insert_images(m["content"], row["images"])} for m in row["prompt"]] for row in rows]
    ids, _, fields = verdict_trainer._tokenize_prompts(prompts)
    expected = ModelAndProcessor(transformers_spec(train.model)).inputs([states[index].job() for index in order[:8]])

    assert [row["state_index"] for row in rows] == order[:8]
    assert [list(tokens) for tokens in ids] == [
        row[mask.bool()].tolist() for row, mask in zip(expected["input_ids"], expected["attention_mask"], strict=True)
    ]
    assert all((fields[name] == expected[name]).all() for name in expected if name.startswith("pixel"))


def insert_images(parts, images):
    images = iter(images)
    return [{"type": "image", "image": next(images)} if part["type"] == "image" else part for part in parts]


def test_group_rewards_come_from_game(finished_run, own):
    rollouts = read_rollouts(finished_run)
    by_key = {state.key: state for state in load_training_states(settings.load(DEMO, own))}
    live = rollouts.drop_nulls("advantage")

    assert (
        rollouts.height == 4 * 32
        and rollouts["group"].max() == 3
        and rollouts.group_by("step", "group").len().height == 16
    )
    for row in rollouts.iter_rows(named=True):
        assert row["reward"] == by_key[row["state"]].outcome(row["reply"]).reward(0.5)
    assert live.height >= 8
    for _, group in live.group_by("step", "group"):
        rewards = group["reward"].to_list()
        expected = [(reward - mean(rewards)) / (stdev(rewards) + 1e-4) for reward in rewards]
        assert group["advantage"].to_list() == pytest.approx(expected, abs=1e-3)
    dead = rollouts.filter(pl.col("advantage").is_null()).group_by("step", "group").agg(pl.col("reward").n_unique())
    assert set(dead["reward"]) <= {1}


def test_a_reply_is_stored_with_its_log_probability(finished_run, own):
    policy = Policy(settings.load(DEMO, own).train)
    by_key = {state.key: state for state in load_training_states(settings.load(DEMO, own))}
    rows = read_rollouts(finished_run)
    replies = []
    for row in rows.filter(step=0).to_dicts():
        reply = policy.tokens(row["reply"])
        if len(reply) == row["tokens"]:
            replies.append((row, reply))
    jobs = [by_key[row["state"]].job() for row, _ in replies]
    expected, mask = policy.logprobs(policy.network.eval(), jobs, range(len(jobs)), [r for _, r in replies], False)

    assert len(replies) >= 16 and rows["logprob"].null_count() == 0 and (rows["logprob"] <= 0).all()
    assert [row["logprob"] for row, _ in replies] == pytest.approx((expected * mask).sum(1).tolist(), abs=2e-3)


def test_mlflow_evaluations_are_of_trained_model(finished_run, own, demo_data):
    from mlflow.tracking import MlflowClient

    client = MlflowClient(f"sqlite:///{finished_run / 'mlflow.db'}")
    (run,) = client.search_runs([e.experiment_id for e in client.search_experiments() if e.name == "demo-learning"])
    history = {
        name: client.get_metric_history(run.info.run_id, name) for name in ("acc_in_domain", "acc_out_of_domain")
    }
    training = settings.load(DEMO, own)
    after = load(DEMO, own[:1], [finished_run / "model.toml"]).models[1]
    evaluations = evaluate(
        Student(training.train.model_copy(update={"model": after})), demo_data, list(SCENARIOS), 2, training.sweep.seed
    )

    assert {tuple(point.step for point in points) for points in history.values()} == {(1, 3)}
    expected = measures(evaluations, training.train.scenarios)
    assert {name: points[-1].value for name, points in history.items()} == {name: expected[name] for name in history}


def test_interrupted_training_gives_same_weights(finished_run, own, tmp_path, monkeypatch):
    from orchestrator.learning.trl_trainer import StepCallback

    after = StepCallback.on_step_end

    def interrupt(self, args, state, control, **kwargs):
        if state.global_step == 3:
            raise KeyboardInterrupt
        return after(self, args, state, control, **kwargs)

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(StepCallback, "on_step_end", interrupt)
        run_training(tmp_path / "run", own)
    (tmp_path / "run" / "checkpoint-3").mkdir()
    done, lines = run_training(tmp_path / "run", own)

    assert done.model and "2 steps are already complete" in lines
    assert adapter_file(tmp_path / "run").read_bytes() == adapter_file(finished_run).read_bytes()
    assert read_rollouts(tmp_path / "run").equals(read_rollouts(finished_run))
    assert sorted(complete_checkpoints(tmp_path / "run")) == [2, 4]


def test_ctrl_c_keeps_checkpoint_and_damaged_one_is_refused(finished_run, own, tmp_path, monkeypatch):
    from orchestrator.learning.trl_trainer import StepCallback

    after = StepCallback.on_step_end

    def press_ctrl_c(self, args, state, control, **kwargs):
        if state.global_step == 3:
            os.kill(os.getpid(), signal.SIGINT)
        return after(self, args, state, control, **kwargs)

    with monkeypatch.context() as patched:
        patched.setattr(StepCallback, "on_step_end", press_ctrl_c)
        done, _ = run_training(tmp_path / "run", own)
    assert done.interrupted and done.steps == 3 and not (tmp_path / "run/model.toml").exists()
    path = tmp_path / "run/checkpoint-3/optimizer.pt"
    content = path.read_bytes()
    path.write_bytes(b"")
    with pytest.raises(TrainError, match=r"checkpoint-3 is damaged \(EOFError.*; remove it to resume from"):
        run_training(tmp_path / "run", own)
    path.write_bytes(content)

    assert run_training(tmp_path / "run", own)[0].model
    assert adapter_file(tmp_path / "run").read_bytes() == adapter_file(finished_run).read_bytes()


def adapter_file(folder):
    (adapter_folder,) = folder.glob("adapter-*")
    return adapter_folder / "adapter_model.safetensors"


def test_sweep_plays_trained_model(finished_run, own):
    entry = tomllib.loads((finished_run / "model.toml").read_text())["model"][0]
    before, after = (
        ModelAndProcessor(transformers_spec(model))
        for model in load(DEMO, own[:1], [finished_run / "model.toml"]).models
    )
    jobs = [state.job() for state in load_training_states(settings.load(DEMO, own))[:8]]
    tensors = before.inputs(jobs)

    assert Path(entry["lora"]) == adapter_file(finished_run).parent.resolve()
    assert before.replies(PreparedBatch(jobs, before.inputs(jobs)))
    assert (before.network(**tensors).logits - after.network(**tensors).logits).abs().max() > 1e-4


def test_two_workers_of_ray_train_share_a_step(cli, own, tmp_path):
    """Data paths are relative to the current folder, as a user gives them; Ray Train workers start elsewhere."""
    folders = [
        f"{key}={os.path.relpath(folder, ROOT)}" for key, folder in (override.split("=", 1) for override in own[:2])
    ]
    overrides = [
        *folders,
        *own[2:],
        "train.workers=2",
        "train.steps=2",
        "train.evaluate_every=2",
        "train.evaluate_samples=2",
    ]
    done = cli.run(
        "train", DEMO, "--output", tmp_path / "run", *(f"--set={override}" for override in overrides), timeout=280
    )
    rollouts = read_rollouts(tmp_path / "run")

    assert done.returncode == 0 and "24 states (12 hidden" in done.stdout and "step 2 of 2" in done.stdout, done.stderr
    assert rollouts.height == 2 * 32 and adapter_file(tmp_path / "run").exists()
    groups = rollouts.group_by("step", "group").agg(pl.len(), pl.col("state").n_unique())
    assert groups["len"].to_list() == [8] * 8 and groups["state"].to_list() == [1] * 8


def test_ctrl_c_ends_workers_and_keeps_last_checkpoint(cli, own, tmp_path):
    options = [f"--set={override}" for override in (*own, "train.workers=2", "train.steps=400")]
    run = cli.start("train", DEMO, "--output", tmp_path / "run", *options)
    deadline = time.monotonic() + 280
    while not list((tmp_path / "run").glob("checkpoint-*/trainer_state.json")) and time.monotonic() < deadline:
        assert run.poll() is None
        time.sleep(0.2)
    run.send_signal(signal.SIGINT)
    out, err = run.communicate(timeout=120)

    assert run.returncode == 130 and "Traceback" not in err
    steps = max(complete_checkpoints(tmp_path / "run"))
    assert f"stopped after {steps} steps; rerun the same command to resume" in out


def test_failed_worker_is_reported_without_traceback(cli, own, tmp_path):
    overrides = [*own, "train.workers=2", 'train.lora.targets=["q_porj"]']
    done = cli.run(
        "train", DEMO, "--output", tmp_path / "run", *(f"--set={override}" for override in overrides), timeout=280
    )

    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert "a worker of the training failed: " in done.stderr and "has no layer q_porj" in done.stderr
