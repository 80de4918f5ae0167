"""The loop that plays one episode: view, ask, read, advance, until an ending.

No cluster and no store is known here; a recorded list of replies replays to the same episode.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import perf_counter

from actors.backend import ENDS_EPISODE, Backend, Message, Overflow, Refused, Reply, Request, Situation, Unprocessable
from actors.prompts import Past, ask_openly, messages, posed, posed_openly
from actors.tool_prompts import tool_messages
from actors.turn_judge import NoVerdict, TurnJudge
from envs import SCENARIOS
from envs.frames import frames, named
from envs.lenient import forgiven
from envs.tool_calls import functions, meant, offered
from envs.types import CalledTurn, Ending, ImageRef, JudgedTurn, OpenAnswer, Sample, State, Turn
from sweeps.spec import Cell, ModelSpec, Protocol


@dataclass(frozen=True, slots=True)
class Shown:
    """A turn together with the picture it was about."""

    turn: Turn | OpenAnswer | JudgedTurn | CalledTurn
    image: ImageRef
    """``NO_PICTURE`` where it was about none."""
    reply: Reply


@dataclass(frozen=True, slots=True)
class Episode:
    """One sample, played to its end by one model under one condition."""

    key: str
    sample: Sample
    seed: int
    turns: tuple[Shown, ...]
    ending: Ending
    error: str | None
    seconds: float
    rejected: bool = False
    """Whether the engine itself refused a request for good: not for a picture, its length, or a filter."""


async def play(
    sample: Sample,
    cell: Cell,
    backend: Backend,
    key: str,
    seed: int,
    examples: Sequence[Message] = (),
    judge: TurnJudge | None = None,
) -> Episode:
    """Play one episode.

    ``seed`` decides random-proactive moves and, with the turn's number, the decoding of every turn. ``judge`` reads the answers
    of ``oeg-multi``. Raises BackendDied (the episode is pending again); a request that can never be answered ends the episode
    instead.
    """
    began = perf_counter()
    if cell.protocol is Protocol.OEG:
        return await _answer(sample, cell, backend, key, seed)
    if cell.protocol is Protocol.OEG_MULTI:
        assert judge is not None, "oeg-multi is played with a judge"
        return await _converse(sample, cell, backend, key, seed, judge)
    if cell.protocol is Protocol.TOOLS:
        return await _call(sample, cell, backend, key, seed)
    condition, game = cell.condition, SCENARIOS[sample.scenario]
    if condition.every_frame:
        return await _map(sample, cell, backend, key, seed, examples)
    state = game.initial(sample, condition.mode, seed)
    shown: list[Shown] = []
    past: list[Past] = []
    while state.ending is None:
        view = posed(sample, state, condition)
        conversation = messages(sample, view, condition, past, examples)
        try:
            reply = await _asked(conversation, Situation(sample, state, view), cell, backend, seed, key)
        except (*ENDS_EPISODE, Refused) as refusal:
            return _ended(key, sample, seed, shown, declined(refusal), refusal, began)
        read = forgiven(sample, state, reply.text) if condition.lenient else reply.text
        state, turn = game.step(sample, state, read)
        if read != reply.text:
            turn = replace(turn, reply=reply.text)
        shown.append(Shown(turn, next(iter(conversation[-1].images), view.image), reply))
        if condition.history:
            past.append((view, reply.text))
    ending = Ending.TRUNCATED if silenced(shown[-1].reply) else state.ending
    return _ended(key, sample, seed, shown, ending, None, began)


async def _map(
    sample: Sample, cell: Cell, backend: Backend, key: str, seed: int, examples: Sequence[Message]
) -> Episode:
    """One turn a picture that play could reach, nearest first: which category it shows, without anything to ask for."""
    began, shown = perf_counter(), list[Shown]()
    for state in frames(sample):
        view = posed(sample, state, cell.condition)
        conversation = messages(sample, view, cell.condition, (), examples)
        try:
            reply = await _asked(conversation, Situation(sample, state, view), cell, backend, seed, key)
        except (*ENDS_EPISODE, Refused) as refusal:
            return _ended(key, sample, seed, shown, declined(refusal), refusal, began)
        turn = named(sample, state, reply.text)
        shown.append(Shown(turn, next(iter(conversation[-1].images), view.image), reply))
    return _ended(key, sample, seed, shown, Ending.MAPPED, None, began)


async def _asked(
    conversation: tuple[Message, ...], situation: Situation, cell: Cell, backend: Backend, seed: int, key: str
) -> Reply:
    """The model's reply; raises Overflow where it takes fewer pictures, and what the backend raises."""
    within(conversation, cell.model)
    return await backend.reply(Request(conversation, cell.sampling, turn_seed(seed, situation.state), situation, key))


async def _answer(sample: Sample, cell: Cell, backend: Backend, key: str, seed: int) -> Episode:
    """The one turn of open-ended generation: the first state's picture and question, and free text back."""
    began = perf_counter()
    state = SCENARIOS[sample.scenario].initial(sample, cell.condition.mode, seed)
    view = posed_openly(sample, state, cell.condition)
    situation = Situation(sample, state, view, open_ended=True)
    request = Request((ask_openly(view),), cell.sampling, turn_seed(seed, state), situation, key)
    try:
        reply = await backend.reply(request)
    except (*ENDS_EPISODE, Refused) as refusal:
        ending = Ending.REFUSED if isinstance(refusal, Refused) else Ending.UNPROCESSABLE  # one picture: nothing grows
        return _ended(key, sample, seed, [], ending, refusal, began)
    shown = Shown(OpenAnswer(state.frame, reply.text), view.image, reply)
    return _ended(key, sample, seed, [shown], Ending.ANSWERED, None, began)


async def _converse(sample: Sample, cell: Cell, backend: Backend, key: str, seed: int, judge: TurnJudge) -> Episode:
    """Open-ended generation over several turns: the judge says which option an answer stands for, and the game goes on."""
    began, game = perf_counter(), SCENARIOS[sample.scenario]
    state, shown = game.initial(sample, cell.condition.mode, seed), list[Shown]()
    while state.ending is None:
        view = posed_openly(sample, state, cell.condition)
        situation = Situation(sample, state, view, open_ended=True)
        try:
            asked = Request((ask_openly(view),), cell.sampling, turn_seed(seed, state), situation, key)
            reply = await backend.reply(asked)
            read = await judge.read(sample, state, view, key, reply.text)
        except (*ENDS_EPISODE, Refused) as refusal:
            return _ended(key, sample, seed, shown, declined(refusal), refusal, began)
        except NoVerdict as problem:
            return _ended(key, sample, seed, shown, Ending.FAILED, problem, began)
        state, turn = game.step(sample, state, read.option)
        judged = JudgedTurn(replace(turn, reply=reply.text), read.option, read.text)
        shown.append(Shown(judged, view.image, reply))
    ending = Ending.TRUNCATED if silenced(shown[-1].reply) else state.ending
    return _ended(key, sample, seed, shown, ending, None, began)


async def _call(sample: Sample, cell: Cell, backend: Backend, key: str, seed: int) -> Episode:
    """Multiple choice by function calls: each reply is one call, which stands for an option, and the game goes on."""
    began, game = perf_counter(), SCENARIOS[sample.scenario]
    state, shown = game.initial(sample, cell.condition.mode, seed), list[Shown]()
    native = cell.model.calls_natively
    while state.ending is None:
        view = posed(sample, state, cell.condition)
        calls = offered(sample, state, view)
        known = functions(calls)
        conversation = tool_messages(view, known, cell.condition, native)
        situation = Situation(sample, state, view, calls=tuple(calls))
        request = Request(conversation, cell.sampling, turn_seed(seed, state), situation, key, known if native else ())
        try:
            reply = await backend.reply(request)
        except (*ENDS_EPISODE, Refused) as refusal:
            return _ended(key, sample, seed, shown, declined(refusal), refusal, began)
        option = meant(view, calls, reply.text)
        state, turn = game.step(sample, state, option)
        shown.append(Shown(CalledTurn(replace(turn, reply=reply.text), option), view.image, reply))
    ending = Ending.TRUNCATED if silenced(shown[-1].reply) else state.ending
    return _ended(key, sample, seed, shown, ending, None, began)


def declined(refusal: Exception) -> Ending:
    """How an episode of several turns ends whose request can never be answered."""
    if isinstance(refusal, Overflow):
        return Ending.OVERFLOW
    return Ending.REFUSED if isinstance(refusal, Refused) else Ending.UNPROCESSABLE


def silenced(reply: Reply) -> bool:
    """Whether a reply's tokens were spent before its first word: the game reads nothing in it, which ends the episode."""
    return not reply.text and reply.finish == "length"


def within(conversation: Sequence[Message], model: ModelSpec) -> None:
    """Raise Overflow where the conversation has more pictures than the model's entry says it takes."""
    pictures = sum(len(message.images) for message in conversation)
    if model.max_images is not None and pictures > model.max_images:
        raise Overflow(f"{model.name}: the prompt has {pictures} pictures, the model takes {model.max_images}")


def turn_seed(seed: int, state: State) -> int:
    """The decoding seed of one turn: 63 bits, another for every turn."""
    return (seed + state.turn * 0x9E3779B97F4A7C15) & 0x7FFFFFFFFFFFFFFF


def _ended(
    key: str, sample: Sample, seed: int, shown: list[Shown], ending: Ending, refusal: Exception | None, began: float
) -> Episode:
    error = None if refusal is None else str(refusal)
    return Episode(
        key, sample, seed, tuple(shown), ending, error, perf_counter() - began, rejected=type(refusal) is Unprocessable
    )
