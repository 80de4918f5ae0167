"""Measure what a training must show: greedy episodes before and after on held-out samples.

Held-out samples are drawn from seeds from 900000 up, training samples from 5000 up; the embedded model was made from neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from actors.engine.hf.backend import ModelAndProcessor, PreparedBatch
from envs import SCENARIOS
from envs.render import Renderer
from envs.samples import load_samples
from envs.scenario import suggestions
from envs.types import Action
from orchestrator.report.statistics.clustered import average_means, estimate_mean, t_interval
from proactive_learn.states import GameState, solution_path
from proactive_learn.student import transformers_spec
from sweeps.spec import ModelSpec

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
    loaded, renderer = ModelAndProcessor(transformers_spec(model)), Renderer(folder)
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
