"""The finite graph of a sample's game without history: every state that play can reach, and where each option leads.

The turn number grows along every edge, so a state comes before those it leads to.
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
"""Ending -> the target of an edge that ends the episode this way."""


class Question(NamedTuple):
    """A view that the model sees at one or more states."""

    state: State
    """The first of the states with this view."""
    view: View

    @property
    def options(self) -> tuple[str, ...]:
        """Return suggestions, abstention and categories in the order shown."""
        return self.view.options + self.view.categories


@dataclass(frozen=True)
class StateGraph:
    """The states of one sample under one condition; the first is the initial one."""

    sample: Sample
    questions: tuple[Question, ...]
    """In the order of their earliest states."""
    question_indices: tuple[int, ...]
    """State -> index of its question."""
    targets: tuple[tuple[int, ...], ...]
    """State -> per option of its question, the state that it leads to or a value of ``END``."""

    def kind(self, question_index: int, option: int) -> str:
        """Return ``suggestion``, ``abstention``, or for a category ``right`` or ``wrong``, even where no category counts yet."""
        question = self.questions[question_index]
        text, offered = question.options[option], question.view.options
        if option >= len(offered):
            return "right" if text == self.sample.answer else "wrong"
        return "suggestion" if text in suggestions(offered) else "abstention"


def build_graph(sample: Sample, condition: Condition) -> StateGraph:
    """Return the graph of a sample to which ``prompts.apply_condition`` has applied the condition."""
    game = SCENARIOS[sample.scenario]
    first = game.initial(sample)
    states, index_by_state = [first], {first: 0}
    questions: list[Question] = []
    index_by_view: dict[View, int] = {}
    question_indices, targets = [], []
    for state in states:  # the loop appends to the list
        view = turn_view(sample, state, condition)
        if view not in index_by_view:
            index_by_view[view] = len(questions)
            questions.append(Question(state, view))
        question = questions[index_by_view[view]]
        edges = []
        for option in range(len(question.options)):
            next_state, _ = game.step(sample, state, _reply_naming(game, sample, state, question, option))
            if next_state.ending is None:
                next_state = without_last_move(game, sample, next_state)
                if next_state not in index_by_state:
                    index_by_state[next_state] = len(states)
                    states.append(next_state)
            edges.append(index_by_state[next_state] if next_state.ending is None else END[next_state.ending])
        question_indices.append(index_by_view[view])
        targets.append(tuple(edges))
    return StateGraph(sample, tuple(questions), tuple(question_indices), tuple(targets))


def without_last_move(game: Scenario, sample: Sample, state: State) -> State:
    """Return the state without its last move, unless the move decides the picture (ROD has one such broken file)."""
    bare = state._replace(last=None)
    return bare if game.image(sample, bare) == game.image(sample, state) else state


def read_option(sample: Sample, state: State, condition: Condition, reply: str) -> int:
    """Return the index of the option that the game reads in a reply, -1 if none."""
    text = repair_reply(sample, state, reply) if condition.lenient else reply
    return SCENARIOS[sample.scenario].named_option(sample, state, text)


def reply_forms(question: Question, option: int) -> tuple[str, ...]:
    """Return the replies that may name an option: ``text``, ``A. text``, ``A``, ``A.``, ``(A)``."""
    text, mark = question.options[option], letter(option)
    return text, f"{mark}. {text}", mark, f"{mark}.", f"({mark})"


def _reply_naming(game: Scenario, sample: Sample, state: State, question: Question, option: int) -> str:
    """Return a reply that the game reads as this option."""
    forms = reply_forms(question, option)
    return next((form for form in forms if game.named_option(sample, state, form) == option), forms[0])
