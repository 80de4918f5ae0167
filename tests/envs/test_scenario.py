"""What each scenario alone says and does, on one sample each: its names, its questions, its pictures, its examples."""

from dataclasses import replace

import pytest

from envs import SCENARIOS
from envs.scenario import suggestions
from envs.types import Action, Ending, ImageRef, Mode, Move, State, Verdict
from tests.envs.games import ABSTENTION, SAMPLES

SHOWN = {
    "ROD": ("rod_1/banana/s7.jpg", "rod_1/banana/s0.jpg"),
    "VSOD": ("test/0030.JPEG", "test/0012.JPEG"),
    "MVP-N": ("0/0004.png", "1/0009.png"),
    "IN-C": ("5/a.JPEG", "1/a.JPEG"),
    "QD": ("banana/0000.png", "banana/0005.png"),
    "CIT": ("v/10.jpg", "v/31.jpg"),
    "COCO": ("a.jpg", "a.jpg"),
}
"""The first picture and the clear one, below the scenario's folder."""


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_first_view_and_the_clear_one(name):
    game, sample = SCENARIOS[name], SAMPLES[name]
    first = game.view(sample, game.initial(sample))
    clear = game.view(sample, game.initial(sample, Mode.REFERENCE))
    preface = f"{game.preface} " if game.preface else ""

    assert (first.image.path, clear.image.path) == tuple(f"{game.stem}/{path}" for path in SHOWN[name])
    assert (first.image.short_edge, clear.image) == (None, ImageRef(clear.image.path))
    assert first.prompt == f"{preface}What is it?"
    assert clear.prompt == f"{preface}{game.reference_prompt or 'What is it?'}"
    assert (first.options, first.categories) == (sample.options, sample.categories)


def test_an_abstention_is_no_suggestion_however_it_is_spelt():
    assert suggestions(("I CANNOT tell.", "Move it.", "We do not know.", "do it not", "can not")) == (
        "Move it.", "do it not", "can not",
    )  # fmt: skip


def play_replies(name, *replies, sample=None, mode=Mode.PLAY):
    """Return the states and turns of these replies."""
    game, sample = SCENARIOS[name], sample or SAMPLES[name]
    state, steps = game.initial(sample, mode), []
    for reply in replies:
        state, turn = game.step(sample, state, reply)
        steps.append((state, turn))
    return steps


@pytest.mark.parametrize(
    ("reply", "action", "ending", "move"),
    [
        ("Rewind the video.", Action.SUGGESTION, None, Move.REWIND),
        ("B", Action.SUGGESTION, None, Move.WAIT),
        (ABSTENTION, Action.ABSTENTION, Ending.WRONG, None),
        ("C", Action.ABSTENTION, Ending.WRONG, None),
        ("D", Action.CATEGORY, Ending.WRONG, None),
        ("F", Action.CATEGORY, Ending.CORRECT, None),
        ("Banana.", Action.CATEGORY, Ending.CORRECT, None),
        ("F. Rewind the video.", Action.CATEGORY, Ending.CORRECT, None),
        ("A. Banana.", Action.CATEGORY, Ending.CORRECT, None),
        ("Z", Action.UNPARSABLE, Ending.WRONG, None),
    ],
)
def test_reply_outcomes(reply, action, ending, move):
    ((state, turn),) = play_replies("VSOD", reply)

    assert (turn.action, state.ending, turn.move) == (action, ending, move)
    assert (turn.frame, turn.reply, state.turn) == (30, reply, 1)


def test_asking_on_the_last_turn_ends_at_the_limit_and_keeps_the_move_that_was_not_made():
    short = replace(SAMPLES["VSOD"], frames=2, first_frame=0)
    (first, _), (last, turn) = play_replies("VSOD", "A", "A", sample=short)

    assert (first.ending, first.frame) == (None, 1)
    assert (last.ending, last.frame, last.turn, turn.move) == (Ending.LIMIT, 1, 2, Move.REWIND)
    assert play_replies("VSOD", "A", "C", sample=short)[1][0].ending is Ending.WRONG


# -- rules of one scenario ---------------------------------------------------------------------------------------------
def test_rod_counts_no_category_on_the_first_turn_but_of_the_clear_picture():
    (_, first), (after, second) = play_replies("ROD", "B", "Banana.")
    ((clear, _),) = play_replies("ROD", "Banana.", mode=Mode.REFERENCE)

    assert first.category is Verdict.MISMATCH and second.category is Verdict.CORRECT
    assert (after.ending, clear.ending) == (Ending.CORRECT, Ending.CORRECT)


@pytest.mark.parametrize(("last", "stands_in"), [(Move.LEFT, "s5"), (Move.RIGHT, "s7"), (None, "s7")])
def test_the_unreadable_picture_of_rod_gives_way_to_its_neighbour(last, stands_in):
    broken = replace(SAMPLES["ROD"], image="rod/natural_bluebl_greenr-banana-s{image}.jpg")
    image = SCENARIOS["ROD"].image(broken, State(6, 1, last))

    assert image == ImageRef(f"rod/natural_bluebl_greenr-banana-{stands_in}.jpg")
    assert SCENARIOS["ROD"].image(broken, State(5, 1, last)).path.endswith("-s5.jpg")


@pytest.mark.parametrize("name", ["MVP-N", "IN-C", "QD"])
def test_last_picture_is_decisive(name):
    game, sample = SCENARIOS[name], SAMPLES[name]
    before, last = (State(1, turn=sample.frames - remaining) for remaining in (2, 1))

    assert (game.askable(sample, before)[:1], game.askable(sample, last)) == (sample.options[:1], ())
    assert (game.telling(sample, before), game.telling(sample, last)) == (False, True)
    assert game.telling(sample, State(1, mode=Mode.REFERENCE))


def test_in_imagenet_c_only_the_right_repair_counts():
    game, sample = SCENARIOS["IN-C"], SAMPLES["IN-C"]
    foreign = replace(sample, options=("Move it up.", "Rewind it.", ABSTENTION))
    ((wrong, turn),) = play_replies("IN-C", "Increase the contrast.")

    assert game.askable(sample, State(5)) == ("Deblur the image.",)
    assert game.askable(foreign, State(5)) == ("Move it up.", "Rewind it.")
    assert (wrong.ending, turn.option, turn.action) == (Ending.WRONG, Verdict.WRONG, Action.SUGGESTION)
    assert game.problems(sample) == []
    assert game.problems(foreign) == ["quality_answer 'Deblur the image.' is not among the options"]
    moves = ["brightness", "contrast", "saturation", "deblur", "denoise", "decompress", "resolution", "artifacts"]
    assert game.moves(sample) == tuple(moves)
    assert [game.move(f"Fix the {word}.") for word in game.cue] == moves


# -- solved examples ---------------------------------------------------------------------------------------------------


def test_an_example_of_rod_asks_once_by_seed():
    game, sample = SCENARIOS["ROD"], SAMPLES["ROD"]
    steps = game.example(sample, 0)

    assert [reply for _, reply in steps] == ["Move the blue blocks to the right.", "Banana."]
    assert [view.image.path[-6:] for view, _ in steps] == ["s7.jpg", "s8.jpg"]
    assert {game.example(sample, seed)[0][1] for seed in range(9)} == set(suggestions(sample.options))


def test_an_example_may_be_reasoned_hinted_and_reduced():
    game, sample = SCENARIOS["MVP-N"], SAMPLES["MVP-N"]
    plain = game.example(sample, 0)
    reasoned, reduced, hinted = (game.example(sample, 0, **{way: True}) for way in ("reasoned", "reduced", "hint"))

    assert [reply for _, reply in plain] == ["Rotate the object."] * 3 + ["Banana."]
    assert [reply for _, reply in reasoned] == [f"{game.reasoning} A. Rotate the object."] * 3 + ["Banana."]
    assert reduced == (plain[0], plain[-1])
    assert [view.prompt for view, _ in hinted] == [f"What is it? {game.hint}"] * 4
    assert [view.prompt for view, _ in plain] == ["What is it?"] * 4
    short = replace(sample, frames=2, extra={"valid_images": [4, 9]})
    assert game.example(short, 0, reduced=True) == game.example(short, 0)
    assert len(game.example(replace(sample, frames=3), 0, reduced=True)) == 2
