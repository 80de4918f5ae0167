"""Training with a real model: replies and their probabilities, kills and Ctrl-C, and the resulting model."""

import os
import signal
import subprocess
import sys
import threading
import time
import tomllib
from pathlib import Path
from random import Random

import polars as pl
import pytest

torch = pytest.importorskip("torch", reason="the extra `transformers` is not installed")
pytest.importorskip("transformers", reason="the extra `transformers` is not installed")
pytest.importorskip("peft", reason="the package peft is not installed")

from actors.engine.hf.backend import ModelAndProcessor, PreparedBatch  # noqa: E402
from orchestrator.learning import run_files, settings, trainer  # noqa: E402
from orchestrator.learning.evaluation import evaluate, greedy_replies, measures  # noqa: E402
from orchestrator.learning.plan import load_training_states  # noqa: E402
from orchestrator.learning.policy import Policy  # noqa: E402
from orchestrator.learning.rollouts import sample_episodes, sample_turns  # noqa: E402
from orchestrator.learning.settings import TrainError  # noqa: E402
from orchestrator.learning.states import Pool  # noqa: E402
from orchestrator.learning.trainer import PolicyOptimizer  # noqa: E402
from proactive_demo.drawing import draw  # noqa: E402
from sweeps.load import load  # noqa: E402
from tests.orchestrator.learning.rollout_files import read_rollouts  # noqa: E402

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[3]
DEMO = ROOT / "sweeps" / "demo-learning.toml"
SMALL = ("train.steps=6", "train.batch=16", "train.checkpoint_every=2", "tracking.uri=none", "train.lora.dropout=0.1")


@pytest.fixture(scope="module")
def learnt(tmp_path_factory):
    folder = tmp_path_factory.mktemp("learnt") / "data"
    draw(folder, 12, 5000, ("QD", "COCO"))
    return folder


@pytest.fixture(scope="module")
def own(demo_data, learnt):
    """Overrides for a training of seconds."""
    return [f"data={demo_data}", f"train.data={learnt}", *SMALL]


@pytest.fixture(scope="module")
def finished_run(own, tmp_path_factory):
    """The same training, never interrupted, with MLflow and an evaluation."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    overrides = ["tracking.uri=sqlite", "train.evaluate_every=6", "train.evaluate_samples=2"]
    assert run_training(folder, [*own, *overrides]).steps == 6
    return folder


@pytest.fixture(scope="module")
def policy(own):
    return Policy(settings.load(DEMO, own).train)


@pytest.fixture(scope="module")
def pool(own):
    training = settings.load(DEMO, own)
    return Pool(load_training_states(training), training.train.states)


def run_training(folder, overrides, say=lambda line: None):
    return trainer.train(settings.load(DEMO, overrides), folder, say)


def read_weights(folder):
    """Return the bytes of the trained adapter."""
    (adapter,) = folder.glob("adapter-*")
    return (adapter / "adapter_model.safetensors").read_bytes()


def test_shared_prompt_logprobs_match_full_sequences(policy, pool):
    jobs = [state.job() for state in pool.draw(3, Random(0))]
    groups = policy.sample(jobs, [3, 1, 2], 1.0, seed=5)
    index = [k for k, group in enumerate(groups) for _ in group]
    replies = [completion.tokens for group in groups for completion in group]
    policy.network.eval()
    logprobs, mask = policy.logprobs(policy.network, jobs, index, replies, False)
    alone = [whole_sequence(policy, jobs[k], reply) for k, reply in zip(index, replies, strict=True)]

    assert [len(group) for group in groups] == [3, 1, 2]
    assert (logprobs * mask).sum(1).tolist() == pytest.approx(alone, abs=2e-3)
    assert [completion.logprob for group in groups for completion in group] == pytest.approx(alone, abs=2e-3)


def whole_sequence(policy, job, reply):
    """Return the log-probability of a reply, from one pass over question and reply without cache or padding."""
    inputs = policy.model.inputs([job])
    prompt = inputs["input_ids"].shape[1]
    ids = torch.cat([inputs["input_ids"], torch.tensor([reply])], 1)
    pixels = {k: v for k, v in inputs.items() if k.startswith("pixel")}
    with torch.no_grad():
        logits = policy.network(input_ids=ids, attention_mask=torch.ones_like(ids), **pixels).logits[0]
    scores = logits[prompt - 1 : -1].float().log_softmax(-1)
    return float(scores.gather(-1, torch.tensor(reply)[:, None]).sum())


def test_seed_determines_sampled_replies(policy, pool):
    jobs = [state.job() for state in pool.draw(4, Random(1))]
    first, again = policy.sample(jobs, [4] * 4, 1.5, 1), policy.sample(jobs, [4] * 4, 1.5, 1)

    assert first == again != policy.sample(jobs, [4] * 4, 1.5, 2)
    assert policy.sample(jobs, [1] * 4, 0.0, 1) == policy.sample(jobs, [1] * 4, 0.0, 2)
    assert policy.text(policy.tokens("Cat.")) == "Cat." and policy.tokens("Cat.")[-1] == policy.end_token


def test_same_seed_gives_same_initial_adapter(own):
    again, reseeded = (Policy(settings.load(DEMO, [*own, f"train.seed={seed}"]).train) for seed in (0, 1))

    def same(first, second):
        return all(torch.equal(value, second.weights()[name]) for name, value in first.weights().items())

    assert again.weights() and same(again, Policy(again.train)) and not same(again, reseeded)


def test_rewarded_reply_becomes_likelier(own, pool):
    train = settings.load(DEMO, [*own, "train.kl=0.01"]).train
    policy = Policy(train)
    rollouts = sample_turns(policy, pool, train, 0)
    live = [r for r in rollouts if r.advantage is not None]
    best = max(live, key=lambda r: r.advantage)
    worst = min((r for r in live if r.group == best.group), key=lambda r: r.advantage)

    def odds():
        logprobs, mask = policy.logprobs(
            policy.network.eval(), [best.state.job()], [0, 0], [best.completion.tokens, worst.completion.tokens], False
        )
        first, second = (logprobs * mask).sum(1).tolist()
        return first - second

    before, optimizer = odds(), PolicyOptimizer(policy)
    for step in range(3):
        optimizer.step(step, live)

    assert odds() > before


def test_cloning_teaches_the_right_reply(own, pool):
    train = settings.load(DEMO, [*own, "train.exploration.clone=8"]).train
    policy = Policy(train)
    states = pool.draw(8, Random(3))

    def solution_logprob():
        replies = [policy.tokens(state.solution) for state in states]
        logprobs, mask = policy.logprobs(policy.network.eval(), [s.job() for s in states], range(8), replies, False)
        return float((logprobs * mask).sum())

    before, optimizer = solution_logprob(), PolicyOptimizer(policy)
    for step in range(-8, 0):
        optimizer.clone(step, pool)

    assert solution_logprob() > before + 1


def test_episode_turns_share_discounted_outcome(own, pool):
    train = settings.load(
        DEMO, [*own, "train.credit=episode", "train.gamma=0.5", "train.batch=64", "train.exploration.hint=0.75"]
    ).train
    rollouts = sample_episodes(Policy(train), pool, train, 0)

    assert len(rollouts) > 64 and {r.reward for r in rollouts} <= {0.0, *(0.5**k for k in range(16))}
    assert all(r.outcome.right for r in rollouts if r.reward == 1.0)
    assert any(0 < r.reward < 1 for r in rollouts)


def test_a_killed_training_gives_the_same_weights_bit_for_bit(finished_run, own, tmp_path):
    folder = tmp_path / "run"
    command = [sys.executable, "-m", "orchestrator", "train", str(DEMO), "--output", str(folder)]
    process = subprocess.Popen(
        [*command, *(f"--set={text}" for text in own)], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": str(torch.get_num_threads())},
    )  # fmt: skip
    wait_for(folder / run_files.CHECKPOINT, process)
    process.kill()
    process.wait()
    process.stderr.close()
    assert not (folder / run_files.MODEL).exists()
    lines = []
    done = run_training(folder, own, lines.append)

    assert done.model == folder / "model.toml" and "steps are already complete" in lines[1]
    assert read_weights(folder) == read_weights(finished_run)
    assert read_rollouts(folder).equals(read_rollouts(finished_run))


def wait_for(path, process=None):
    ends = time.monotonic() + 240
    while not path.exists():
        assert time.monotonic() < ends and (process is None or process.poll() is None), path
        time.sleep(0.02)


def test_ctrl_c_keeps_checkpoint_and_same_command_resumes(finished_run, own, tmp_path):
    folder = tmp_path / "run"

    def press():
        wait_for(folder / run_files.CHECKPOINT)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=press)
    thread.start()
    done = run_training(folder, own)
    thread.join()

    assert done.interrupted and 2 <= done.steps < 6 and not (folder / run_files.MODEL).exists()
    assert run_training(folder, own).model and read_weights(folder) == read_weights(finished_run)
    assert read_rollouts(folder).equals(read_rollouts(finished_run))


def test_rollouts_record_training_data(finished_run):
    rollouts = read_rollouts(finished_run)

    assert rollouts.height == 6 * 16 and rollouts["step"].unique().sort().to_list() == list(range(6))
    assert set(rollouts["kind"]) <= {"hidden", "clear"} and set(rollouts["variant"]) == {"plain", "hint"}
    assert set(rollouts.filter(pl.col("step") >= 3)["variant"]) == {"plain"}
    assert set(rollouts["reward"]) <= {0.0, 0.5, 1.0} and (rollouts["logprob"] <= 0).all()
    live = rollouts.drop_nulls("advantage").group_by("step", "group").agg(pl.col("advantage").sum())
    assert live["advantage"].abs().max() < 1e-9


def test_metrics_are_in_mlflow(finished_run):
    from mlflow.tracking import MlflowClient

    client = MlflowClient(f"sqlite:///{finished_run / 'mlflow.db'}")
    (experiment,) = [e for e in client.search_experiments() if e.name == "demo-learning"]
    (run,) = client.search_runs([experiment.experiment_id])
    history = client.get_metric_history(run.info.run_id, "live_groups")
    own = read_rollouts(finished_run).filter(pl.col("step") == 3)

    assert run.info.status == "FINISHED" and run.data.params["rp"] == "0.5"
    assert [point.step for point in history] == list(range(6))
    assert history[3].value == run_files.rollout_measures(own)["live_groups"]
    assert {"reward", "asks_hidden", "asks_clear", "acc_in_domain", "acc_out_of_domain"} <= run.data.metrics.keys()
    assert "asking_auc_in_domain" in run.data.metrics or "neutral_b_out_of_domain" in run.data.metrics


def test_a_sweep_plays_the_trained_model_as_it_was_trained(finished_run, own, pool):
    sweep = load(DEMO, own[:1], [finished_run / "model.toml"])
    before, after = sweep.models
    train = settings.load(DEMO, own).train
    policy = Policy(train)
    run_files.load_checkpoint(finished_run, policy, PolicyOptimizer(policy).adamw)
    states = pool.draw(12, Random(4))
    model = ModelAndProcessor(_home(after))
    jobs = [state.job() for state in states]
    replies = model.replies(PreparedBatch(jobs, model.inputs(jobs)))

    assert (before.name, after.name) == ("embedded", "embedded-run") and after.identity != before.identity
    assert [reply.text for reply in replies] == greedy_replies(policy, states)


def _home(model):
    from sweeps.package_models import resolve_source

    return resolve_source(model)


def test_other_settings_are_refused(finished_run, own):
    with pytest.raises(
        TrainError, match=r"holds a training with other settings: rp was 0\.5, now it is 0\.75; pass another"
    ):
        run_training(finished_run, [*own, "train.rp=0.75"])


def test_damaged_checkpoint_is_refused(own, tmp_path):
    train = settings.load(DEMO, own).train
    policy = Policy(train)
    (tmp_path / run_files.CHECKPOINT).write_bytes(b"PK nothing")

    with pytest.raises(TrainError, match=r"checkpoint.pt is damaged; remove it to start over"):
        run_files.load_checkpoint(tmp_path, policy, PolicyOptimizer(policy).adamw)


def test_missing_layers_are_refused(own, tmp_path):
    with pytest.raises(TrainError, match=r"the language model of embedded has no layer qkv; name some of .*q_proj"):
        run_training(tmp_path / "run", [*own, 'train.lora.targets=["qkv"]'])


def test_training_without_live_groups_suggests_remedy(own, tmp_path):
    lines = []
    cold = ["train.temperature=0.01", "train.exploration.hint=0", "train.steps=20", "train.batch=4", "train.rollouts=2"]
    run_training(tmp_path / "run", [*own, *cold, "train.checkpoint_every=20"], lines.append)

    (sentence,) = [line for line in lines if "model learns nothing" in line]
    assert "of the groups of the first 20 steps" in sentence and "train.exploration.hint = 0.5" in sentence


def test_every_weight_can_be_trained(own, tmp_path):
    overrides = ["train.full=true", "train.kl=0.1", "train.steps=1", "train.learning_rate=1e-4"]
    done = run_training(tmp_path / "run", [*own, *overrides])
    entry = tomllib.loads(done.model.read_text())["model"][0]

    assert "lora" not in entry and Path(entry["source"]).parent == (tmp_path / "run").resolve()
    assert ModelAndProcessor(load(DEMO, own[:1], [done.model]).models[1]).network is not None


def test_evaluation_counts_game_verdicts(policy, demo_data):
    evaluations = evaluate(policy, demo_data, ["QD", "IN-C"], 4, 0)
    measured = measures(evaluations, ["QD"])

    assert [len(evaluations["QD"].right), len(evaluations["IN-C"].suggestions)] == [4, 4]
    assert measured["acc_in_domain"] == 25 * sum(evaluations["QD"].right)
    assert measured["acc_out_of_domain"] == 25 * sum(evaluations["IN-C"].right)
