"""Baselines bound every table: the oracle from above; asking, guessing and chance from below."""

import asyncio
from collections import Counter

import pytest

from actors.engine.backend import Refused, Unprocessable
from actors.engine.baselines import Baseline
from actors.playing.play import play
from envs import SCENARIOS
from envs.foreign_suggestions import replace_suggestions
from envs.types import Action, Ending, Mode
from sweeps.conditions import CONDITIONS
from sweeps.load import build_cell
from tests.actors.scripted_backend import ScriptedBackend
from tests.envs.games import SAMPLES


def episode(scenario, backend, condition="zero-shot", seed=1):
    sample = SAMPLES[scenario]
    if CONDITIONS[condition].mode is Mode.RANDOM:
        sample = replace_suggestions(sample, seed)
    return asyncio.run(play(sample, build_cell(scenario, condition), backend, "key", seed))


@pytest.mark.parametrize("condition", ["zero-shot", "hint", "random-proactive", "reference", "history"])
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_oracle_is_always_right(scenario, condition):
    assert episode(scenario, Baseline("oracle"), condition).ending is Ending.CORRECT


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_always_ask_only_suggests_and_abstain_never_does(scenario):
    always_ask = episode(scenario, Baseline("always-ask"))
    assert {turn.turn.action for turn in always_ask.turns} <= {Action.SUGGESTION, Action.CATEGORY}
    assert len(always_ask.turns) > 1
    abstain = episode(scenario, Baseline("abstain"))
    assert [turn.turn.action for turn in abstain.turns] == [Action.ABSTENTION]


def test_uniform_takes_every_option_equally_often():
    replies = Counter(episode("QD", Baseline("uniform"), seed=seed).turns[0].turn.reply for seed in range(1200))

    assert len(replies) == len(SAMPLES["QD"].options) + 4
    assert max(replies.values()) < 2 * min(replies.values())


@pytest.mark.parametrize(("error", "ending"), [(Unprocessable, Ending.UNPROCESSABLE), (Refused, Ending.REFUSED)])
def test_unanswerable_request_ends_episode_with_reason(error, ending):
    def answer(request):
        if request.situation.state.turn:
            raise error("too small")
        return request.situation.view.options[0]

    failed_episode = episode("QD", ScriptedBackend(answer))
    assert (failed_episode.ending, failed_episode.error, len(failed_episode.turns)) == (ending, "too small", 1)
