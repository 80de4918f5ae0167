"""Lenient parsing continues where a strict reader would end, and the stored reply is what the model wrote."""

import asyncio

from actors.engine.backend import ScriptedBackend
from actors.playing.play import play
from envs.types import Action, Ending
from sweeps.conditions import CONDITIONS, VARIANTS
from sweeps.spec import Cell, ModelSpec
from tests.envs.games import SAMPLES

MODEL = ModelSpec(name="m", source="s")


def play_replies(condition, *replies):
    script = iter(replies)
    cell = Cell(model=MODEL, scenario="QD", condition=condition)
    return asyncio.run(play(SAMPLES["QD"], cell, ScriptedBackend(lambda request: next(script)), "k", 0))


def test_a_wrapped_letter_counts_only_where_the_condition_forgives():
    strict = play_replies(CONDITIONS["zero-shot"], "(A)")
    forgiving = play_replies(VARIANTS["lenient"], "(A)", "**E** it is", "The answer is E")

    assert (strict.ending, strict.turns[0].turn.action) == (Ending.WRONG, Action.UNPARSABLE)
    assert [turn.turn.reply for turn in forgiving.turns] == ["(A)", "**E** it is"][: len(forgiving.turns)]
    assert forgiving.turns[0].turn.action is Action.SUGGESTION


def test_a_strict_reading_is_never_overruled():
    replies = ["A", "Banana."]

    assert [s.turn for s in play_replies(VARIANTS["lenient"], *replies).turns] == [
        s.turn for s in play_replies(CONDITIONS["zero-shot"], *replies).turns
    ]


def test_variants_have_own_keys_and_paper_keys_are_unchanged():
    cells = [Cell(model=MODEL, scenario="ROD", condition=c) for c in (*CONDITIONS.values(), *VARIANTS.values())]

    assert len({cell.fingerprint("1") for cell in cells}) == len(cells)
    assert set(CONDITIONS["zero-shot"].identity) == {"hint", "history", "shots", "reasoned", "mode"}
