"""What each scenario alone says and does, on one sample each: its names, its questions, its pictures, its examples."""

from dataclasses import replace

import pytest

from envs import SCENARIOS
from envs.scenario import suggestions
from envs.types import ImageRef, Mode, Move, State
from tests.envs.games import SAMPLES


def test_an_abstention_is_no_suggestion_however_it_is_spelt():
    assert suggestions(("I CANNOT tell.", "Move it.", "We do not know.", "do it not", "can not")) == (
        "Move it.", "do it not", "can not",
    )  # fmt: skip


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
