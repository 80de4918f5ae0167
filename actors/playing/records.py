"""Rows of the tables episodes, turns, options and verdicts, and the batches in which a worker sends them to the driver.

The row types are the only definition of each table: the store derives its Parquet schemas from their fields, in order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple

from actors.engine.backend import Reply
from actors.playing.judge import Judged
from actors.playing.option_scores import ScoredReply
from actors.playing.play import Episode, PlayedTurn
from actors.playing.state_graph import build_graph
from actors.text.printable import one_line
from envs.openended import Bits
from envs.types import Action, CalledTurn, Ending, JudgedTurn, OpenAnswer, Turn
from sweeps.spec import Cell, Protocol

Columns = dict[str, list[Any]]
"""Column name -> values; all lists of one table have the same length."""
REUSE = ("cached_tokens", "pictures", "cached_pictures")
"""Fields of a ``Reply`` that an engine may not report."""
Int32 = Annotated[int, 32]
"""A count, stored in 32 bits; a plain ``int`` is stored in 64."""


class EpisodeRow(NamedTuple):
    """One row per episode."""

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
    """Null for an open-ended answer, which a judge scores, and for a decision map, which has no score."""
    turns: Int32
    suggestions: Int32
    abstentions: Int32
    categories: Int32
    unparsable: Int32
    error: str | None
    """Null if there was none."""
    seconds: float
    prompt_tokens: int
    reply_tokens: int
    cost: float
    cached_tokens: int | None
    """As in ``Reply``, over all turns: null if an engine does not report it, and in parts of earlier versions."""
    pictures: Int32 | None
    cached_pictures: Int32 | None


class TurnRow(NamedTuple):
    """One row per answered question; option to move are null for the only answer of open-ended generation."""

    key: str
    turn: Int32
    frame: Int32
    image: str
    reply: str
    option: str | None
    category: str | None
    action: str | None
    move: str | None
    """Null also if the reply asked for no move."""
    read_as: str | None
    """The option that an answer of ``oeg-multi`` or a call of ``tools`` maps to, empty if none; null in other protocols."""
    judged: str | None
    """The judge's reply about an answer of ``oeg-multi``, reasoning included; null in other protocols."""


class OptionRow(NamedTuple):
    """One row per option of a question of ``every-state``, and one per question for its residual."""

    key: str
    model: str
    scenario: str
    condition: str
    sample_id: int
    order: Int32
    """0 for the published order of options, else the number of a seeded one."""
    turn: Int32
    """Number of the question, as in ``TurnRow``."""
    frame: Int32
    image: str
    position: Int32
    """Of the option as shown, from 0; -1 for the residual."""
    option: str | None
    """Null for the residual: all replies that name no option."""
    kind: str
    """``suggestion``, ``abstention``, ``right`` or ``wrong`` (a category), ``residual``."""
    log_probability: float
    """Natural logarithm, ``-inf`` for a probability of zero."""
    greedy: bool
    """True for the option that greedy decoding names; false throughout if replies were sampled."""
    samples: Int32 | None
    """Number of sampled replies of which the probability is a share; null if it is exact."""


class VerdictRow(NamedTuple):
    """One row per verdict. The three bits are null if the judge gave none; ``reason`` is then why."""

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
    """Strict bits are read from the first reply by the package's rule (``envs.openended.strict_verdict``); null without one."""
    strict_suggestion: bool | None
    strict_aggregate: bool | None


@dataclass(frozen=True, slots=True)
class EpisodeBatch:
    """Finished episodes and their turns, in the same order."""

    ordinals: list[int]
    """The plan's number of each episode."""
    episodes: Columns
    """The fields of ``EpisodeRow``."""
    turns: Columns
    """The fields of ``TurnRow``."""
    rejected: frozenset[int] = frozenset()
    """Ordinals of the rejected episodes (``Episode.rejected``)."""
    options: Columns = field(default_factory=lambda: to_columns(OptionRow, []))
    """The fields of ``OptionRow``; empty columns but for ``every-state``."""


@dataclass(frozen=True, slots=True)
class VerdictBatch:
    """Verdicts on stored answers."""

    ordinals: list[int]
    """The plan's number of each verdict's episode."""
    verdicts: Columns
    """The fields of ``VerdictRow``."""


class PlayedEpisode(NamedTuple):
    """A played episode with its ordinal and cell."""

    ordinal: int
    cell: Cell
    episode: Episode


class JudgedAnswer(NamedTuple):
    """A judged answer with its episode's ordinal, cell, sample and key."""

    ordinal: int
    cell: Cell
    sample_id: int
    key: str
    judged: Judged


def episode_batch(played: Sequence[PlayedEpisode]) -> EpisodeBatch:
    """Return finished episodes as a batch of columns."""
    return EpisodeBatch(
        [ordinal for ordinal, _, _ in played],
        to_columns(EpisodeRow, [episode_row(cell, episode) for _, cell, episode in played]),
        to_columns(
            TurnRow, [turn_row(each.key, n, turn) for _, _, each in played for n, turn in enumerate(each.turns)]
        ),
        frozenset(ordinal for ordinal, _, episode in played if episode.rejected),
        to_columns(OptionRow, [row for _, cell, episode in played for row in option_rows(cell, episode)]),
    )


def verdict_batch(judge: str, answers: Sequence[JudgedAnswer]) -> VerdictBatch:
    """Return judged answers as a batch of columns; ``judge`` is the key (``actors.playing.judge_runner.judge_key``)."""
    rows = [verdict_row(judge, answer) for answer in answers]
    return VerdictBatch([answer.ordinal for answer in answers], to_columns(VerdictRow, rows))


def to_columns(row_type: type[NamedTuple], rows: Sequence[tuple[Any, ...]]) -> Columns:
    """Return the columns of these rows; without rows, each is empty."""
    return {name: [row[index] for row in rows] for index, name in enumerate(row_type._fields)}


def episode_row(cell: Cell, episode: Episode) -> EpisodeRow:
    """Return the row of an episode; an open-ended answer is neither right nor wrong."""
    replies = [turn.reply for turn in episode.turns]
    actions = Counter(_game_turn(turn.turn).action for turn in episode.turns if not isinstance(turn.turn, OpenAnswer))
    unscored = cell.protocol is Protocol.OEG or cell.condition.unscored
    correct = None if unscored else episode.ending is Ending.CORRECT
    turns = len(replies) + (episode.ending is Ending.OVERFLOW)  # counts the turn whose request was too long
    error = None if episode.error is None else one_line(episode.error)
    return EpisodeRow(
        episode.key, cell.key, cell.model.name, cell.scenario, cell.condition.name,
        cell.protocol.value, episode.sample.id, episode.seed, episode.ending.value, correct,
        turns, actions[Action.SUGGESTION], actions[Action.ABSTENTION], actions[Action.CATEGORY],
        actions[Action.UNPARSABLE], error, episode.seconds,
        sum(reply.prompt_tokens for reply in replies), sum(reply.reply_tokens for reply in replies),
        sum((reply.cost for reply in replies), 0.0), *(_total(replies, field) for field in REUSE),
    )  # fmt: skip


def _total(replies: Sequence[Reply], field: str) -> int | None:
    """Return the sum of a field; None without replies, or if any reply lacks it."""
    counts = [getattr(reply, field) for reply in replies]
    return None if not counts or None in counts else sum(counts)


def turn_row(key: str, number: int, played: PlayedTurn) -> TurnRow:
    """Return the row of a turn; an answer that is judged after the episode has only its text."""
    turn, image = played.turn, played.image.key
    if isinstance(turn, OpenAnswer):
        return TurnRow(key, number, turn.frame, image, turn.reply, None, None, None, None, None, None)
    step = _game_turn(turn)
    read_as = None if isinstance(turn, Turn) else turn.option
    judged = turn.judged if isinstance(turn, JudgedTurn) else None
    move = None if step.move is None else step.move.value
    return TurnRow(
        key, number, step.frame, image, step.reply, step.option.value, step.category.value, step.action.value, move,
        read_as, judged,
    )  # fmt: skip


def option_rows(cell: Cell, episode: Episode) -> Iterator[OptionRow]:
    """Yield the rows of all options that an episode asked about; none but for ``every-state``."""
    scored = [(number, turn, turn.reply) for number, turn in enumerate(episode.turns)]
    if not any(isinstance(reply, ScoredReply) for _, _, reply in scored):
        return
    graph = build_graph(episode.sample, cell.condition)
    names = episode.key, cell.model.name, cell.scenario, cell.condition.name, episode.sample.id, cell.condition.order
    for number, turn, reply in scored:
        assert isinstance(reply, ScoredReply)
        options = (*graph.questions[number].options, None)
        for position, (option, score) in enumerate(zip(options, reply.options, strict=True)):
            kind = "residual" if option is None else graph.kind(number, position)
            place = (number, graph.questions[number].state.frame, turn.image.key, -1 if option is None else position)
            yield OptionRow(*names, *place, option, kind, score.log_probability, score.greedy, reply.samples)


def _game_turn(turn: Turn | JudgedTurn | CalledTurn) -> Turn:
    return turn if isinstance(turn, Turn) else turn.turn


def verdict_row(judge: str, answer: JudgedAnswer) -> VerdictRow:
    """Return the row of a verdict."""
    cell, judged = answer.cell, answer.judged
    return VerdictRow(
        answer.key, judge, cell.key, cell.model.name, cell.scenario, cell.condition.name, answer.sample_id,
        *_nullable_bits(judged.bits), one_line(judged.reason) or None, judged.first_failed, judged.attempts, judged.text,
        judged.seconds, judged.prompt_tokens, judged.reply_tokens, judged.cost, *_nullable_bits(judged.strict),
    )  # fmt: skip


def _nullable_bits(bits: Bits | None) -> tuple[bool | None, bool | None, bool | None]:
    return (None, None, None) if bits is None else (bits.category, bits.suggestion, bits.aggregate)
