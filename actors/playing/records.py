"""The rows of finished episodes and verdicts, and the batches in which a worker sends them to the driver."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, NamedTuple

from actors.engine.backend import Reply
from actors.playing.episode_rules import PlayedTurn
from actors.playing.judge import Judged
from actors.playing.play import Episode
from actors.playing.rows import EpisodeRow, OptionRow, TurnRow, VerdictRow
from actors.text.printable import one_line
from envs.openended import Bits
from envs.types import Action, Ending, Sample, Turn
from sweeps.spec import Cell, Protocol

Columns = dict[str, list[Any]]
"""Column name -> values; all lists of one table have the same length."""
COUNTED_ACTIONS = Action.SUGGESTION, Action.ABSTENTION, Action.CATEGORY, Action.UNPARSABLE
"""Actions in the order of their columns."""
USAGE_FIELDS = ("prompt_tokens", "reply_tokens", "cost", "cached_tokens", "pictures", "cached_pictures")
"""Fields of a ``Reply`` in the order of the columns with their sums."""
NO_USAGE = (0, 0, 0.0, None, None, None)
read_usage = attrgetter(*USAGE_FIELDS)


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
    """The fields of ``OptionRow``; without rows unless the condition is ``every-state``."""


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


class AnswerTask(NamedTuple):
    """The question that an answer belongs to."""

    cell: Cell
    sample: Sample
    key: str
    """The key under which the verdict is stored."""


class JudgedAnswer(NamedTuple):
    """A judged answer with its episode's ordinal."""

    ordinal: int
    task: AnswerTask
    judged: Judged[Bits]


def episode_batch(played: Sequence[PlayedEpisode]) -> EpisodeBatch:
    """Return finished episodes as a batch of columns."""
    turns = [turn_row(episode.key, n, turn) for _, _, episode in played for n, turn in enumerate(episode.turns)]
    return EpisodeBatch(
        [ordinal for ordinal, _, _ in played],
        to_columns(EpisodeRow, [episode_row(cell, episode) for _, cell, episode in played]),
        to_columns(TurnRow, turns),
        frozenset([ordinal for ordinal, _, episode in played if episode.rejected]),
        to_columns(OptionRow, [row for _, _, episode in played for row in episode.options]),
    )


def verdict_batch(judge: str, answers: Sequence[JudgedAnswer]) -> VerdictBatch:
    """Return judged answers as a batch of columns; ``judge`` is the key (``actors.playing.judge_runner.judge_key``)."""
    rows = [verdict_row(judge, answer) for answer in answers]
    return VerdictBatch([answer.ordinal for answer in answers], to_columns(VerdictRow, rows))


def to_columns(row_type: type[NamedTuple], rows: Sequence[tuple[Any, ...]]) -> Columns:
    """Return the columns of these rows; every column is empty if there are no rows."""
    columns = map(list, zip(*rows, strict=True)) if rows else ([] for _ in row_type._fields)
    return dict(zip(row_type._fields, columns, strict=True))


def episode_row(cell: Cell, episode: Episode) -> EpisodeRow:
    """Return the row of an episode; an open-ended answer is neither right nor wrong."""
    turns, ending = episode.turns, episode.ending
    unscored = cell.protocol is Protocol.OEG or cell.condition.rules
    asked = len(turns) + (ending is Ending.OVERFLOW)  # counts the turn whose request was too long
    actions = [played.turn.action for played in turns if isinstance(played.turn, Turn)]
    suggestions, abstentions, categories, unparsable = map(actions.count, COUNTED_ACTIONS)
    return EpisodeRow(
        episode.key, cell.key, cell.model.name, cell.scenario, cell.condition.name, str(cell.protocol),
        episode.sample.id, episode.seed, str(ending), None if unscored else ending is Ending.CORRECT, asked,
        suggestions, abstentions, categories, unparsable, None if episode.error is None else one_line(episode.error),
        episode.seconds, *_sum_usage([played.reply for played in turns]),
    )  # fmt: skip


def _sum_usage(replies: Sequence[Reply]) -> Sequence[Any]:
    """Return the sum of each of ``USAGE_FIELDS``; None if a reply does not report it, or nothing was asked."""
    if len(replies) == 1:  # the usual case
        return read_usage(replies[0])
    columns = zip(*map(read_usage, replies), strict=True)
    return [None if None in column else sum(column) for column in columns] or NO_USAGE


def turn_row(key: str, number: int, played: PlayedTurn) -> TurnRow:
    """Return the row of a turn; an answer that is judged after the episode has only its text."""
    turn, image, last = played.turn, played.image.key, (played.reply.note or None, played.reply.thought or None)
    if not isinstance(turn, Turn):
        return TurnRow(key, number, turn.frame, image, turn.reply, None, None, None, None, None, None, *last)
    move = None if turn.move is None else str(turn.move)
    return TurnRow(
        key, number, turn.frame, image, turn.reply, str(turn.option), str(turn.category), str(turn.action), move,
        turn.read_as, turn.judged, *last,
    )  # fmt: skip


def verdict_row(judge: str, answer: JudgedAnswer) -> VerdictRow:
    """Return the row of a verdict."""
    (cell, sample, key), judged = answer.task, answer.judged
    prompt_tokens, reply_tokens, cost, *_ = _sum_usage(judged.replies)
    return VerdictRow(
        key, judge, cell.key, cell.model.name, cell.scenario, cell.condition.name, sample.id,
        *_nullable_bits(judged.verdict), one_line(judged.reason) or None, judged.attempts > 1 or judged.verdict is None,
        judged.attempts, judged.text, judged.seconds, prompt_tokens, reply_tokens, cost, *_nullable_bits(judged.strict),
    )  # fmt: skip


def _nullable_bits(bits: Bits | None) -> tuple[bool | None, bool | None, bool | None]:
    return (None, None, None) if bits is None else (bits.category, bits.suggestion, bits.aggregate)
