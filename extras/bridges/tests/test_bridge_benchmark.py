"""A benchmark that a caller plays answer by answer, without any environment's package."""

import pytest

from envs import SCENARIOS
from envs.chance import episode_seed
from envs.scenario import suggestions
from envs.types import Action, Ending
from proactive_bridges.benchmark import Benchmark
from sweeps.conditions import CONDITIONS
from sweeps.sweep_file import SweepError


@pytest.fixture(scope="module")
def data(demo_data):
    return demo_data


def first_episode(data, scenario="QD", condition="zero-shot", seed=0):
    benchmark = Benchmark(data, [scenario], condition, seed=seed)
    return benchmark.episode(scenario, next(iter(benchmark.samples[scenario])))


def test_an_episode_keeps_its_turns_and_ends(data):
    episode = first_episode(data)
    asks = suggestions(episode.choices)
    assert (episode.turns, episode.past, episode.ending, episode.state.turn) == ([], [], None, 0)
    first = episode.view
    turn = episode.answer(asks[0])

    assert episode.turns == [turn] and turn.action is Action.SUGGESTION and episode.past == [(first, asks[0])]
    assert episode.state.turn == 1 and episode.view.image != first.image
    last = episode.answer(episode.sample.answer)
    assert episode.turns == [turn, last] and episode.ending is Ending.CORRECT and len(episode.past) == 1
    with pytest.raises(ValueError, match="has ended"):
        episode.answer("A")
    assert len(episode.turns) == 2


def test_the_conversation_grows_only_under_history(data):
    sizes = {}
    for condition in ("zero-shot", "history"):
        episode = first_episode(data, "ROD", condition)
        lengths = [len(episode.conversation)]
        for _ in range(2):
            episode.answer(episode.choices[1] if "Move" in episode.choices[1] else episode.choices[0])
            lengths.append(len(episode.conversation))
        sizes[condition] = lengths
    assert sizes == {"zero-shot": [1, 1, 1], "history": [1, 3, 5]}


def test_a_swapped_picture_is_another_samples_and_text_alone_has_none(data):
    own, swapped = first_episode(data), first_episode(data, condition="swapped")

    assert swapped.sample.swapped is not None and swapped.image != own.image and own.sample.swapped is None
    assert swapped.sample.swapped.id != swapped.sample.id
    assert first_episode(data, condition="text-only").image is None and own.image is not None


def test_random_suggestions_are_those_of_the_data_folder(data):
    plain, random = first_episode(data), first_episode(data, condition="random-proactive")

    assert random.choices != plain.choices and random.sample.suggestion_pool is not None
    assert first_episode(data, condition="random-proactive", seed=1).choices != random.choices
    assert plain.sample.suggestion_pool is None


def test_all_scenarios_are_loaded_unless_named(data):
    benchmark = Benchmark(data)

    assert list(benchmark.samples) == list(SCENARIOS) and benchmark.condition is CONDITIONS["zero-shot"]
    assert {len(benchmark.samples_of(name)) for name in SCENARIOS} == {10} and benchmark.seed == 0
    assert len(Benchmark(data, "VSOD", filtered=False).samples_of("VSOD")) >= 10


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda data: Benchmark(data, ["RODD"]), "the environment: there is no scenario 'RODD'; did you mean 'ROD'?"),
        (lambda data: Benchmark(data, ["ROD"], "every-frame"),
         "the environment: every-frame asks about every picture and is no game; name another condition"),
        (lambda data: Benchmark(data, ["ROD"], "every-state"),
         "the environment: every-state asks about every state and is no game; name another condition"),
        (lambda data: Benchmark(data, ["ROD", "QD"]).samples_of("CIT"),
         "the environment: scenario 'CIT' is not loaded; choose from ROD, QD"),
        (lambda data: Benchmark(data, ["ROD"]).episode("ROD", 10**6),
         "the environment: ROD has no sample with id 1000000 in this selection"),
    ],
)  # fmt: skip
def test_a_wrong_name_is_a_sentence(data, make, sentence):
    with pytest.raises(SweepError) as error:
        make(data)
    assert str(error.value) == sentence


@pytest.mark.parametrize(("draw", "purpose"), [(0, "episode"), (3, "episode-3")])
def test_an_episode_draws_as_in_a_sweep_of_seed_0(data, draw, purpose):
    condition = CONDITIONS["random-proactive"].replicate(0, draw)
    episode = Benchmark(data, ["QD"], condition).episode("QD", 11)

    assert episode.rules.seed == episode_seed(0, "QD", 11, purpose)
    assert Benchmark(data, ["QD"], condition).seed == 0 and episode.rules.condition is condition
