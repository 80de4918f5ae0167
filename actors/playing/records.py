"""Rows of the tables episodes, turns and verdicts, and the batches of columns in which a worker sends them to the driver.

The row types are the only definition of each table: the store derives its Parquet schemas from their fields, in order.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from operator import attrgetter
from typing import Annotated, Any, NamedTuple

from actors.playing.judge import Judged
from actors.playing.play import Episode, PlayedTurn
from actors.text.printable import one_line
from envs.openended import Bits
from envs.types import Action, CalledTurn, Ending, JudgedTurn, OpenAnswer, Turn
from sweeps.spec import Cell, Protocol

Columns = dict[str, list[Any]]
"""Column name -> values; all lists of one table have the same length."""
COUNTED = attrgetter("cached_tokens", "pictures", "cached_pictures")
"""Of a ``Reply``: what an engine may not tell."""
Int32 = Annotated[int, 32]
"""A count, stored in 32 bits; a plain ``int`` is stored in 64."""


class EpisodeRow(NamedTuple):
    """One row an episode."""

    key: str
    cell: str
    model: str
    scenario: str
    condition: str
    protocol: str
    sample_id: int
    seed: int
    ending: str
    correct: bool | None
    """Null for an open-ended answer, which is a judge's matter, and for a decision map, which has none."""
    turns: Int32
    suggestions: Int32
    abstentions: Int32
    categories: Int32
    unparsable: Int32
    error: str | None
    """Null where there was none."""
    seconds: float
    prompt_tokens: int
    reply_tokens: int
    cost: float
    cached_tokens: int | None
    """As in ``Reply``, over all turns: null where an engine does not tell, and in parts of earlier versions."""
    pictures: Int32 | None
    cached_pictures: Int32 | None


class TurnRow(NamedTuple):
    """One row an answered question; option to move are null for the only answer of open-ended generation."""

    key: str
    turn: Int32
    frame: Int32
    image: str
    reply: str
    option: str | None
    category: str | None
    action: str | None
    move: str | None
    """Null also where the reply asked for no move."""
    read_as: str | None
    """The option that an answer of ``oeg-multi`` or a call of ``tools`` stands for, empty where none; null in the others."""
    judged: str | None
    """The judge's reply about an answer of ``oeg-multi``, reasoning included; null in the other protocols."""


class VerdictRow(NamedTuple):
    """One row a verdict. The three bits are null where the judge gave none (unjudged), and ``reason`` says why."""

    key: str
    judge: str
    cell: str
    model: str
    scenario: str
    condition: str
    sample_id: int
    category: bool | None
    suggestion: bool | None
    aggregate: bool | None
    reason: str | None
    first_failed: bool
    attempts: Int32
    text: str
    seconds: float
    prompt_tokens: int
    reply_tokens: int
    cost: float
    strict_category: bool | None
    """The strict bits are what the package makes of the first reply (``envs.openended.strict_verdict``), null where none came."""
    strict_suggestion: bool | None
    strict_aggregate: bool | None


@dataclass(frozen=True, slots=True)
class EpisodeBatch:
    """Finished episodes with their turns, those of one episode together and in order."""

    ordinals: list[int]
    """The plan's number of each episode."""
    episodes: Columns
    """The fields of ``EpisodeRow``."""
    turns: Columns
    """The fields of ``TurnRow``."""
    rejected: frozenset[int] = frozenset()
    """Ordinals of episodes that ended because the engine itself refused a request for good: no picture, no overflow."""


@dataclass(frozen=True, slots=True)
class VerdictBatch:
    """Verdicts on stored answers."""

    ordinals: list[int]
    """The plan's number of the episode that each verdict is about."""
    verdicts: Columns
    """The fields of ``VerdictRow``."""


class PlayedEpisode(NamedTuple):
    """What playing one ordinal gave."""

    ordinal: int
    cell: Cell
    episode: Episode


class JudgedAnswer(NamedTuple):
    """What a judge said of one answer."""

    ordinal: int
    cell: Cell
    sample_id: int
    key: str
    """The episode's."""
    judged: Judged


class EpisodeRows:
    """Builds an ``EpisodeBatch``, one episode at a time."""

    def __init__(self) -> None:
        self._ordinals: list[int] = []
        self._episodes: list[EpisodeRow] = []
        self._turns: list[TurnRow] = []
        self._rejected: set[int] = set()

    def __len__(self) -> int:
        return len(self._ordinals)

    def add(self, played: PlayedEpisode) -> None:
        """Append one finished episode."""
        ordinal, cell, episode = played
        self._ordinals.append(ordinal)
        if episode.rejected:
            self._rejected.add(ordinal)
        self._episodes.append(episode_row(cell, episode))
        self._turns += [turn_row(episode.key, number, turn) for number, turn in enumerate(episode.turns)]

    def batch(self) -> EpisodeBatch:
        """All episodes so far, as columns."""
        episodes, turns = columns(EpisodeRow._fields, self._episodes), columns(TurnRow._fields, self._turns)
        return EpisodeBatch(self._ordinals, episodes, turns, frozenset(self._rejected))


class VerdictRows:
    """Builds a ``VerdictBatch``, one verdict at a time."""

    def __init__(self, judge: str) -> None:
        """``judge`` is the judge's key (``actors.playing.judge_runner.judge_key``)."""
        self.judge = judge
        self._ordinals: list[int] = []
        self._verdicts: list[VerdictRow] = []

    def __len__(self) -> int:
        return len(self._ordinals)

    def add(self, answer: JudgedAnswer) -> None:
        """Append one verdict; without bits it says why there are none."""
        self._ordinals.append(answer.ordinal)
        self._verdicts.append(verdict_row(self.judge, answer))

    def batch(self) -> VerdictBatch:
        """All verdicts so far, as columns."""
        return VerdictBatch(self._ordinals, columns(VerdictRow._fields, self._verdicts))


def columns(names: tuple[str, ...], rows: Iterable[tuple[Any, ...]]) -> Columns:
    """Rows of one table turned into columns; every column is there when no row is."""
    values_by_column = [list(values) for values in zip(*rows, strict=True)] or [[] for _ in names]
    return dict(zip(names, values_by_column, strict=True))


def episode_row(cell: Cell, episode: Episode) -> EpisodeRow:
    """One row of the table episodes; an open-ended answer is neither right nor wrong."""
    actions = [None if isinstance(played.turn, OpenAnswer) else _turn(played.turn).action for played in episode.turns]
    unscored = cell.protocol is Protocol.OEG or cell.condition.every_frame
    correct = None if unscored else episode.ending is Ending.CORRECT
    turns = len(actions) + (episode.ending is Ending.OVERFLOW)  # the turn that could not be asked is one, too
    error = None if episode.error is None else one_line(episode.error)
    prompt = reply = 0
    cost = 0.0
    for shown in episode.turns:
        prompt += shown.reply.prompt_tokens
        reply += shown.reply.reply_tokens
        cost += shown.reply.cost
    return EpisodeRow(
        episode.key, cell.key, cell.model.name, cell.scenario, cell.condition.name,
        cell.protocol.value, episode.sample.id, episode.seed, episode.ending.value, correct,
        turns, actions.count(Action.SUGGESTION), actions.count(Action.ABSTENTION), actions.count(Action.CATEGORY),
        actions.count(Action.UNPARSABLE), error, episode.seconds, prompt, reply, cost, *_reuse(episode),
    )  # fmt: skip


def _reuse(episode: Episode) -> tuple[int | None, ...]:
    """cached_tokens, pictures and cached_pictures of an episode: None where any of its replies has None."""
    counts = zip(*(COUNTED(played.reply) for played in episode.turns), strict=True)
    return tuple(None if None in each else sum(each) for each in counts) or (None, None, None)


def turn_row(key: str, number: int, played: PlayedTurn) -> TurnRow:
    """One row of the table turns; of an answer that a judge reads later there is only the text."""
    turn, image = played.turn, played.image.key
    if isinstance(turn, OpenAnswer):
        return TurnRow(key, number, turn.frame, image, turn.reply, None, None, None, None, None, None)
    did = _turn(turn)
    read_as = None if isinstance(turn, Turn) else turn.option
    judged = turn.judged if isinstance(turn, JudgedTurn) else None
    move = None if did.move is None else did.move.value
    return TurnRow(
        key, number, did.frame, image, did.reply, did.option.value, did.category.value, did.action.value, move,
        read_as, judged,
    )  # fmt: skip


def _turn(turn: Turn | JudgedTurn | CalledTurn) -> Turn:
    return turn if isinstance(turn, Turn) else turn.turn


def verdict_row(judge: str, answer: JudgedAnswer) -> VerdictRow:
    """One row of the table verdicts."""
    cell, judged = answer.cell, answer.judged
    return VerdictRow(
        answer.key, judge, cell.key, cell.model.name, cell.scenario, cell.condition.name, answer.sample_id,
        *_three(judged.bits), one_line(judged.reason) or None, judged.first_failed, judged.attempts, judged.text, judged.seconds,
        judged.prompt_tokens, judged.reply_tokens, judged.cost, *_three(judged.strict),
    )  # fmt: skip


def _three(bits: Bits | None) -> tuple[bool | None, bool | None, bool | None]:
    return (None, None, None) if bits is None else (bits.category, bits.suggestion, bits.aggregate)
