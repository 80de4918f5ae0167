"""The rules of each protocol: pose a turn, read its reply, return the next state.

A package offers other rules as a subclass of ``MultipleChoice`` with the number of its ``requests`` (``Condition.rules``).

States are values: the same state and reply give the same turn and the same next state.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from actors.engine.backend import Backend, Message, Reply, Request, Situation
from actors.playing.judge import TurnJudge
from actors.playing.prompts import Past, messages, open_view, pictured, tool_messages, turn_view
from actors.playing.rows import OptionRow
from envs import SCENARIOS
from envs.lenient import repair_reply
from envs.scenario import Scenario
from envs.tool_calls import Function, called_option, functions, offered_calls
from envs.types import Ending, ImageRef, OpenAnswer, Sample, State, Turn
from sweeps.conditions import Condition


class TurnPrompt(NamedTuple):
    messages: tuple[Message, ...]
    """The conversation; its last message is the question."""
    situation: Situation
    """The state behind the question, with its view."""
    tools: tuple[Function, ...] = ()
    """Functions to send as tools; empty if they are listed in the messages."""

    @property
    def image(self) -> ImageRef:
        """The picture of the question at the size that is sent; ``NO_PICTURE`` if there is none."""
        return next(iter(self.messages[-1].images), self.situation.view.image)


class PlayedTurn(NamedTuple):
    turn: Turn | OpenAnswer
    image: ImageRef
    """``NO_PICTURE`` if the prompt has none."""
    reply: Reply


@dataclass(frozen=True)
class EpisodeRules:
    """One sample under one condition; a subclass poses the turns of its protocol and reads their replies."""

    sample: Sample
    condition: Condition
    seed: int
    """Decides random-proactive moves."""

    @property
    def game(self) -> Scenario:
        return SCENARIOS[self.sample.scenario]

    def initial(self) -> State:
        """Return the state before the first answer."""
        return self.game.initial(self.sample, self.condition.mode, self.seed)

    def pose(self, state: State, past: Sequence[Past]) -> TurnPrompt:
        """Return the prompt of this state after the ``past`` turns of the episode."""
        raise NotImplementedError

    async def ask(self, backend: Backend, request: Request) -> Reply:
        """Return the engine's reply to a posed turn; raises the errors of ``Backend.reply``."""
        return await backend.reply(request)

    async def read(self, prompt: TurnPrompt, reply: str) -> tuple[State, Turn | OpenAnswer]:
        """Return the next state, and the turn as it is stored."""
        raise NotImplementedError

    def option_rows(self, key: str, model: str, turns: Sequence[PlayedTurn]) -> tuple[OptionRow, ...]:
        """Return the rows of the table of options; the game has none, rules of packages may have some."""
        return ()


@dataclass(frozen=True)
class MultipleChoice(EpisodeRules):
    """The reply names an option by letter or by text."""

    examples: Sequence[Message] = ()
    """Solved examples that precede the question."""

    def pose(self, state: State, past: Sequence[Past]) -> TurnPrompt:
        view = turn_view(self.sample, state, self.condition)
        conversation = messages(self.sample, view, self.condition, past, self.examples)
        return TurnPrompt(conversation, Situation(self.sample, state, view))

    async def read(self, prompt: TurnPrompt, reply: str) -> tuple[State, Turn]:
        return self.step(prompt.situation.state, reply)

    def step(self, state: State, reply: str) -> tuple[State, Turn]:
        """Return the next state and the turn; raises ValueError if the episode has ended."""
        text = repair_reply(self.sample, state, reply) if self.condition.lenient else reply
        next_state, turn = self.game.step(self.sample, state, text)
        return next_state, turn if text == reply else turn._replace(reply=reply)


@dataclass(frozen=True)
class FunctionCalls(EpisodeRules):
    """The reply calls a function, which maps to an option of multiple choice."""

    native: bool = False
    """Send the functions as tools instead of listing them in the text."""

    def pose(self, state: State, past: Sequence[Past]) -> TurnPrompt:
        view = turn_view(self.sample, state, self.condition)
        calls = offered_calls(self.sample.scenario, view, self.game.askable(self.sample, state))
        tools = functions(calls)
        situation = Situation(self.sample, state, view, calls=tuple(calls))
        conversation = tool_messages(view, tools, self.condition, self.native)
        return TurnPrompt(conversation, situation, tools if self.native else ())

    async def read(self, prompt: TurnPrompt, reply: str) -> tuple[State, Turn]:
        situation = prompt.situation
        option = called_option(situation.view, situation.calls, reply)
        next_state, turn = self.game.step(self.sample, situation.state, option)
        return next_state, turn._replace(reply=reply, read_as=option)


class OneAnswer(EpisodeRules):
    """The reply is free text about the first picture; a judge scores it after the episode."""

    def pose(self, state: State, past: Sequence[Past]) -> TurnPrompt:
        view = open_view(self.sample, state, self.condition)
        return TurnPrompt((pictured(view, view.prompt),), Situation(self.sample, state, view, open_ended=True))

    async def read(self, prompt: TurnPrompt, reply: str) -> tuple[State, Turn | OpenAnswer]:
        state = prompt.situation.state
        return state._replace(ending=Ending.ANSWERED), OpenAnswer(state.frame, reply)


@dataclass(frozen=True)
class JudgedAnswers(OneAnswer):
    """Every reply is free text, which a judge maps to an option of multiple choice before the next turn."""

    judge: TurnJudge
    key: str
    """Key of the episode, which seeds the judge."""

    async def read(self, prompt: TurnPrompt, reply: str) -> tuple[State, Turn]:
        """Return the next state and the turn; raises NoVerdict and errors of the judge's engine."""
        state, view = prompt.situation.state, prompt.situation.view
        option, judged = await self.judge.read(self.sample, state, view, self.key, reply)
        next_state, turn = self.game.step(self.sample, state, option)
        return next_state, turn._replace(reply=reply, read_as=option, judged=judged)
