"""In multi-turn open-ended episodes, a judge reads each answer before the next picture; a missing verdict is never a zero."""

import asyncio
from functools import partial

import pytest

from actors.engine.backend import BackendDied, ModelStopped, Refused, Request
from actors.engine.baselines import Baseline
from actors.playing.judge import TurnJudge
from actors.playing.play import Episode, play
from actors.playing.records import PlayedEpisode, episode_batch
from envs import SCENARIOS
from envs.stimulus import PROMPTS
from envs.types import Ending
from sweeps.conditions import CONDITIONS
from sweeps.load import build_judge as load_judge
from sweeps.sampling import Sampling
from sweeps.spec import Cell, ModelSpec, Protocol
from tests.actors.scripted_backend import ScriptedBackend
from tests.envs.games import SAMPLES

MODEL = ModelSpec(name="m", source="builtin:refuse", backend="builtin")
JUDGE = load_judge({"model": "rule-judge", "attempts": 2}, "a test")


def cell(scenario: str, condition: str = "zero-shot") -> Cell:
    settings = {"protocol": Protocol.OEG_MULTI, "sampling": Sampling(temperature=1.0, max_tokens=4096)}
    return Cell(model=MODEL, scenario=scenario, condition=CONDITIONS[condition], **settings)


def play_scenario(scenario: str, backend, judge=None, condition="zero-shot", seed=9) -> Episode:
    reader = TurnJudge(JUDGE, judge or Baseline("rule-judge"))
    return asyncio.run(play(SAMPLES[scenario], cell(scenario, condition), backend, "key", seed, judge=reader))


def longest(scenario: str) -> int:
    """Return how many suggestions are granted if the first possible one is always requested."""
    game, sample = SCENARIOS[scenario], SAMPLES[scenario]
    state = game.initial(sample)
    while state.ending is None and (asks := game.askable(sample, state)):
        state, _ = game.step(sample, state, asks[0])
    return state.turn


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_sentence_policies_take_turns_by_rules(scenario):
    game, sample = SCENARIOS[scenario], SAMPLES[scenario]
    episodes = {name: play_scenario(scenario, Baseline(name)) for name in ("oracle", "ask-properly", "refuse")}
    granted = [t.turn.move for t in episodes["ask-properly"].turns if t.turn.move]
    state = game.initial(sample)
    while state.ending is None:
        state, _ = game.step(sample, state, game.solve(sample, state))

    assert (episodes["oracle"].ending, len(episodes["oracle"].turns)) == (Ending.CORRECT, state.turn)
    assert len(granted) == longest(scenario)
    assert (episodes["refuse"].ending, len(episodes["refuse"].turns)) == (Ending.WRONG, 1)


@pytest.mark.parametrize("condition", ["zero-shot", "hint"])
def test_each_turn_is_asked_afresh_with_its_picture(condition):
    requests: list[Request] = []
    asks = ScriptedBackend(lambda request: requests.append(request) or "Please move the blocks.")
    episode, game, sample = play_scenario("ROD", asks, condition=condition), SCENARIOS["ROD"], SAMPLES["ROD"]

    state = game.initial(sample, seed=9)
    for request, turn in zip(requests, episode.turns, strict=True):
        (message,) = request.messages
        assert message.images == (turn.image,) == (game.view(sample, state).image,)
        assert message.text == "What is it?" + (PROMPTS["OPEN_ENDED_HINT"] if condition == "hint" else "")
        assert turn.turn.reply == "Please move the blocks."
        state, _ = game.step(sample, state, turn.turn.read_as)
    assert episode.ending is state.ending is Ending.LIMIT
    assert len({request.seed for request in requests}) == len(requests) == game.limit(sample)
    assert {turn.turn.read_as for turn in episode.turns} == set(game.askable(sample, game.initial(sample)))


def test_episode_without_verdict_fails_with_reason():
    replies = iter(["no list", "1,1"])
    mute = ScriptedBackend(lambda request: next(replies))
    episode = play_scenario("ROD", Baseline("ask-properly"), mute)
    columns = episode_batch([PlayedEpisode(0, cell("ROD"), episode)]).episodes
    (row,) = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]

    assert episode.ending is Ending.FAILED and episode.turns == ()
    assert row["error"] == "rule-judge gave no verdict on turn 0: no list of 0 and 1 of the right length"
    assert row["correct"] is False and row["turns"] == 0


@pytest.mark.parametrize(("raised", "ending"), [(Refused("no"), Ending.FAILED), (BackendDied("gone"), None)])
def test_refusing_judge_fails_episode_and_dead_one_leaves_it_pending(raised, ending):
    def raise_error(request: Request) -> str:
        raise raised

    if ending is None:
        with pytest.raises(BackendDied):
            play_scenario("ROD", Baseline("refuse"), ScriptedBackend(raise_error))
    else:
        assert play_scenario("ROD", Baseline("refuse"), ScriptedBackend(raise_error)).ending is ending


def test_a_judge_that_reads_nothing_stops_its_model_after_twenty_answers():
    """Each episode before has failed, none is a zero; the model's other episodes stay pending."""
    asked: list[Request] = []
    reader = TurnJudge(JUDGE, ScriptedBackend(lambda request: asked.append(request) or "nonsense"))

    async def play_all() -> list[Episode]:
        play_one = partial(play, SAMPLES["ROD"], cell("ROD"), Baseline("ask-properly"), "key", judge=reader)
        return [await play_one(seed=number) for number in range(21)]

    with pytest.raises(ModelStopped, match="rule-judge gave no verdict on its first 20 answers"):
        asyncio.run(play_all())
    assert len(asked) == 20 * JUDGE.attempts
