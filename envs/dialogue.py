"""Open-ended generation over several turns: the list that a judge marks, and the option that its marks stand for.

Equal marks, samples and seeds give equal options, which multiple choice then plays.

Source: section 4.2 of the paper ("every inapplicable suggestion is mapped to a random valid one") and table 10. The paper
publishes no judge wording or code for it; docs/decisions/0010-open-ended-turns.md explains our reading.
"""

from collections.abc import Sequence
from typing import NamedTuple

from envs import SCENARIOS
from envs.chance import chance
from envs.openended import WORDING
from envs.scenario import suggestions
from envs.types import Sample, State

VERSION = "turns-1"
"""Part of the key of every such episode: raise it when the list, the instruction or the choice below changes."""
OTHER = "Asks for anything else that would help to see or to know: any other request, proposal or condition"
DECLINES = "Says that it cannot tell, and asks for nothing"

TURN_TASK: str = WORDING["task"].format(**WORDING["turn"])
"""The task of the one-turn judge with two of its sentences changed."""


class TurnChoices(NamedTuple):
    """The statements that a judge marks, in this order: ``asks``, ``OTHER``, ``DECLINES``, ``categories``."""

    asks: tuple[str, ...]
    """The suggestions that count now."""
    categories: tuple[str, ...]

    @property
    def lines(self) -> tuple[str, ...]:
        """Return the judge's list, without final dots."""
        return (*map(plain, self.asks), OTHER, DECLINES, *map(plain, self.categories))


def turn_choices(sample: Sample, state: State) -> TurnChoices:
    """Return the choices of a judge at this state."""
    return TurnChoices(SCENARIOS[sample.scenario].askable(sample, state), sample.categories)


def option_from_marks(sample: Sample, state: State, marks: Sequence[bool]) -> str:
    """Return the option that the marks of ``TurnChoices.lines`` stand for; empty if they name none.

    The first of these that applies: the right category, if it counts now and no other category is marked; for a request, a
    suggestion, drawn from the marked ones, or else from all that count, or else from all that are offered; a marked category,
    a wrong one if several are marked; the abstention.
    """
    game, choice = SCENARIOS[sample.scenario], turn_choices(sample, state)
    count = len(choice.asks)
    asks = [ask for ask, yes in zip(choice.asks, marks[:count], strict=True) if yes]
    other, declines = marks[count : count + 2]
    named = [category for category, yes in zip(choice.categories, marks[count + 2 :], strict=True) if yes]
    if named == [sample.answer] and game.answerable(sample, state):
        return sample.answer
    if asks or other:
        possible = asks or choice.asks or suggestions(game.offered(sample, state))
        rng = chance(state.seed, sample.scenario, sample.id, f"request-{state.turn}")
        return rng.choice(possible) if possible else ""
    if named:
        return next((category for category in named if category != sample.answer), named[0])
    return next((o for o in sample.options if o not in suggestions(sample.options)), "") if declines else ""


def plain(text: str) -> str:
    """Return an option without its final dot."""
    return text.rstrip(". ")
