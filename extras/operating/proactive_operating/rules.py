"""The rules of ``every-frame`` and ``every-state``: one question per picture, or per state that play can reach."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from actors.engine.backend import Backend, Request, Situation
from actors.playing.episode_rules import MultipleChoice, PlayedTurn, TurnPrompt
from actors.playing.prompts import Past, messages, turn_view
from actors.playing.rows import OptionRow
from envs.types import Ending, State, Turn
from proactive_operating.frames import decision_states, read_category
from proactive_operating.option_scores import SAMPLES, ScoredReply, score_options
from proactive_operating.state_graph import StateGraph, build_graph


@dataclass(frozen=True)
class EveryFrame(MultipleChoice):
    """One question per picture that play can reach, fewest moves first, without history and suggestions."""

    @cached_property
    def states(self) -> list[State]:
        """One state per picture."""
        return decision_states(self.sample)

    @property
    def requests(self) -> int:
        """The number of requests of an episode."""
        return len(self.states)

    def initial(self) -> State:
        return self.states[0]

    def pose(self, state: State, past: Sequence[Past]) -> TurnPrompt:
        view = turn_view(self.sample, state, self.condition)._replace(options=())
        conversation = messages(self.sample, view, self.condition, (), self.examples)
        return TurnPrompt(conversation, Situation(self.sample, state, view))

    def step(self, state: State, reply: str) -> tuple[State, Turn]:
        return self.state_after(state), read_category(self.sample, state, reply)

    def state_after(self, state: State) -> State:
        """Return the state that follows in ``states``; after the last one, an ended state."""
        remaining = self.states[self.states.index(state) + 1 :]
        return remaining[0] if remaining else state._replace(ending=Ending.MAPPED)


@dataclass(frozen=True)
class EveryState(EveryFrame):
    """Every question that play can reach, with the probabilities of all options; the reply is the most probable option."""

    @cached_property
    def graph(self) -> StateGraph:
        """The questions and where their options lead."""
        return build_graph(self.sample, self.condition)

    @cached_property
    def states(self) -> list[State]:
        """The earliest state of each question."""
        return [question.state for question in self.graph.questions]

    @property
    def requests(self) -> int:
        """The most requests of an episode: an engine without probabilities is asked several times."""
        return SAMPLES * len(self.states)

    def pose(self, state: State, past: Sequence[Past]) -> TurnPrompt:
        return MultipleChoice.pose(self, state, ())

    async def ask(self, backend: Backend, request: Request) -> ScoredReply:
        return await score_options(backend, request, self.condition)

    def step(self, state: State, reply: str) -> tuple[State, Turn]:
        _, turn = MultipleChoice.step(self, state, reply)
        return self.state_after(state), turn

    def option_rows(self, key: str, model: str, turns: Sequence[PlayedTurn]) -> tuple[OptionRow, ...]:
        """Return one row per option of each question, and one for its residual."""
        sample, condition = self.sample, self.condition
        names = key, model, sample.scenario, condition.name, sample.id, condition.order
        rows = []
        for number, turn in enumerate(turns):
            question, reply = self.graph.questions[number], turn.reply
            assert isinstance(reply, ScoredReply)
            options = (*question.options, None)
            for position, (option, score) in enumerate(zip(options, reply.options, strict=True)):
                kind = "residual" if option is None else self.graph.kind(number, position)
                at = (number, question.state.frame, turn.image.key, -1 if option is None else position)
                figures = score.log_probability, score.greedy, reply.samples, reply.thoughts
                rows.append(OptionRow(*names, *at, option, kind, *figures))
        return tuple(rows)
