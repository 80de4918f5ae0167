"""Plays one episode: pose a turn, await the reply, read it, until the game ends.

``play`` is the loop of all protocols; ``episode_rules`` poses and reads the turns of each. The loop knows no cluster and no
store: the same replies always give the same episode.
"""

from collections.abc import Sequence
from time import perf_counter
from typing import NamedTuple

from actors.engine.backend import ENDS_EPISODE, Backend, Message, Overflow, Refused, Reply, Request, Unprocessable
from actors.playing.episode_rules import (
    EpisodeRules,
    FunctionCalls,
    JudgedAnswers,
    MultipleChoice,
    OneAnswer,
    PlayedTurn,
)
from actors.playing.judge import NoVerdict, TurnJudge, derive_seed
from actors.playing.prompts import Past
from actors.playing.rows import OptionRow
from envs.installed import find_offer
from envs.types import UNSCORED, Ending, Sample, State
from sweeps.spec import Cell, ModelSpec, Protocol


class Episode(NamedTuple):
    """One sample, played to its end by one model under one condition."""

    key: str
    sample: Sample
    seed: int
    turns: tuple[PlayedTurn, ...]
    ending: Ending
    error: str | None
    seconds: float
    options: tuple[OptionRow, ...] = ()
    """Rows of the table of options (``EpisodeRules.option_rows``)."""
    rejected: bool = False
    """True if the engine refused a request for a reason other than a picture, its length, or a content filter."""


async def play(
    sample: Sample,
    cell: Cell,
    backend: Backend,
    key: str,
    seed: int,
    examples: Sequence[Message] = (),
    judge: TurnJudge | None = None,
) -> Episode:
    """Play one episode; a request that can never be answered ends it. Raises BackendDied and ModelStopped: it is pending again.

    Args:
        sample: The sample as its condition shows it (``prompts.apply_condition``).
        key: The episode's key, which also seeds the judge.
        seed: Decides random-proactive moves and, with the turn's number, the decoding of every turn.
        examples: Solved examples of multiple choice.
        judge: Reads the answers of ``oeg-multi``; required for that protocol.
    """
    start, turns, past = perf_counter(), list[PlayedTurn](), list[Past]()
    rules = select_rules(sample, cell, key, seed, examples, judge)
    state, ending, refusal = rules.initial(), None, None
    while ending is None:
        prompt = rules.pose(state, past)
        turn_seed = derive_seed(seed, state.turn)
        request = Request(prompt.messages, cell.sampling, turn_seed, prompt.situation, key, prompt.tools)
        try:
            check_pictures(prompt.messages, cell.model)
            reply = await rules.ask(backend, request)
            state, turn = await rules.read(prompt, reply.text)
        except (*ENDS_EPISODE, Refused, NoVerdict) as problem:
            ending, refusal = refusal_ending(problem, cell.protocol), problem
        else:
            turns.append(PlayedTurn(turn, prompt.image, reply))
            past.append((prompt.situation.view, reply.text))
            ending = state.ending if reply.text or cell.condition.rules else ending_after(state, reply)
    error = None if refusal is None else str(refusal)
    rejected = type(refusal) is Unprocessable
    options = rules.option_rows(key, cell.model.name, turns)
    return Episode(key, sample, seed, tuple(turns), ending, error, perf_counter() - start, options, rejected)


def select_rules(
    sample: Sample, cell: Cell, key: str, seed: int, examples: Sequence[Message], judge: TurnJudge | None
) -> EpisodeRules:
    """Return the rules of the cell's protocol."""
    match cell.protocol:
        case Protocol.OEG:
            return OneAnswer(sample, cell.condition, seed)
        case Protocol.OEG_MULTI:
            assert judge is not None, "oeg-multi needs a judge"
            return JudgedAnswers(sample, cell.condition, seed, judge, key)
        case Protocol.TOOLS:
            return FunctionCalls(sample, cell.condition, seed, native=cell.model.calls_natively)
        case Protocol.MCQA:
            rules = find_offer("condition", cell.condition.rules).load() if cell.condition.rules else MultipleChoice
            return rules(sample, cell.condition, seed, examples)


def refusal_ending(problem: Exception, protocol: Protocol) -> Ending:
    """Return the ending of an episode with a request that can never be answered."""
    if isinstance(problem, NoVerdict):
        return Ending.FAILED
    if isinstance(problem, Refused):
        return Ending.REFUSED
    is_overflow = isinstance(problem, Overflow) and protocol is not Protocol.OEG  # which sends one picture
    return Ending.OVERFLOW if is_overflow else Ending.UNPROCESSABLE


def ending_after(state: State, reply: Reply) -> Ending | None:
    """Return how the episode ended after a reply, None if it goes on; an empty reply may have spent its tokens on thoughts."""
    if not reply.text and reply.thought:
        return Ending.THOUGHTS_CUT
    is_spent = not reply.text and reply.finish == "length" and state.ending not in (None, *UNSCORED)
    return Ending.TRUNCATED if is_spent else state.ending


def check_pictures(conversation: Sequence[Message], model: ModelSpec) -> None:
    """Raise Overflow if the conversation has more pictures than the model's entry allows."""
    if model.max_images is None:
        return
    pictures = sum(len(message.images) for message in conversation)
    if pictures > model.max_images:
        raise Overflow(f"{model.name}: the prompt has {pictures} pictures, the model takes {model.max_images}")
