"""Lenient parsing plays on where a strict reader would have ended, and what is kept is what the model said."""

import asyncio

from actors.engine.backend import ScriptedBackend
from actors.playing.play import play
from envs.types import Action, Ending
from sweeps.conditions import CONDITIONS, VARIANTS
from sweeps.spec import Cell, ModelSpec
from tests.envs.games import SAMPLES

MODEL = ModelSpec(name="m", source="s")


def played(condition, *replies):
    said = iter(replies)
    cell = Cell(model=MODEL, scenario="QD", condition=condition)
    return asyncio.run(play(SAMPLES["QD"], cell, ScriptedBackend(lambda request: next(said)), "k", 0))


def test_a_wrapped_letter_counts_only_where_the_condition_forgives():
    strict = played(CONDITIONS["zero-shot"], "(A)")
    forgiving = played(VARIANTS["lenient"], "(A)", "**E** it is", "The answer is E")

    assert (strict.ending, strict.turns[0].turn.action) == (Ending.WRONG, Action.UNPARSABLE)
    assert [shown.turn.reply for shown in forgiving.turns] == ["(A)", "**E** it is"][: len(forgiving.turns)]
    assert forgiving.turns[0].turn.action is Action.SUGGESTION


def test_a_strict_reading_is_never_overruled():
    replies = ["A", "Banana."]

    assert [s.turn for s in played(VARIANTS["lenient"], *replies).turns] == [
        s.turn for s in played(CONDITIONS["zero-shot"], *replies).turns
    ]


def test_every_variant_has_keys_of_its_own_and_the_papers_keys_are_as_they_were():
    cells = [Cell(model=MODEL, scenario="ROD", condition=c) for c in (*CONDITIONS.values(), *VARIANTS.values())]

    assert len({cell.fingerprint("1") for cell in cells}) == len(cells)
    assert set(CONDITIONS["zero-shot"].identity) == {"hint", "history", "shots", "reasoned", "mode"}
