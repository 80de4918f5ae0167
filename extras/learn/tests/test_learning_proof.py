"""The embedded model learns to ask in two scenarios and then asks in the five others; the control does not learn it.

This is evidence about the training loop on a model of 1.7 M parameters whose asking habits were taught, and about no other.
"""

import os

import learning_proof as proof
import pytest

pytest.importorskip("trl", reason="the packages of proactive-sweep-learn are not installed")

from proactive_demo.drawing import draw
from proactive_learn import settings, trainer
from proactive_learn.commands import SWEEPS
from sweeps.load import load

pytestmark = [pytest.mark.slow, pytest.mark.long]
DEMO = SWEEPS / "demo-learning.toml"
SEEDS = tuple(map(int, os.environ.get("PROOF_SEEDS", "0").split(",")))
"""Training seeds; docs/learning.md has figures of 0 and 1."""
TRAINED_POINTS, UNSEEN_POINTS = 45, 15
SHORT = ("train.shuffle_rewards=true", "train.steps=20")
"""A control in a third of the steps: the honest training asks at 15% of the hidden views by then."""


@pytest.fixture(scope="module")
def test_data(tmp_path_factory):
    """Sixty held-out samples of each scenario."""
    folder = tmp_path_factory.mktemp("proof") / "test"
    draw(folder, samples=60 * 7, seed=910_000)
    return folder


def train(test_data, folder, seed, *overrides):
    """Train, and return what the trained model plays before and after."""
    draw(folder / "data", 320, 5_000 + 1_000 * seed, proof.TRAINED)
    own = (f"data={test_data}", f"train.data={folder / 'data'}", f"train.seed={seed}", "tracking.uri=none")
    outcome = trainer.train(settings.load(DEMO, [*own, *overrides]), folder / "run", lambda line: None)
    base, trained = load(DEMO, own[:1], [outcome.model]).models
    return proof.play(base, test_data), proof.play(trained, test_data)


@pytest.mark.parametrize("seed", SEEDS)
def test_training_teaches_asking_in_unseen_scenarios(test_data, tmp_path, seed):
    before, after = train(test_data, tmp_path, seed)
    trained, unseen = proof.gain(before, after, proof.TRAINED), proof.gain(before, after, proof.UNSEEN)
    print(f"\nseed {seed}: trained {trained}, unseen {unseen}, asks on clear views {proof.clear_asks(after):.1f}%")

    assert trained.points >= TRAINED_POINTS and unseen.points >= UNSEEN_POINTS and min(trained.low, unseen.low) > 0
    assert proof.clear_asks(after) < 5


def test_shuffled_rewards_teach_nothing(test_data, tmp_path):
    before, after = train(test_data, tmp_path, 0, *SHORT)

    assert proof.gain(before, after, proof.TRAINED).points < 8 and proof.gain(before, after, proof.UNSEEN).points < 8
