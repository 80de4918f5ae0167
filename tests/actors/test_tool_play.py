"""Episodes by function calls: recorded episodes of multiple choice replay to the same transitions, endings and verdicts."""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random

import pytest

from actors.engine.backend import Refused, Request, ScriptedBackend
from actors.engine.baselines import MALFORMED, Baseline
from actors.engine.chat_format import function_schema
from actors.playing.play import Episode, play
from actors.playing.records import PlayedEpisode, episode_batch
from envs import SCENARIOS
from envs.answers import as_letter, as_text, option_table
from envs.samples import load_samples
from envs.tool_calls import call_line, parse_call
from envs.types import Action, CalledTurn, Ending
from sweeps.conditions import CONDITIONS, VARIANTS
from sweeps.endpoint import Endpoint
from sweeps.spec import Cell, ModelSpec, Protocol
from tests.envs.games import SAMPLES

POLICY = ModelSpec(name="m", source="builtin:oracle", backend="builtin")
SERVED = ModelSpec(name="s", source="served", backend="openai", endpoint=Endpoint(base_url="http://127.0.0.1:9/v1"))


def played(sample, backend, protocol=Protocol.TOOLS, condition="zero-shot", seed=9, model=POLICY) -> Episode:
    known = {**CONDITIONS, **VARIANTS}[condition]
    cell = Cell(model=model, scenario=sample.scenario, condition=known, protocol=protocol)
    return asyncio.run(play(sample, cell, backend, "key", seed))


def some(request: Request) -> str:
    """A recorded reply: any option in one of the ways that multiple choice reads, mostly a suggestion, at times nonsense."""
    random, view = Random(request.seed), request.situation.view
    shown = [*view.options, *view.categories]
    index = random.randrange(len(view.options) or len(shown)) if random.random() < 0.8 else random.randrange(len(shown))
    ways = (shown[index], chr(65 + index), f"{chr(65 + index)}. {shown[index]}", shown[index].upper(), "I wonder.")
    return random.choices(ways, (4, 4, 4, 4, 1))[0]


def as_call(request: Request) -> str:
    """The same reply as the call for the option that multiple choice reads in it, or as it stands where it reads none."""
    view, said = request.situation.view, some(request)
    text, mark = as_text(said), as_letter(said)
    chosen = option_table(view.options, (), 0).read(text, mark).chosen
    named = option_table(view.categories, (), len(view.options)).read(text, mark).chosen
    option = view.options[chosen] if chosen >= 0 else view.categories[named] if named >= 0 else None
    return next((call_line(call) for call, told in request.situation.calls if told == option), said)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_recorded_episodes_replay_as_calls_to_the_same_transitions_endings_and_verdicts(demo_data, scenario):
    seen: Counter[str] = Counter()
    for sample in load_samples(demo_data, scenario)[:12]:
        for seed in range(1000 * sample.id, 1000 * sample.id + 12):
            recorded = played(sample, ScriptedBackend(some), Protocol.MCQA, seed=seed)
            called = played(sample, ScriptedBackend(as_call), seed=seed)
            turns = [(one.turn, one.image) for one in recorded.turns]
            again = [(one.turn.turn, one.image) for one in called.turns]

            def facts(turn, image):
                return turn.frame, turn.option, turn.category, turn.action, turn.move, image

            assert [facts(*one) for one in again] == [facts(*one) for one in turns]
            assert called.ending is recorded.ending
            seen.update(turn.action for turn, _ in turns)
            seen[recorded.ending] += 1
    assert set(Action) <= set(seen) and {Ending.CORRECT, Ending.WRONG} <= set(seen)


@pytest.mark.parametrize("condition", ["zero-shot", "hint", "reference", "budget", "shuffled", "text-only"])
def test_policies_take_by_calls_the_turns_that_they_take_by_letters(condition):
    for sample in SAMPLES.values():
        for name in ("oracle", "always-ask", "abstain", "uniform", "guess"):
            one, other = (
                played(sample, Baseline(name), protocol, condition) for protocol in (Protocol.MCQA, Protocol.TOOLS)
            )
            assert (one.ending, len(one.turns)) == (other.ending, len(other.turns)), (sample.scenario, name)
            if other.turns[0].turn.option:
                assert parse_call(other.turns[0].reply.text).name


@pytest.mark.parametrize("reply", MALFORMED)
def test_a_malformed_call_is_stored_as_it_came_and_counted_as_unparsable(reply):
    cell = Cell(model=POLICY, scenario="ROD", condition=CONDITIONS["zero-shot"], protocol=Protocol.TOOLS)
    episode = played(SAMPLES["ROD"], ScriptedBackend(lambda request: reply))
    batch = episode_batch([PlayedEpisode(0, cell, episode)])

    assert (batch.episodes["ending"], batch.episodes["unparsable"], batch.episodes["correct"]) == (
        ["wrong"],
        [1],
        [False],
    )
    assert batch.turns["reply"] == [reply] and batch.turns["read_as"] == [""] and batch.turns["judged"] == [None]


def test_a_service_is_sent_functions_and_a_policy_reads_them_in_the_prompt():
    heard: list[Request] = []
    listening = ScriptedBackend(lambda request: heard.append(request) or "abstain()")
    text, native = (played(SAMPLES["COCO"], listening, model=model, condition="hint") for model in (POLICY, SERVED))

    assert isinstance(text.turns[0].turn, CalledTurn) and native.ending is Ending.WRONG
    assert not heard[0].tools and 'move_camera(direction: "left" | "up")' in heard[0].messages[0].text
    assert [one.name for one in heard[1].tools] == ["move_camera", "abstain", "answer"]
    assert "move_camera" not in heard[1].messages[0].text and "Hint: " in heard[1].messages[0].text
    told = function_schema(heard[1].tools[0])["function"]["parameters"]
    assert told["properties"] == {"direction": {"type": "string", "enum": ["left", "up"]}} and told["required"] == [
        "direction"
    ]


def test_a_refusal_ends_the_episode_as_in_multiple_choice():
    def refuse(request: Request) -> str:
        raise Refused("no")

    assert played(SAMPLES["QD"], ScriptedBackend(refuse)).ending is Ending.REFUSED
