"""The embedded model learns to ask from two scenarios and asks in the five others; what takes the lesson away does not.

It is evidence about the training loop, on a model of 1.7 M parameters whose asking habits were taught: none about others.
"""

import os
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the extra `transformers` is not installed")
pytest.importorskip("peft", reason="the package peft is not installed")

from envs.demo import draw
from orchestrator.learning.evaluation import evaluate
from orchestrator.learning.policy import Policy
from tests.orchestrator.learning import proof

SEEDS = tuple(map(int, os.environ.get("PROOF_SEEDS", "0").split(",")))
"""Training seeds; docs/learning.md has the figures of 0, 1 and 2."""
TRAINED_POINTS, UNSEEN_POINTS = 40, 15


@pytest.fixture(scope="module")
def ground(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("proof")


@pytest.fixture(scope="module")
def held_out(ground) -> list[Path]:
    """102 held-out samples a scenario."""
    return proof.held_out(ground, 3)


@pytest.fixture(scope="module")
def before(ground, held_out):
    made = proof.training(held_out[0], proof.to_learn_from(ground, 0), 0)
    return proof.examined(Policy(made.train), held_out)


def verdict(ground, held_out, before, name, seed, more=()):
    """On as many folders as ``held_out`` has."""
    made = proof.training(held_out[0], proof.to_learn_from(ground, seed), seed, more)
    old = proof.merged(before[: len(held_out)])
    new = proof.merged(proof.examined(proof.taught(made, ground / name), held_out))
    found = proof.judged(old, new)
    print(f"\n{name}: {found}\n{proof.table(old, new)}")
    return found


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS)
def test_it_learns_to_ask_also_where_it_was_not_trained(ground, held_out, before, seed):
    found = verdict(ground, held_out, before, f"seed-{seed}", seed)

    assert found.passes(TRAINED_POINTS, UNSEEN_POINTS), str(found)


@pytest.mark.long
@pytest.mark.parametrize("name", proof.CONTROLS)
def test_no_control_passes(ground, held_out, before, name):
    """One folder (34 samples a scenario) tells where points are missing, all three whether clear views are."""
    folders = held_out if name == "cloning" else held_out[:1]
    found = verdict(ground, folders, before, name, 0, proof.CONTROLS[name])

    assert not found.passes(TRAINED_POINTS, UNSEEN_POINTS), str(found)


SHORT = (
    "train.batch=64", "train.steps=30", "train.warmup=2", "train.learning_rate=3e-3", "train.exploration.until=1.0",
    "train.checkpoint_every=30",
)  # fmt: skip
SHOWN = ("QD", "COCO", "ROD", "MVP-N")


@pytest.fixture(scope="module")
def short(ground):
    """Folders of 20 samples of four scenarios, and of 40 samples a scenario to learn from."""
    draw(ground / "short-test", 20 * len(SHOWN), proof.FIRST_TEST, SHOWN)
    return ground / "short-test", proof.to_learn_from(ground / "short", 0, 80)


@pytest.fixture(scope="module")
def short_before(short):
    test, learnt = short
    return evaluate(Policy(proof.training(test, learnt, 0).train), test, SHOWN, 20, 0)


def asks(found):
    """Of 80 samples, how many begin with a request for help."""
    return sum(sum(played.hidden_asks) for played in found.values())


def right(found, scenarios):
    """Of 40 episodes, how many end right."""
    return sum(sum(found[name].right) for name in scenarios)


def after_short(ground, short, name, more=()):
    test, learnt = short
    policy = proof.taught(proof.training(test, learnt, 0, [*SHORT, *more]), ground / f"short-{name}")
    return evaluate(policy, test, SHOWN, 20, 0)


@pytest.mark.slow
def test_a_short_training_learns_to_ask(ground, short, short_before):
    after = after_short(ground, short, "learnt")

    assert asks(after) >= asks(short_before) + 15
    assert right(after, proof.TRAINED) >= right(short_before, proof.TRAINED) + 8
    assert right(after, SHOWN[2:]) >= right(short_before, SHOWN[2:]) + 4
    assert all(sum(played.clear_asks) <= 2 for played in after.values())


@pytest.mark.slow
def test_rewards_that_are_shuffled_within_groups_teach_nothing(ground, short, short_before):
    after = after_short(ground, short, "shuffled", proof.CONTROLS["shuffled"])

    assert asks(after) < asks(short_before) + 8
    assert right(after, proof.TRAINED) < right(short_before, proof.TRAINED) + 4
