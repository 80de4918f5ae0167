"""The finite graph of a sample's game without history: every state that play can reach, and where each option leads.

A turn's number never falls along an edge, so that states come before those they lead to.
"""

from dataclasses import dataclass
from typing import NamedTuple

from actors.playing.prompts import turn_view
from envs import SCENARIOS
from envs.answers import letter
from envs.lenient import repair_reply
from envs.scenario import Scenario, suggestions
from envs.types import Ending, Sample, State, View
from sweeps.conditions import Condition

END = {Ending.CORRECT: -1, Ending.WRONG: -2, Ending.LIMIT: -3}
"""Ending -> the target of an edge that ends the episode so."""


class Question(NamedTuple):
    """What the model reads: the same at every state that shows it."""

    state: State
    """The earliest state that shows it."""
    view: View

    @property
    def options(self) -> tuple[str, ...]:
        """Return suggestions, abstention and categories in the order shown."""
        return self.view.options + self.view.categories

    @property
    def suggests(self) -> tuple[bool, ...]:
        """Return for each option whether it is a suggestion."""
        asks = set(suggestions(self.view.options))
        return tuple(option in asks for option in self.view.options) + (False,) * len(self.view.categories)


@dataclass(frozen=True)
class StateGraph:
    """The states of one sample under one condition; the first is the initial one."""

    sample: Sample
    questions: tuple[Question, ...]
    """In the order of their earliest states."""
    asked: tuple[int, ...]
    """State -> index of its question."""
    targets: tuple[tuple[int, ...], ...]
    """State -> per option of its question, the state that it leads to or a value of ``END``."""

    def kind(self, question: int, option: int) -> str:
        """Return ``suggestion``, ``abstention``, ``right`` or ``wrong`` (a category, whether or not one counts yet)."""
        asked = self.questions[question]
        if option >= len(asked.view.options):
            return "right" if asked.options[option] == self.sample.answer else "wrong"
        return "suggestion" if asked.suggests[option] else "abstention"


def build_graph(sample: Sample, condition: Condition) -> StateGraph:
    """Return the graph of a sample as its condition shows it (``prompts.apply_condition``)."""
    game = SCENARIOS[sample.scenario]
    first = game.initial(sample)
    states, numbers = [first], {first: 0}
    questions: dict[View, int] = {}
    listed: list[Question] = []
    asked, targets = [], []
    for state in states:  # grows while it is read
        view = turn_view(sample, state, condition)
        if view not in questions:
            questions[view] = len(listed)
            listed.append(Question(state, view))
        question = listed[questions[view]]
        edges = []
        for option in range(len(question.options)):
            following, _ = game.step(sample, state, _reply_naming(game, sample, state, question, option))
            if following.ending is None:
                following = without_last_move(game, sample, following)
                if following not in numbers:
                    numbers[following] = len(states)
                    states.append(following)
            edges.append(numbers[following] if following.ending is None else END[following.ending])
        asked.append(questions[view])
        targets.append(tuple(edges))
    return StateGraph(sample, tuple(listed), tuple(asked), tuple(targets))


def without_last_move(game: Scenario, sample: Sample, state: State) -> State:
    """Return the state without its last move, unless the move decides the picture (a broken file of ROD)."""
    bare = state._replace(last=None)
    return bare if game.image(sample, bare) == game.image(sample, state) else state


def read_option(sample: Sample, state: State, condition: Condition, reply: str) -> int:
    """Return the index of the option that the game reads in a reply, -1 if none."""
    text = repair_reply(sample, state, reply) if condition.lenient else reply
    return SCENARIOS[sample.scenario].named_option(sample, state, text)


def option_forms(question: Question, option: int) -> tuple[str, ...]:
    """Return the replies that may name an option: ``text``, ``A. text``, ``A``, ``A.``, ``(A)``."""
    text, mark = question.options[option], letter(option)
    return text, f"{mark}. {text}", mark, f"{mark}.", f"({mark})"


def _reply_naming(game: Scenario, sample: Sample, state: State, question: Question, option: int) -> str:
    """Return a reply that the game reads as this option."""
    forms = option_forms(question, option)
    return next((form for form in forms if game.named_option(sample, state, form) == option), forms[0])
