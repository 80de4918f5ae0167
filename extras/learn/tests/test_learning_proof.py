"""The embedded model learns to ask in two scenarios and then asks in the five others; the control does not learn it.

This is evidence about the training loop on a model of 1.7 M parameters whose asking habits were taught, and about no other.
Held-out samples are drawn from seeds from 900000 up, training samples from 5000 up; the embedded model was made from neither.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

pytest.importorskip("trl", reason="the packages of proactive-sweep-learn are not installed")

from actors.engine.batching import PreparedBatch
from actors.engine.hf.backend import ModelAndProcessor
from envs import SCENARIOS
from envs.render import Renderer
from envs.samples import load_samples
from envs.scenario import suggestions
from envs.types import Action
from orchestrator.cli.sweep_source import read_models
from orchestrator.report.statistics.clustered import average_means, estimate_mean, t_interval
from proactive_demo.drawing import draw
from proactive_learn import settings, trainer
from proactive_learn.commands import SWEEPS
from proactive_learn.states import GameState, solution_path
from sweeps.load import load
from sweeps.spec import ModelSpec

pytestmark = [pytest.mark.slow, pytest.mark.long]
DEMO = SWEEPS / "demo-learning.toml"
SEEDS = tuple(map(int, os.environ.get("PROOF_SEEDS", "0").split(",")))
"""Training seeds; docs/learning.md has figures of 0 and 1."""
TRAINED_POINTS, UNSEEN_POINTS = 45, 15
SHORT = ("train.shuffle_rewards=true", "train.steps=20")
"""A control in a third of the steps: the honest training asks at 15% of the hidden views by then."""
TRAINED = ("QD", "COCO")
UNSEEN = tuple(name for name in SCENARIOS if name not in TRAINED)
AT_ONCE, MOST_TURNS = 64, 40


class Played(NamedTuple):
    """The outcome of greedy episodes of one scenario, one entry per sample."""

    right: list[bool]
    clear_asks: list[bool]
    """True if the reply to the clear view asks; only samples that still offer suggestions there."""


def play(model: ModelSpec, folder: Path, scenarios: Sequence[str] = tuple(SCENARIOS)) -> dict[str, Played]:
    """Play the samples of a data folder greedily."""
    loaded, renderer = ModelAndProcessor(settings.transformers_spec(model)), Renderer(folder)
    return {name: _play_scenario(loaded, name, folder, renderer) for name in scenarios}


def _play_scenario(model: ModelAndProcessor, name: str, folder: Path, renderer: Renderer) -> Played:
    samples, game = load_samples(folder, name), SCENARIOS[name]
    live = dict(enumerate(GameState(sample, game.initial(sample), "hidden", renderer) for sample in samples))
    right = [False] * len(samples)
    for _ in range(MOST_TURNS):
        replies = dict(zip(live, _replies(model, list(live.values())), strict=True))
        for number, reply in replies.items():
            state, _ = game.step(samples[number], live[number].state, reply)
            right[number] = live[number].outcome(reply).right
            live[number] = replace(live[number], state=state)
        live = {number: state for number, state in live.items() if state.state.ending is None}
        if not live:
            break
    clear = [solution_path(sample, renderer)[-1] for sample in samples]
    asks = [
        state.outcome(reply).action is Action.SUGGESTION
        for state, reply in zip(clear, _replies(model, clear), strict=True)
    ]
    offered = [bool(suggestions(game.offered(state.sample, state.state))) for state in clear]
    return Played(right, [ask for ask, offer in zip(asks, offered, strict=True) if offer])


def _replies(model: ModelAndProcessor, states: Sequence[GameState]) -> list[str]:
    replies: list[str] = []
    for start in range(0, len(states), AT_ONCE):
        jobs = [state.job() for state in states[start : start + AT_ONCE]]
        replies += [reply.text for reply in model.replies(PreparedBatch(jobs, model.inputs(jobs)))]
    return replies


class Gain(NamedTuple):
    """Points gained on the same samples, averaged over scenarios, with the paired 95% interval."""

    points: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.points:+.1f} [{self.low:.1f}, {self.high:.1f}]"


def gain(before: dict[str, Played], after: dict[str, Played], names: Sequence[str]) -> Gain:
    """Return the mean paired difference with its score interval; scenarios are strata."""
    strata = []
    for name in names:
        pairs = zip(after[name].right, before[name].right, strict=True)
        strata.append(estimate_mean(np.array([100 * (int(a) - int(b)) for a, b in pairs]), unit=100))
    return Gain(*t_interval(average_means(strata), -100, 100))


def clear_asks(after: dict[str, Played]) -> float:
    """Return the percentage of clear views with suggestions on offer at which the model still asks, over scenarios."""
    return 100 * float(np.mean([np.mean(played.clear_asks) for played in after.values() if played.clear_asks]))


@pytest.fixture(scope="module")
def test_data(tmp_path_factory):
    """Sixty held-out samples of each scenario."""
    folder = tmp_path_factory.mktemp("proof") / "test"
    draw(folder, samples=60 * 7, seed=910_000)
    return folder


def train(test_data, folder, seed, *overrides):
    """Train, and return what the trained model plays before and after."""
    draw(folder / "data", 320, 5_000 + 1_000 * seed, TRAINED)
    own = (f"data={test_data}", f"train.data={folder / 'data'}", f"train.seed={seed}", "tracking.uri=none")
    outcome = trainer.train(settings.load(DEMO, [*own, *overrides]), folder / "run", lambda line: None)
    base, trained = load(DEMO, own[:1], read_models([str(outcome.model)])).models
    return play(base, test_data), play(trained, test_data)


@pytest.mark.parametrize("seed", SEEDS)
def test_training_teaches_asking_in_unseen_scenarios(test_data, tmp_path, seed):
    before, after = train(test_data, tmp_path, seed)
    trained, unseen = gain(before, after, TRAINED), gain(before, after, UNSEEN)
    print(f"\nseed {seed}: trained {trained}, unseen {unseen}, asks on clear views {clear_asks(after):.1f}%")

    assert trained.points >= TRAINED_POINTS and unseen.points >= UNSEEN_POINTS and min(trained.low, unseen.low) > 0
    assert clear_asks(after) < 5


def test_shuffled_rewards_teach_nothing(test_data, tmp_path):
    before, after = train(test_data, tmp_path, 0, *SHORT)

    assert gain(before, after, TRAINED).points < 8 and gain(before, after, UNSEEN).points < 8
