"""How an answer of several turns is read: as the right category, a possible request, a random one, or nothing."""

from __future__ import annotations

import pytest

from envs import SCENARIOS, dialogue, rulejudge
from envs.openended import read_marks
from envs.scenario import suggestions
from envs.types import Ending, Sample, State
from tests.envs.games import SAMPLES


def chosen_option(sample: Sample, state: State, answer: str) -> str:
    """Return the option that the rule judge reads in an answer."""
    marks = read_marks(rulejudge.judge_turn(sample, state, answer), len(dialogue.turn_choices(sample, state).lines))
    assert marks is not None
    return dialogue.option_from_marks(sample, state, marks)


def marks_on(sample: Sample, state: State, *lines: str) -> list[bool]:
    """Return marks on the given lines."""
    return [line in lines for line in dialogue.turn_choices(sample, state).lines]


def plain(text: str) -> str:
    return text.rstrip(".")


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_each_possible_request_in_a_sentence_is_that_request(scenario):
    game, sample = SCENARIOS[scenario], SAMPLES[scenario]
    state = game.initial(sample)
    for ask in game.askable(sample, state):
        answer = f"I cannot be sure yet. Could you please {ask[:1].lower()}{plain(ask)[1:]}? Then I look again."
        assert chosen_option(sample, state, answer) == ask


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_impossible_request_becomes_a_random_possible_one(scenario):
    game, sample = SCENARIOS[scenario], SAMPLES[scenario]
    marks = marks_on(sample, game.initial(sample), dialogue.OTHER)
    options = [dialogue.option_from_marks(sample, game.initial(sample, seed=seed), marks) for seed in range(40)]

    assert set(options) == set(game.askable(sample, game.initial(sample))), "every possible request can be drawn"
    assert options == [dialogue.option_from_marks(sample, game.initial(sample, seed=seed), marks) for seed in range(40)]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_right_category_counts_alone_and_where_it_may_count(scenario):
    game, sample = SCENARIOS[scenario], SAMPLES[scenario]
    state, right = game.initial(sample), plain(sample.answer)
    others = [plain(category) for category in sample.categories if category != sample.answer]
    asks = [plain(ask) for ask in game.askable(sample, state)]
    counts = game.answerable(sample, state)

    assert dialogue.option_from_marks(sample, state, marks_on(sample, state, right)) == sample.answer
    both = dialogue.option_from_marks(sample, state, marks_on(sample, state, right, asks[0]))
    assert (both == sample.answer) is counts
    assert dialogue.option_from_marks(sample, state, marks_on(sample, state, right, others[0])) == f"{others[0]}."
    assert plain(dialogue.option_from_marks(sample, state, marks_on(sample, state, others[0], asks[-1]))) == asks[-1]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_declining_is_the_abstention_and_silence_is_nothing(scenario):
    game, sample = SCENARIOS[scenario], SAMPLES[scenario]
    state = game.initial(sample)

    assert chosen_option(sample, state, "I am sorry. From this picture alone nobody could tell.") in sample.options
    assert chosen_option(sample, state, "I am sorry, I do not know.") not in suggestions(sample.options)
    assert chosen_option(sample, state, "") == chosen_option(sample, state, "Thank you for the picture.") == ""
    assert chosen_option(sample, state, "The resolution is low.") == "", "a word of an idea is no request"


@pytest.mark.parametrize("scenario", ["MVP-N", "IN-C", "QD"])
def test_on_the_last_picture_a_request_counts_for_nothing_and_ends_at_the_limit(scenario):
    game, sample = SCENARIOS[scenario], SAMPLES[scenario]
    state = game.initial(sample)
    while game.askable(sample, state):
        option = dialogue.option_from_marks(sample, state, marks_on(sample, state, dialogue.OTHER))
        state, _ = game.step(sample, state, option)
    option = dialogue.option_from_marks(sample, state, marks_on(sample, state, dialogue.OTHER))

    assert option in suggestions(sample.options)
    assert game.step(sample, state, option)[0].ending is Ending.LIMIT
