"""The engine ``trl``: TRL's trainer asks what a sweep asks, is paid by the game's verdict, resumes, and spreads over workers."""

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
from envs.demo import draw
from orchestrator.learning import run_files, settings, trainer
from orchestrator.learning.evaluation import evaluate, measures
from orchestrator.learning.plan import load_training_states, state_order
from orchestrator.learning.policy import Policy
from orchestrator.learning.settings import TrainError
from orchestrator.learning.student import Student, transformers_spec
from orchestrator.learning.trl_engine import complete_checkpoints
from sweeps.load import load
from tests.conftest import ROOT

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


def trained(folder, overrides):
    told = []
    return trainer.train(settings.load(DEMO, overrides), folder, told.append), told


@pytest.fixture(scope="module")
def whole(own, tmp_path_factory):
    """A training that was never interrupted, with MLflow and evaluations."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    more = ["tracking.uri=sqlite", "train.evaluate_every=2", "train.evaluate_samples=2"]
    done, _ = trained(folder, [*own, *more])
    assert done.steps == 4 and done.model == folder / "model.toml"
    return folder


def test_the_trainer_reads_the_tokens_and_pixels_of_a_sweep(own, tmp_path):
    from threading import Event

    from orchestrator.learning.metrics_log import MetricsLog
    from orchestrator.learning.progress import TrainingProgress
    from orchestrator.learning.trl_trainer import VerdictTrainer, grpo_config

    made = settings.load(DEMO, own)
    found, train = load_training_states(made), made.train
    progress = TrainingProgress(train, MetricsLog(made.sweep, train, tmp_path), print)
    asked = VerdictTrainer(made, grpo_config(train, tmp_path), found, progress, Event())
    places = state_order(len(found), train)
    rows = [asked.train_dataset[k] for k in range(8)]
    prompts = [[{**m, "content": filled(m["content"], row["images"])} for m in row["prompt"]] for row in rows]
    ids, _, fields = asked._tokenize_prompts(prompts)
    mine = ModelAndProcessor(transformers_spec(train.model)).inputs([found[place].job() for place in places[:8]])

    assert [row["state_index"] for row in rows] == places[:8]
    assert [list(one) for one in ids] == [
        row[mask.bool()].tolist() for row, mask in zip(mine["input_ids"], mine["attention_mask"], strict=True)
    ]
    assert all((fields[name] == mine[name]).all() for name in mine if name.startswith("pixel"))


def filled(parts, images):
    images = iter(images)
    return [{"type": "image", "image": next(images)} if part["type"] == "image" else part for part in parts]


def test_a_group_is_paid_by_the_game(whole, own):
    found = run_files.read_rollouts(whole)
    by_key = {state.key: state for state in load_training_states(settings.load(DEMO, own))}
    live = found.drop_nulls("advantage")

    assert found.height == 4 * 32 and found["group"].max() == 3 and found.group_by("step", "group").len().height == 16
    for row in found.iter_rows(named=True):
        assert row["reward"] == by_key[row["state"]].outcome(row["reply"]).reward(0.5)
    assert live.height >= 8
    for _, group in live.group_by("step", "group"):
        rewards = group["reward"].to_list()
        expected = [(reward - mean(rewards)) / (stdev(rewards) + 1e-4) for reward in rewards]
        assert group["advantage"].to_list() == pytest.approx(expected, abs=1e-3)
    dead = found.filter(pl.col("advantage").is_null()).group_by("step", "group").agg(pl.col("reward").n_unique())
    assert set(dead["reward"]) <= {1}


def test_a_reply_is_stored_with_its_log_probability(whole, own):
    policy = Policy(settings.load(DEMO, own).train)
    by_key = {state.key: state for state in load_training_states(settings.load(DEMO, own))}
    rows = run_files.read_rollouts(whole)
    told = []
    for row in rows.filter(step=0).to_dicts():
        reply = policy.tokens(row["reply"])
        if len(reply) == row["tokens"]:
            told.append((row, reply))
    jobs = [by_key[row["state"]].job() for row, _ in told]
    expected, counted = policy.logprobs(policy.network.eval(), jobs, range(len(jobs)), [r for _, r in told], False)

    assert len(told) >= 16 and rows["logprob"].null_count() == 0 and (rows["logprob"] <= 0).all()
    assert [row["logprob"] for row, _ in told] == pytest.approx((expected * counted).sum(1).tolist(), abs=2e-3)


def test_evaluations_are_in_mlflow_and_are_those_of_the_trained_model(whole, own, demo_data):
    from mlflow.tracking import MlflowClient

    client = MlflowClient(f"sqlite:///{whole / 'mlflow.db'}")
    (run,) = client.search_runs([e.experiment_id for e in client.search_experiments() if e.name == "demo-learning"])
    history = {
        name: client.get_metric_history(run.info.run_id, name) for name in ("acc_in_domain", "acc_out_of_domain")
    }
    made = settings.load(DEMO, own)
    after = load(DEMO, own[:1], [whole / "model.toml"]).models[1]
    found = evaluate(
        Student(made.train.model_copy(update={"model": after})), demo_data, list(SCENARIOS), 2, made.sweep.seed
    )

    assert {tuple(point.step for point in points) for points in history.values()} == {(1, 3)}
    expected = measures(found, made.train.scenarios)
    assert {name: points[-1].value for name, points in history.items()} == {name: expected[name] for name in history}


def test_a_training_cut_off_after_a_checkpoint_gives_the_same_weights(whole, own, tmp_path, monkeypatch):
    from orchestrator.learning.trl_trainer import StepCallback

    after = StepCallback.on_step_end

    def cut(self, args, state, control, **more):
        if state.global_step == 3:
            raise KeyboardInterrupt
        return after(self, args, state, control, **more)

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(StepCallback, "on_step_end", cut)
        trained(tmp_path / "run", own)
    (tmp_path / "run" / "checkpoint-3").mkdir()
    done, told = trained(tmp_path / "run", own)

    assert done.model and "2 steps are already complete" in told
    assert adapter(tmp_path / "run").read_bytes() == adapter(whole).read_bytes()
    assert run_files.read_rollouts(tmp_path / "run").equals(run_files.read_rollouts(whole))
    assert sorted(complete_checkpoints(tmp_path / "run")) == [2, 4]


def test_ctrl_c_keeps_a_checkpoint_and_a_damaged_one_is_told(whole, own, tmp_path, monkeypatch):
    from orchestrator.learning.trl_trainer import StepCallback

    after = StepCallback.on_step_end

    def pressed(self, args, state, control, **more):
        if state.global_step == 3:
            os.kill(os.getpid(), signal.SIGINT)
        return after(self, args, state, control, **more)

    with monkeypatch.context() as patched:
        patched.setattr(StepCallback, "on_step_end", pressed)
        done, _ = trained(tmp_path / "run", own)
    assert done.interrupted and done.steps == 3 and not (tmp_path / "run/model.toml").exists()
    held = tmp_path / "run/checkpoint-3/optimizer.pt"
    content = held.read_bytes()
    held.write_bytes(b"")
    with pytest.raises(TrainError, match=r"checkpoint-3 is damaged \(EOFError.*; remove it to resume from"):
        trained(tmp_path / "run", own)
    held.write_bytes(content)

    assert trained(tmp_path / "run", own)[0].model
    assert adapter(tmp_path / "run").read_bytes() == adapter(whole).read_bytes()


def adapter(folder):
    (place,) = folder.glob("adapter-*")
    return place / "adapter_model.safetensors"


def test_a_sweep_plays_what_was_trained(whole, own):
    entry = tomllib.loads((whole / "model.toml").read_text())["model"][0]
    before, after = (
        ModelAndProcessor(transformers_spec(model)) for model in load(DEMO, own[:1], [whole / "model.toml"]).models
    )
    jobs = [state.job() for state in load_training_states(settings.load(DEMO, own))[:8]]
    tensors = before.inputs(jobs)

    assert Path(entry["lora"]) == adapter(whole).parent.resolve()
    assert before.replies(PreparedBatch(jobs, before.inputs(jobs)))
    assert (before.network(**tensors).logits - after.network(**tensors).logits).abs().max() > 1e-4


def test_two_workers_of_ray_train_share_a_step(cli, own, tmp_path):
    """Also where the data are named from here, as a user names them: workers of Ray Train start elsewhere."""
    folders = [f"{key}={os.path.relpath(folder, ROOT)}" for key, folder in (one.split("=", 1) for one in own[:2])]
    given = [
        *folders,
        *own[2:],
        "train.workers=2",
        "train.steps=2",
        "train.evaluate_every=2",
        "train.evaluate_samples=2",
    ]
    done = cli.run("train", DEMO, "--output", tmp_path / "run", *(f"--set={one}" for one in given), timeout=280)
    found = run_files.read_rollouts(tmp_path / "run")

    assert done.returncode == 0 and "24 states (12 hidden" in done.stdout and "step 2 of 2" in done.stdout, done.stderr
    assert found.height == 2 * 32 and adapter(tmp_path / "run").exists()
    groups = found.group_by("step", "group").agg(pl.len(), pl.col("state").n_unique())
    assert groups["len"].to_list() == [8] * 8 and groups["state"].to_list() == [1] * 8


def test_ctrl_c_ends_several_workers_and_the_last_checkpoint_stays(cli, own, tmp_path):
    given = [f"--set={one}" for one in (*own, "train.workers=2", "train.steps=400")]
    run = cli.start("train", DEMO, "--output", tmp_path / "run", *given)
    deadline = time.monotonic() + 280
    while not list((tmp_path / "run").glob("checkpoint-*/trainer_state.json")) and time.monotonic() < deadline:
        assert run.poll() is None
        time.sleep(0.2)
    run.send_signal(signal.SIGINT)
    out, err = run.communicate(timeout=120)

    assert run.returncode == 130 and "Traceback" not in err
    steps = max(complete_checkpoints(tmp_path / "run"))
    assert f"stopped after {steps} steps; rerun the same command to resume" in out


def test_a_failed_worker_is_one_sentence(cli, own, tmp_path):
    given = [*own, "train.workers=2", 'train.lora.targets=["q_porj"]']
    done = cli.run("train", DEMO, "--output", tmp_path / "run", *(f"--set={one}" for one in given), timeout=280)

    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert "a worker of the training failed: " in done.stderr and "has no layer q_porj" in done.stderr
