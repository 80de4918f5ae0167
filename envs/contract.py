"""The contract that every scenario keeps, whatever is answered; ``check_scenario`` plays it, for one of your own too.

A broken promise is an AssertionError whose text is the promise. Nothing but the standard library is needed.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from typing import NamedTuple

from envs.answers import letter
from envs.scenario import Scenario, suggestions
from envs.types import UNSCORED, Action, Ending, Mode, Sample, State, Turn, Verdict, View

MODES = (Mode.PLAY, Mode.REFERENCE, Mode.RANDOM)
SEED = 5
ODD = ("", " ", "#", "(A)", "**B**", "Answer: C", "Z", "a", "A.", "A) Banana.", "banana", "BANANA.", "C. Banana.\nand more",
       "I would rather not.", "\u212a", "\u0130", "x" * 5000, "A. B. C.", "\n", "Banana")  # fmt: skip
"""Replies that models give, and that name an option or do not."""


class Step(NamedTuple):
    """One answered question of a walk."""

    state: State
    view: View
    turn: Turn
    after: State


def check_scenario(game: Scenario, sample: Sample) -> None:
    """Play a sample in every mode with every kind of reply; raises AssertionError where the scenario breaks its contract."""
    for mode in MODES:
        check_replies(game, sample, mode)
        check_ends(game, sample, mode)
    for mode in (Mode.PLAY, Mode.REFERENCE):
        check_solvable(game, sample, mode)
    check_repeatable(game, sample)
    check_reference(game, sample)
    check_hint(game, sample)
    check_disagreement(game, sample)


def replies(view: View) -> Iterator[str]:
    """Every kind of reply to a view: each option as text, as letter and as both, then nonsense."""
    for index, option in enumerate(view.options + view.categories):
        yield from (
            option,
            letter(index),
            f"{letter(index)}.",
            f"{letter(index)}. {option}",
            option.upper(),
            f" {option} ",
        )
    yield from ODD


def walk(
    game: Scenario, sample: Sample, mode: Mode, pick: Callable[[View, int], str], hint: bool = False, turns: int = 200
) -> list[Step]:
    """Play one episode, or its first ``turns``; ``pick(view, number)`` chooses the reply."""
    state, steps = game.initial(sample, mode, seed=SEED), list[Step]()
    while state.ending is None and len(steps) < turns:
        view = game.view(sample, state, hint)
        after, turn = game.step(sample, state, pick(view, len(steps)))
        steps.append(Step(state, view, turn, after))
        state = after
    return steps


def check_replies(game: Scenario, sample: Sample, mode: Mode) -> None:
    """Every reply to the first question gets exactly one verdict a side, and moves the game on."""
    state = game.initial(sample, mode, seed=SEED)
    for reply in replies(game.view(sample, state)):
        after, turn = game.step(sample, state, reply)
        assert after.turn == state.turn + 1, "step() must count one turn"
        assert turn.reply == reply, "a turn must keep the reply as it came"
        assert turn.move is None or turn.option is Verdict.CORRECT, "only a right suggestion makes a move"
        right = turn.category is Verdict.CORRECT
        assert (after.ending is Ending.CORRECT) == right, "a right category ends the episode"
        assert not right or turn.action is Action.CATEGORY, "what counts is what is told"
        if turn.option is not Verdict.CORRECT and not right:
            asked = turn.action is Action.SUGGESTION and after.turn == game.limit(sample)
            assert after.ending is (Ending.LIMIT if asked else Ending.WRONG), "anything else ends it wrong"
        sides = (turn.option, turn.category)
        assert turn.action is not Action.UNPARSABLE or sides == (Verdict.MISMATCH, Verdict.MISMATCH), (
            "it named something"
        )


def check_ends(game: Scenario, sample: Sample, mode: Mode) -> None:
    """Whoever asks for ever comes to an end within the limit, and after it no reply is taken."""
    limit = game.limit(sample)
    steps = walk(
        game, sample, mode, lambda view, n: next(iter(suggestions(view.options)), view.categories[0]), turns=limit + 1
    )
    last = steps[-1].after
    assert last.ending is not None and len(steps) <= limit, "asking for ever must end within limit(sample)"
    assert last.ending not in UNSCORED, "errors and open answers are not the game's to give"
    try:
        game.step(sample, last, "A")
    except ValueError:
        return
    raise AssertionError("step() must raise ValueError for an episode that has ended")


def check_repeatable(game: Scenario, sample: Sample) -> None:
    """Playing twice gives the same value, and every value pickles: episodes are played in other processes."""

    def asked(view: View, number: int) -> str:
        asks = suggestions(view.options)
        return asks[number % len(asks)] if asks else view.categories[0]

    first = walk(game, sample, Mode.RANDOM, asked)
    assert first == walk(game, sample, Mode.RANDOM, asked), "the same arguments must give the same values"
    assert pickle.loads(pickle.dumps(first)) == first, "states, views and turns must pickle"
    assert pickle.loads(pickle.dumps(sample)) == sample, "samples must pickle"


def check_solvable(game: Scenario, sample: Sample, mode: Mode) -> None:
    """``solve`` reaches the right category: else no model could, and the oracle's row would be no upper bound."""
    state = game.initial(sample, mode)
    while state.ending is None:
        state, _ = game.step(sample, state, game.solve(sample, state))
    assert state.ending is Ending.CORRECT, f"solve() must end right, not {state.ending}"


def check_reference(game: Scenario, sample: Sample) -> None:
    """Reference shows the whole clear picture and categories only, and lasts one turn."""
    state = game.initial(sample, Mode.REFERENCE)
    view = game.view(sample, state)
    assert view.options == (), "reference offers no suggestion"
    assert view.image.crop is None, "the clear picture is whole"
    for reply in replies(view):
        after, turn = game.step(sample, state, reply)
        assert after.ending in (Ending.CORRECT, Ending.WRONG), "reference lasts one turn"
        assert turn.option is Verdict.MISMATCH, "nothing can be asked of the clear picture"


def check_hint(game: Scenario, sample: Sample) -> None:
    """A hint changes the question and nothing else."""
    state = game.initial(sample)
    bare, hinted = game.view(sample, state), game.view(sample, state, hint=True)
    assert hinted.prompt == f"{bare.prompt} {game.hint_for(sample)}", "the hint stands behind the question"
    same = (bare.image, bare.options, bare.categories)
    assert (hinted.image, hinted.options, hinted.categories) == same, "a hint changes the question alone"


def check_disagreement(game: Scenario, sample: Sample) -> None:
    """Where letter and text disagree, the action is what the game acts on: the right suggestion, or the category."""
    first = game.initial(sample)
    state, _ = game.step(sample, first, game.askable(sample, first)[0])
    if state.ending is not None:
        return
    view = game.view(sample, state)
    for index, option in enumerate(view.options):
        for category in view.categories:
            _, turn = game.step(sample, state, f"{letter(index)}. {category}")
            asked = option in game.askable(sample, state) and category != sample.answer
            assert turn.action is (Action.SUGGESTION if asked else Action.CATEGORY), "the action is what counted"
            assert (turn.move is not None) == asked, "only what counted as asking makes a move"
