"""The rows of finished episodes and verdicts, and the batches in which a worker sends them to the driver."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from actors.engine.backend import Reply
from actors.playing.judge import Judged
from actors.playing.option_scores import ScoredReply
from actors.playing.play import Episode, PlayedTurn
from actors.playing.rows import EpisodeRow, OptionRow, TurnRow, VerdictRow
from actors.playing.state_graph import build_graph
from actors.text.printable import one_line
from envs.openended import Bits
from envs.types import Action, CalledTurn, Ending, JudgedTurn, OpenAnswer, Turn
from sweeps.spec import Cell, Protocol

Columns = dict[str, list[Any]]
"""Column name -> values; all lists of one table have the same length."""
CACHE_FIELDS = ("cached_tokens", "pictures", "cached_pictures")
"""Fields of a ``Reply`` that an engine may not report."""


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
    """Return the columns of these rows; every column is empty if there are no rows."""
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
        sum((reply.cost for reply in replies), 0.0), *(_sum_field(replies, field) for field in CACHE_FIELDS),
    )  # fmt: skip


def _sum_field(replies: Sequence[Reply], field: str) -> int | None:
    """Return the sum of a field; None if there are no replies or any of them lacks the field."""
    counts = [getattr(reply, field) for reply in replies]
    return None if not counts or None in counts else sum(counts)


def turn_row(key: str, number: int, played: PlayedTurn) -> TurnRow:
    """Return the row of a turn; an answer that is judged after the episode has only its text."""
    turn, image, note = played.turn, played.image.key, played.reply.note or None
    if isinstance(turn, OpenAnswer):
        return TurnRow(key, number, turn.frame, image, turn.reply, None, None, None, None, None, None, note)
    step = _game_turn(turn)
    read_as = None if isinstance(turn, Turn) else turn.option
    judged = turn.judged if isinstance(turn, JudgedTurn) else None
    move = None if step.move is None else step.move.value
    return TurnRow(
        key, number, step.frame, image, step.reply, step.option.value, step.category.value, step.action.value, move,
        read_as, judged, note,
    )  # fmt: skip


def option_rows(cell: Cell, episode: Episode) -> Iterator[OptionRow]:
    """Yield one row per option of each question, and one for its residual; nothing unless the condition is ``every-state``."""
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
            yield OptionRow(
                *names, *place, option, kind, score.log_probability, score.greedy, reply.samples, reply.thoughts
            )


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
