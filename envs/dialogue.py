"""Open-ended generation over several turns: what a judge marks in an answer, and which option those marks stand for.

The same answer, marks, sample and seed give the same option for ever; what happens then is multiple choice's own transition.

Source: section 4.2 of the paper ("every inapplicable suggestion is mapped to a random valid one") and table 10. The paper
publishes neither a judge's wording nor code for it: docs/decisions/0010-open-ended-turns.md tells what is our reading.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import NamedTuple

from envs import SCENARIOS, rulejudge
from envs.chance import chance
from envs.openended import TASK, accepted_answers, instruction
from envs.scenario import suggestions
from envs.types import Sample, State

VERSION = "turns-1"
"""Part of the key of every such episode: raise it when the list, the instruction or the choice below changes."""
OTHER = "Asks for anything else that would help to see or to know: any other request, proposal or condition"
DECLINES = "Says that it cannot tell, and asks for nothing"

TURN_TASK = TASK.replace(
    "Below is a numbered list of things a good answer may contain. For each of them decide whether the answer says it: 1 if "
    "it does, 0 if it does not.",
    "Below is a numbered list: first what can be asked for at this point, then anything else that may be asked for, then "
    "declining, then names. For each of them decide whether the answer says it: 1 if it does, 0 if it does not.",
).replace(
    '- A bare refusal ("I cannot tell", "it is unclear", "give me more information") says none of them.',
    '- Mark "Asks for anything else" only where something definite is asked for that no line before it names. A bare refusal '
    '("I cannot tell", "it is unclear", "give me more information") is declining. A request that leaves open which of several '
    "lines it means says each of them.",
)
"""The task of the one-turn judge with two of its sentences changed."""


class TurnChoices(NamedTuple):
    """Return the statements that a judge marks, in this order: ``asks``, ``OTHER``, ``DECLINES``, ``categories``."""

    asks: tuple[str, ...]
    """The suggestions that count now."""
    categories: tuple[str, ...]

    @property
    def lines(self) -> tuple[str, ...]:
        """The list as a judge reads it, without final dots."""
        return (*map(_plain, self.asks), OTHER, DECLINES, *map(_plain, self.categories))


def turn_choices(sample: Sample, state: State) -> TurnChoices:
    """Return the moves that an answer may make at this state."""
    return TurnChoices(SCENARIOS[sample.scenario].askable(sample, state), sample.categories)


def turn_instruction(question: str, lines: Sequence[str], answer: str) -> str:
    """The judge's message about one answer of several; the answer stands in a fence as in ``envs.openended``."""
    return instruction(question, lines, answer, TURN_TASK)


def option_from_marks(sample: Sample, state: State, marks: Sequence[bool]) -> str:
    """The option that the marks stand for, as text, empty where they name none; ``len(marks)`` is that of ``listed().lines``.

    The right category, where it counts now and no other is named; else a suggestion: one that is named, drawn where several
    are, or for any other request a random one that is possible; else a category, a wrong one where several are named; else the
    abstention. Where nothing is possible any more, a request is a suggestion that does not count.
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
        return request_chance(sample, state).choice(possible) if possible else ""
    if named:
        return next((category for category in named if category != sample.answer), named[0])
    return next((o for o in sample.options if o not in suggestions(sample.options)), "") if declines else ""


def request_chance(sample: Sample, state: State) -> Random:
    """The generator of this turn's draw: the same for every model, another for every turn."""
    return chance(state.seed, sample.scenario, sample.id, f"request-{state.turn}")


def rule_reply(sample: Sample, state: State, answer: str) -> str:
    """The reply of the rule judge (``envs.rulejudge``): one line a thing, then the line of 0 and 1."""
    choice, offered = turn_choices(sample, state), SCENARIOS[sample.scenario].offered(sample, state)
    others = [one for one in (*suggestions(offered), *accepted_answers(sample)) if one not in choice.asks]
    others = [one for one in others if _plain(one) not in map(_plain, sample.categories)]
    asks, other, declines, named = rulejudge.turn_marks(choice.asks, others, choice.categories, answer)
    marks = (*asks, other, declines, *named)
    reasons = [f"- {line}: {'yes' if yes else 'no'}" for line, yes in zip(choice.lines, marks, strict=True)]
    return "\n".join([*reasons, ",".join(str(int(yes)) for yes in marks)])


def _plain(text: str) -> str:
    return text.rstrip(". ")
