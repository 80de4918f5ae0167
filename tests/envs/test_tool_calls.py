"""Function calls are options of multiple choice: the same game by other words; a malformed call is an unreadable reply."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random

import pytest

from envs import SCENARIOS
from envs.tool_calls import (
    Call,
    call_line,
    called_option,
    encode_calls,
    functions,
    offered_calls,
    parse_call,
    write_call,
)
from envs.types import Action, Ending, Mode, View
from tests.envs.games import CATEGORIES, SAMPLES

NAMES = {
    "ROD": ["abstain", "move_blocks", "answer"], "VSOD": ["rewind", "wait", "abstain", "answer"],
    "MVP-N": ["rotate", "abstain", "answer"], "IN-C": ["enhance_image", "abstain", "answer"],
    "QD": ["add_details", "abstain", "answer"], "CIT": ["rewind", "wait", "abstain", "answer"],
    "COCO": ["move_camera", "abstain", "answer"],
}  # fmt: skip


def first_view(scenario: str, mode: Mode = Mode.PLAY):
    game, sample = SCENARIOS[scenario], SAMPLES[scenario]
    state = game.initial(sample, mode)
    return sample, state, game.view(sample, state)


def calls_of(sample, state, view):
    return offered_calls(sample.scenario, view, SCENARIOS[sample.scenario].askable(sample, state))


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_first_view_offers_the_functions_of_its_options_in_their_order(scenario):
    calls = calls_of(*first_view(scenario))
    by_name = {function.name: function for function in functions(calls)}

    assert list(by_name) == NAMES[scenario]
    assert by_name["answer"].values == ("Skillet", "Baseball", "Banana", "Screwdriver")
    assert by_name["abstain"].description == "I cannot answer this question."
    assert [option for _, option in calls] == [*SAMPLES[scenario].options, *CATEGORIES]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_option_call_steps_like_its_letter(scenario):
    """Random walks over all seven games: the call's transition is the one that multiple choice makes of the option's letter."""
    game, sample = SCENARIOS[scenario], SAMPLES[scenario]
    endings, states = set(), 0
    for seed in range(40):
        state, random = game.initial(sample), Random(f"{scenario}/{seed}")
        while state.ending is None:
            view = game.view(sample, state)
            calls, steps = calls_of(sample, state, view), []
            for index, option in enumerate((*view.options, *view.categories)):
                lettered = game.step(sample, state, f"{chr(65 + index)}. {option}")
                called = game.step(sample, state, called_option(view, calls, write_call(calls, option)))
                assert called[0] == lettered[0] and called[1]._replace(reply="") == lettered[1]._replace(reply="")
                steps.append(called[0])
            state = (
                random.choice([step for step in steps if step.ending is None] or steps)
                if random.random() < 0.9
                else random.choice(steps)
            )
            endings.add(state.ending)
            states += 1
    assert states > 60 and {Ending.CORRECT, Ending.WRONG} <= endings


@pytest.mark.parametrize(
    "categories",
    [
        ("A.", "B.", "Banana.", "d."),
        ("Hot dog.", "Hot dog", "Banana.", "1."),
        ("U.S. flag.", "D. Vinci print.", "Banana.", "#."),
    ],
)
def test_awkward_categories_are_answered_and_not_taken_for_letters(categories):
    sample = replace(SAMPLES["QD"], categories=categories)
    game = SCENARIOS["QD"]
    state = game.initial(sample)
    view = game.view(sample, state)
    calls = calls_of(sample, state, view)
    replies = [called_option(view, calls, write_call(calls, category)) for category in categories]
    ended = [game.step(sample, state, reply) for reply in replies]

    assert [turn.action for _, turn in ended] == [Action.CATEGORY] * 4
    assert [after.ending for after, _ in ended] == [
        Ending.CORRECT if category == "Banana." else Ending.WRONG for category in categories
    ]


RIGHT = [
    'move_blocks(direction="left")',
    "move_blocks(direction='left')",
    ' move_blocks( direction = "left" ) \n',
    '{"name": "move_blocks", "arguments": {"direction": "left"}}',
    '{"tool_calls": [{"name": "move_blocks", "arguments": {"direction": "left"}}]}',
    '<think>\nLeft or right?\n</think>\nmove_blocks(direction="left")',
    encode_calls([("move_blocks", {"direction": "left"})], "<think>hm</think> I look behind."),
]
MALFORMED = (
    "",
    "A",
    'I call move_blocks(direction="left")',
    'move_blocks(direction="left")\nThanks!',
    "<think>\nstill thinking",
    "abstain()\nabstain()",
    encode_calls([("abstain", {}), ("abstain", {})], ""),
    '{"name": "abstain"',
    '{"name": "abstain"}',
    '{"name": "abstain", "arguments": {}, "why": "?"}',
    '{"name": "move_blocks", "arguments": {"direction": "left", "direction": "right"}}',
    '{"name": "move_blocks", "arguments": "{"}',
    "[" * 9_000,
    "{" + " " * 30_000,
    "look_behind()",
    "move_blocks()",
    'move_blocks(direction="up")',
    'abstain(why="dark")',
    'answer(category="Banana.")',
    'move_blocks(direction="\\x")',
)


@pytest.mark.parametrize("reply", RIGHT)
def test_one_call_is_read_in_each_of_its_forms(reply):
    sample, state, view = first_view("ROD")

    assert parse_call(reply) == Call("move_blocks", {"direction": "left"})
    assert called_option(view, calls_of(sample, state, view), reply) == "Move the blue blocks to the left."


@pytest.mark.parametrize("reply", MALFORMED)
def test_a_malformed_call_ends_like_an_unreadable_letter(reply):
    sample, state, view = first_view("ROD")
    read = called_option(view, calls_of(sample, state, view), reply)
    after, turn = SCENARIOS["ROD"].step(sample, state, read)

    assert read == ""
    assert (after.ending, turn.action) == (Ending.WRONG, Action.UNPARSABLE)


def test_written_calls_are_read_back():
    names = ('say "cheese"', "it's", "naïve\\", "two\nlines", "猫", "a, b", "{x}", ") answer(", "\u2028")
    view = View(first_view("QD")[2].image, "?", (), names)
    calls = offered_calls("QD", view)

    for call, _ in calls:
        assert parse_call(call_line(call)) == call
        assert parse_call(json.dumps({"name": call.name, "arguments": call.arguments})) == call
