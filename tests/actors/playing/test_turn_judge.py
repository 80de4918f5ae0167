"""Open-ended episodes of several turns: a judge reads each answer before the next picture; without a verdict there is no zero."""

from __future__ import annotations

import asyncio

import pytest

from actors.engine.backend import BackendDied, Refused, Request, ScriptedBackend
from actors.engine.baselines import Baseline
from actors.playing.play import Episode, play
from actors.playing.records import PlayedEpisode, episode_batch
from actors.playing.turn_judge import TurnJudge, turn_judge_key
from envs import SCENARIOS
from envs.stimulus import OPEN_ENDED_HINT
from envs.types import Ending, JudgedTurn
from sweeps.conditions import CONDITIONS
from sweeps.load import build_judge as load_judge
from sweeps.sampling import Sampling
from sweeps.spec import Cell, ModelSpec, Protocol
from tests.envs.games import SAMPLES

MODEL = ModelSpec(name="m", source="builtin:refuse", backend="builtin")
JUDGE = load_judge({"model": "rule-judge", "attempts": 2}, "a test")


def cell(scenario: str, condition: str = "zero-shot") -> Cell:
    more = {"protocol": Protocol.OEG_MULTI, "sampling": Sampling(temperature=1.0, max_tokens=4096)}
    return Cell(model=MODEL, scenario=scenario, condition=CONDITIONS[condition], **more)


def played(scenario: str, backend, judge=None, condition="zero-shot", seed=9) -> Episode:
    reader = TurnJudge(JUDGE, judge or Baseline("rule-judge"))
    return asyncio.run(play(SAMPLES[scenario], cell(scenario, condition), backend, "key", seed, judge=reader))


def longest(scenario: str) -> int:
    """Suggestions that are granted to whoever always asks for the first thing that is possible."""
    game, sample = SCENARIOS[scenario], SAMPLES[scenario]
    state = game.initial(sample)
    while state.ending is None and (asks := game.askable(sample, state)):
        state, _ = game.step(sample, state, asks[0])
    return state.turn


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_policies_in_sentences_take_the_turns_that_the_rules_give_them(scenario):
    game, sample = SCENARIOS[scenario], SAMPLES[scenario]
    episodes = {name: played(scenario, Baseline(name)) for name in ("oracle", "ask-properly", "refuse")}
    granted = [t.turn.turn.move for t in episodes["ask-properly"].turns if t.turn.turn.move]
    state = game.initial(sample)
    while state.ending is None:
        state, _ = game.step(sample, state, game.solve(sample, state))

    assert (episodes["oracle"].ending, len(episodes["oracle"].turns)) == (Ending.CORRECT, state.turn)
    assert len(granted) == longest(scenario)
    assert (episodes["refuse"].ending, len(episodes["refuse"].turns)) == (Ending.WRONG, 1)


@pytest.mark.parametrize("condition", ["zero-shot", "hint"])
def test_each_turn_is_asked_afresh_with_the_picture_that_the_answer_before_led_to(condition):
    requests: list[Request] = []
    asks = ScriptedBackend(lambda request: requests.append(request) or "Please move the blocks.")
    episode, game, sample = played("ROD", asks, condition=condition), SCENARIOS["ROD"], SAMPLES["ROD"]

    state = game.initial(sample, seed=9)
    for request, shown in zip(requests, episode.turns, strict=True):
        (message,) = request.messages
        assert message.images == (shown.image,) == (game.view(sample, state).image,)
        assert message.text == "What is it?" + (OPEN_ENDED_HINT if condition == "hint" else "")
        assert isinstance(shown.turn, JudgedTurn) and shown.turn.turn.reply == "Please move the blocks."
        state, _ = game.step(sample, state, shown.turn.option)
    assert episode.ending is state.ending is Ending.LIMIT
    assert len({request.seed for request in requests}) == len(requests) == game.limit(sample)
    assert {shown.turn.option for shown in episode.turns} == set(game.askable(sample, game.initial(sample)))


def test_two_models_that_ask_alike_see_the_same_pictures():
    one, other = (
        played("COCO", ScriptedBackend(lambda request, t=text: t))
        for text in ("Zoom, please? Move the camera.", "Move the camera!")
    )
    assert [turn.image for turn in one.turns] == [turn.image for turn in other.turns]


def test_without_a_verdict_an_episode_has_failed_and_says_why():
    replies = iter(["no list", "1,1"])
    mute = ScriptedBackend(lambda request: next(replies))
    episode = played("ROD", Baseline("ask-properly"), mute)
    columns = episode_batch([PlayedEpisode(0, cell("ROD"), episode)]).episodes
    (row,) = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]

    assert episode.ending is Ending.FAILED and episode.turns == ()
    assert row["error"] == "rule-judge gave no verdict on turn 0: no list of 0 and 1 of the right length"
    assert row["correct"] is False and row["turns"] == 0


def test_a_verdict_is_asked_for_again_with_another_seed():
    seeds: list[int] = []

    def late(request: Request) -> str:
        seeds.append(request.seed)
        count = len(request.messages[0].text.split("The list:\n")[1].split("\n\n")[0].splitlines())
        return "hm" if len(seeds) == 1 else ",".join(["0"] * count)

    episode = played("ROD", Baseline("refuse"), ScriptedBackend(late))

    assert episode.ending is Ending.WRONG and len(set(seeds)) == 2
    assert episode.turns[0].turn.option == ""


@pytest.mark.parametrize(("raised", "ending"), [(Refused("no"), Ending.FAILED), (BackendDied("gone"), None)])
def test_a_judge_that_refuses_fails_the_episode_and_one_that_died_leaves_it_pending(raised, ending):
    def broken(request: Request) -> str:
        raise raised

    if ending is None:
        with pytest.raises(BackendDied):
            played("ROD", Baseline("refuse"), ScriptedBackend(broken))
    else:
        assert played("ROD", Baseline("refuse"), ScriptedBackend(broken)).ending is ending


def test_rows_hold_the_judges_reply_and_what_it_was_read_as():
    episode = played("QD", Baseline("oracle"))
    turns = episode_batch([PlayedEpisode(0, cell("QD"), episode)]).turns

    assert turns["read_as"] == [shown.turn.option for shown in episode.turns]
    assert turns["judged"] == [shown.turn.judged for shown in episode.turns] and all(turns["judged"])
    assert turns["move"][:-1] == ["detail"] * (len(episode.turns) - 1) and turns["action"][-1] == "category"


def test_the_judges_key_tells_judges_and_their_decoding_apart():
    other = JUDGE.model_copy(update={"attempts": 3})

    assert turn_judge_key(JUDGE).startswith("rule-judge/turns-1-")
    assert turn_judge_key(JUDGE) != turn_judge_key(other)
