"""The contract of every scenario; ``check_scenario`` plays it, also for a scenario of your own.

A broken rule raises an AssertionError whose text is the rule.
"""

import pickle
from collections.abc import Callable, Iterator

from envs.answers import letter
from envs.scenario import Scenario, suggestions
from envs.types import UNSCORED, Action, Ending, Mode, Sample, State, Turn, Verdict, View

SEED = 5
ODD = ("", " ", "#", "(A)", "**B**", "Answer: C", "Z", "a", "A.", "banana", "C. Banana.\nand more", "\u212a", "\u0130",
       "x" * 5000, "A. B. C.", "\n")  # fmt: skip
"""Unusual replies; some of them name an option."""
Step = tuple[View, Turn, State]
"""One turn of an episode: what was shown, the turn, and the state after it."""


def check_scenario(game: Scenario, sample: Sample) -> None:
    """Play a sample in every mode with every kind of reply; raises AssertionError if the scenario breaks its contract."""
    for mode in Mode:
        state = game.initial(sample, mode, seed=SEED)
        for reply in replies(game.view(sample, state)):
            check_reply(game, sample, state, reply)
        check_episode(game, sample, mode)
    clear = game.view(sample, game.initial(sample, Mode.REFERENCE))
    assert clear.options == (), "reference offers no suggestion"
    assert clear.image.crop is None, "the clear picture has no crop"
    state = game.initial(sample)
    plain, hinted = game.view(sample, state), game.view(sample, state, hint=True)
    prompt = f"{plain.prompt} {game.hint_for(sample)}"
    assert hinted == plain._replace(prompt=prompt), "a hint only follows the question"


def replies(view: View) -> Iterator[str]:
    """Yield every kind of reply to a view: each option as text, as letter and as both, then nonsense."""
    for index, option in enumerate(view.options + view.categories):
        mark = letter(index)
        yield from (option, mark, f"{mark}.", f"{mark}. {option}", option.upper(), f" {option} ")
    yield from ODD


def walk(game: Scenario, sample: Sample, mode: Mode, pick: Callable[[View, int], str], turns: int) -> list[Step]:
    """Play one episode, or its first ``turns``; ``pick(view, number)`` chooses the reply."""
    state, steps = game.initial(sample, mode, seed=SEED), list[Step]()
    while state.ending is None and len(steps) < turns:
        view = game.view(sample, state)
        state, turn = game.step(sample, state, pick(view, len(steps)))
        steps.append((view, turn, state))
    return steps


def check_reply(game: Scenario, sample: Sample, state: State, reply: str) -> None:
    """Check that a first reply gets one verdict per side, and advances or ends the game."""
    next_state, turn = game.step(sample, state, reply)
    assert next_state.turn == state.turn + 1, "step() must count one turn"
    assert turn.reply == reply, "a turn must keep the reply unchanged"
    assert turn.move is None or turn.option is Verdict.CORRECT, "only a right suggestion makes a move"
    right = turn.category is Verdict.CORRECT
    assert (next_state.ending is Ending.CORRECT) == right, "a right category ends the episode"
    assert not right or turn.action is Action.CATEGORY, "a right category has the action CATEGORY"
    if turn.option is not Verdict.CORRECT and not right:
        at_limit = turn.action is Action.SUGGESTION and next_state.turn == game.limit(sample)
        assert next_state.ending is (Ending.LIMIT if at_limit else Ending.WRONG), "any other reply ends it wrong"
    sides = (turn.option, turn.category)
    unparsable = turn.action is Action.UNPARSABLE
    assert not unparsable or sides == (Verdict.MISMATCH, Verdict.MISMATCH), "an unparsable reply names no option"
    assert state.mode is not Mode.REFERENCE or next_state.ending is not None, "reference lasts one turn"


def check_episode(game: Scenario, sample: Sample, mode: Mode) -> None:
    """Check that suggestions end within the limit, equal arguments give equal values, and ``solve`` ends right."""

    def ask(view: View, number: int) -> str:
        asks = suggestions(view.options)
        return asks[number % len(asks)] if asks else view.categories[0]

    limit = game.limit(sample)
    steps = walk(game, sample, mode, ask, limit + 1)
    _, _, last = steps[-1]
    assert last.ending is not None and len(steps) <= limit, "repeated suggestions must end within limit(sample)"
    assert last.ending not in UNSCORED, "the game must not end with an error or an open answer"
    assert steps == walk(game, sample, mode, ask, limit + 1), "the same arguments must give the same values"
    assert pickle.loads(pickle.dumps((sample, steps))) == (sample, steps), "samples, states and turns must pickle"
    assert mode is Mode.RANDOM or game.solution(sample, mode)[-1].ending is Ending.CORRECT, "solve() must end right"
    try:
        game.step(sample, last, "A")
    except ValueError:
        return
    raise AssertionError("step() must raise ValueError for an episode that has ended")
