"""Open-ended generation is one turn without options, and its row is neither right nor wrong."""

import asyncio

import pytest

from actors.engine.backend import Request
from actors.playing.judge import derive_seed
from actors.playing.play import Episode, play
from actors.playing.records import PlayedEpisode, episode_batch
from actors.playing.rows import EpisodeRow, TurnRow
from envs import SCENARIOS
from envs.stimulus import PROMPTS
from envs.types import Mode
from sweeps.conditions import CONDITIONS, VARIANTS
from sweeps.protocol import OPEN_ENDED_CONDITIONS
from sweeps.sampling import Sampling
from sweeps.spec import Cell, ModelSpec, Protocol
from tests.actors.scripted_backend import ScriptedBackend
from tests.envs.games import SAMPLES

MODEL = ModelSpec(name="m", source="builtin:refuse", backend="builtin")


def cell(scenario: str, condition: str = "zero-shot", protocol: Protocol = Protocol.OEG) -> Cell:
    sampling = Sampling(temperature=1.0, max_tokens=4096)
    shown = {**CONDITIONS, **VARIANTS}[condition]
    return Cell(model=MODEL, scenario=scenario, condition=shown, protocol=protocol, sampling=sampling)


def play_sample(scenario, backend, condition="zero-shot", seed=9, protocol=Protocol.OEG) -> Episode:
    return asyncio.run(play(SAMPLES[scenario], cell(scenario, condition, protocol), backend, "key", seed))


def sent_request(scenario: str, condition: str) -> Request:
    """Return the only request of an episode."""
    requests: list[Request] = []
    play_sample(scenario, ScriptedBackend(lambda request: requests.append(request) or "text"), condition)
    (request,) = requests
    return request


@pytest.mark.parametrize("condition", OPEN_ENDED_CONDITIONS[Protocol.OEG])
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_question_is_asked_once_without_options(scenario, condition):
    request, game, sample = sent_request(scenario, condition), SCENARIOS[scenario], SAMPLES[scenario]
    (message,) = request.messages
    state = game.initial(sample, cell(scenario, condition).condition.mode, 9)
    question = PROMPTS["ROD_REFERENCE"] if (scenario, condition) == ("ROD", "reference") else "What is it?"
    preface = f"{PROMPTS['VIDEO_PREFACE']} " if scenario in ("VSOD", "CIT") else ""

    assert message.text == preface + question + (PROMPTS["OPEN_ENDED_HINT"] if condition == "hint" else "")
    assert message.images == (() if condition == "text-only" else (game.view(sample, state).image,))
    assert not any(option in message.text for option in (*sample.options, *sample.categories, game.hint))
    assert request.seed == derive_seed(9, state.turn) and request.sampling.max_tokens == 4096
    assert request.situation.open_ended and (request.situation.state.mode is Mode.REFERENCE) == (
        condition == "reference"
    )


def test_whole_answer_is_stored_unscored():
    text = "<think>Hm, a banana?</think>\nPlease move the blocks."
    episode = play_sample("ROD", ScriptedBackend(lambda request: text))
    batch = episode_batch([PlayedEpisode(0, cell("ROD"), episode)])
    row = {name: values[0] for name, values in batch.episodes.items()}
    turn = {name: values[0] for name, values in batch.turns.items()}

    assert tuple(row) == EpisodeRow._fields and tuple(turn) == TurnRow._fields
    assert (row["ending"], row["correct"], row["turns"], row["protocol"]) == ("answered", None, 1, "oeg")
    assert row["cell"].endswith("zero-shot-oeg")
    assert [row[name] for name in ("suggestions", "abstentions", "categories", "unparsable")] == [0] * 4
    assert turn["reply"] == text and turn["frame"] == SAMPLES["ROD"].first_frame
    assert {turn[name] for name in ("option", "category", "action", "move")} == {None}
