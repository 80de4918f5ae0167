"""Exact chance agrees with three hundred simulated runs, without simulation."""

import numpy as np
import pytest

from actors.engine.backend import Situation
from actors.engine.baselines import POLICIES as BASELINES
from actors.playing.judge import derive_seed
from envs import SCENARIOS
from envs.chance import episode_seed
from envs.types import Ending, Mode
from orchestrator.report.measures.exact_chance import blind_play

RUNS = 300


def simulate_accuracy(sample, mode: Mode) -> float:
    """Return the share of runs, each with its own seed, in which the baseline is right."""
    game, right = SCENARIOS[sample.scenario], 0
    moves = episode_seed(0, sample.scenario, sample.id)
    for run in range(RUNS):
        seed, state = episode_seed(run, sample.scenario, sample.id), game.initial(sample, mode, moves)
        while state.ending is None:
            now = Situation(sample, state, game.view(sample, state))
            state, _ = game.step(sample, state, BASELINES["uniform"](now, derive_seed(seed, state.turn)))
        right += state.ending is Ending.CORRECT
    return right / RUNS


@pytest.mark.parametrize("mode", [Mode.PLAY, Mode.REFERENCE])
def test_exact_chance_is_mean_of_simulated_runs(run_data, mode):
    for scenario, samples in run_data.samples.items():
        some = list(samples.values())[:4]
        exact = np.array([blind_play(sample, mode).right for sample in some])
        simulated_mean = np.mean([simulate_accuracy(sample, mode) for sample in some])
        error = np.sqrt((exact * (1 - exact)).mean() / (RUNS * len(some)))
        assert simulated_mean == pytest.approx(exact.mean(), abs=4 * error + 1e-9), scenario
