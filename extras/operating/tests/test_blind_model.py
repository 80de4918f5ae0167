"""A language model that sees no picture asks as often where it can know as where it cannot: SmolLM2, AUC .5."""

import asyncio
import math

import numpy as np
import pytest

pytest.importorskip("torch", reason="the extra `transformers` is not installed")
pytest.importorskip("transformers", reason="the extra `transformers` is not installed")

from actors.engine.registry import open_engine
from actors.playing.play import play
from envs import SCENARIOS
from envs.samples import load_samples
from orchestrator.inspection.model_check import local_fault
from proactive_operating.jackknife import LeftOut, jackknife_interval, leave_out_weights
from proactive_operating.knowledge import Signals, detect_draws
from proactive_operating.option_scores import ScoredReply
from proactive_operating.policy import log_odds, make_policy
from proactive_operating.state_graph import build_graph
from sweeps.conditions import VARIANTS
from sweeps.registry import registry
from sweeps.spec import Cell

BLIND = VARIANTS["every-state"].model_copy(update={"picture": "none"})
SAME_TEXT = ("VSOD", "MVP-N", "QD")
"""Scenarios that offer the same options at every state: their text does not say what can be known."""
SAMPLES = 4
SMOLLM2 = registry()["smollm2-135m"]


def probabilities(episode):
    """The options' probabilities at each question, as the engine scored them."""
    replies = [turn.reply for turn in episode.turns]
    assert episode.error is None and all(isinstance(reply, ScoredReply) for reply in replies)
    return [np.array([math.exp(option.log_probability) for option in reply.options[:-1]]) for reply in replies]


async def play_all(data):
    engine = open_engine(SMOLLM2, data)
    try:
        return [
            await play(sample, Cell(model=SMOLLM2, scenario=name, condition=BLIND), engine, "key", 1)
            for name in SAME_TEXT
            for sample in load_samples(data, name)[:SAMPLES]
        ]
    finally:
        await engine.close()


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.skipif(bool(local_fault(SMOLLM2)), reason="`proactive-sweep models fetch smollm2-135m` was not run")
def test_a_blind_model_has_no_knowledge_of_when_to_ask(demo_data):
    sample, odds, known = [], [], []
    for number, episode in enumerate(asyncio.run(play_all(demo_data))):
        graph = build_graph(episode.sample, BLIND)
        policy = make_policy(graph, probabilities(episode), [-2] * len(graph.questions))
        assert 0.0 < sum(question.probabilities.sum() for question in policy) <= len(policy) + 1e-6
        game, state = SCENARIOS[episode.sample.scenario], SCENARIOS[episode.sample.scenario].initial(episode.sample)
        while state.ending is None:  # the way of a player who asks until the answer is visible
            question = next(
                n for n, q in enumerate(graph.questions) if q.view.options == game.offered(graph.sample, state)
            )
            sample.append(number)
            odds.append(log_odds(policy[question]))
            known.append(game.telling(graph.sample, state))
            state, _ = game.step(graph.sample, state, game.solve(graph.sample, state))
    size = len(SAME_TEXT) * SAMPLES
    left_out, sizes = leave_out_weights([str(number) for number in range(size)])
    weights = np.concatenate([np.full((1, size), 1 / size), left_out])
    auc, _ = detect_draws(Signals(np.array(sample), np.array(odds), np.zeros(len(odds))), np.array(known), weights)
    value, low, high = jackknife_interval(float(auc[0]), [LeftOut(auc[1:], sizes)], 0.0, 1.0)
    print(f"AUC of {SMOLLM2.name}: {value:.3f} [{low:.3f}, {high:.3f}] in {len(odds)} states of {size} samples")
    assert low <= 0.5 <= high and high - low < 0.4
