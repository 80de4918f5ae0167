"""Episodes by function calls: recorded episodes of multiple choice replay to the same transitions, endings and verdicts."""

import asyncio
from collections import Counter
from random import Random

import pytest

from actors.engine.backend import Request
from actors.playing.play import Episode, play
from envs import SCENARIOS
from envs.answers import as_letter, as_text, option_table
from envs.samples import load_samples
from envs.tool_calls import call_line
from envs.types import Action, Ending
from sweeps.load import build_cell
from sweeps.spec import Protocol
from tests.actors.scripted_backend import ScriptedBackend


def play_sample(sample, backend, protocol, seed) -> Episode:
    return asyncio.run(play(sample, build_cell(sample.scenario, "zero-shot", protocol=protocol), backend, "key", seed))


def recorded_reply(request: Request) -> str:
    """Return any option in a form that multiple choice reads: mostly a suggestion, sometimes nonsense."""
    random, view = Random(request.seed), request.situation.view
    choices = [*view.options, *view.categories]
    index = random.randrange(len(view.options) if view.options and random.random() < 0.8 else len(choices))
    letter, text = chr(65 + index), choices[index]
    ways = text, letter, f"{letter}. {text}", text.upper(), "I wonder."
    return random.choices(ways, (4, 4, 4, 4, 1))[0]


def as_call(request: Request) -> str:
    """Return the call for the option that multiple choice reads in this reply, or the reply itself if it reads none."""
    view, reply = request.situation.view, recorded_reply(request)
    text, mark = as_text(reply), as_letter(reply)
    sides = (view.options, 0), (view.categories, len(view.options))
    places = [(side, option_table(side, (), first).read(text, mark).chosen) for side, first in sides]
    option = next((side[place] for side, place in places if place >= 0), None)
    return next((call_line(call) for call, target in request.situation.calls if target == option), reply)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_recorded_episodes_replay_as_calls(demo_data, scenario):
    counts: Counter[str] = Counter()
    for sample in load_samples(demo_data, scenario)[:12]:
        for seed in range(1000 * sample.id, 1000 * sample.id + 12):
            recorded = play_sample(sample, ScriptedBackend(recorded_reply), Protocol.MCQA, seed)
            called = play_sample(sample, ScriptedBackend(as_call), Protocol.TOOLS, seed)
            turns = [(played_turn.turn, played_turn.image) for played_turn in recorded.turns]
            again = [(played_turn.turn, played_turn.image) for played_turn in called.turns]

            def facts(turn, image):
                return turn.frame, turn.option, turn.category, turn.action, turn.move, image

            assert [facts(*played_turn) for played_turn in again] == [facts(*played_turn) for played_turn in turns]
            assert called.ending is recorded.ending
            counts.update(turn.action for turn, _ in turns)
            counts[recorded.ending] += 1
    assert set(Action) <= set(counts) and {Ending.CORRECT, Ending.WRONG} <= set(counts)
