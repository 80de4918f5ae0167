"""Finished episodes as columns: the form in which they travel and are stored, one list a column, no nested rows."""

from __future__ import annotations

from typing import Any

from actors.play import Episode, Shown
from envs.types import Action, Ending, OpenAnswer
from sweeps.spec import Cell, Protocol

Columns = dict[str, list[Any]]

EPISODE_COLUMNS = (
    "key", "cell", "model", "scenario", "condition", "protocol", "sample_id", "seed", "ending", "correct", "turns",
    "suggestions", "abstentions", "categories", "unparsable", "error", "seconds", "prompt_tokens", "reply_tokens", "cost",
)  # fmt: skip
TURN_COLUMNS = ("key", "turn", "frame", "image", "reply", "option", "category", "action", "move")


class Block:
    """Rows of finished episodes with their ordinals, filled one episode at a time and turned into columns at the end."""

    def __init__(self) -> None:
        self.ordinals: list[int] = []
        self._episodes: list[tuple[Any, ...]] = []
        self._turns: list[tuple[Any, ...]] = []

    def __len__(self) -> int:
        return len(self.ordinals)

    def add(self, ordinal: int, cell: Cell, episode: Episode) -> None:
        """Append one finished episode."""
        self.ordinals.append(ordinal)
        self._episodes.append(episode_row(cell, episode))
        self._turns += [turn_row(episode.key, number, shown) for number, shown in enumerate(episode.turns)]

    @property
    def episodes(self) -> Columns:
        """The episodes as columns."""
        return _columns(EPISODE_COLUMNS, self._episodes)

    @property
    def turns(self) -> Columns:
        """The turns as columns, those of one episode together and in order."""
        return _columns(TURN_COLUMNS, self._turns)

    def content(self) -> dict[str, Any]:
        """What goes over the wire: ``{"ordinals": [...], "episodes": {...}, "turns": {...}}``."""
        return {"ordinals": self.ordinals, "episodes": self.episodes, "turns": self.turns}


def _columns(names: tuple[str, ...], rows: list[tuple[Any, ...]]) -> Columns:
    if not rows:
        return {name: [] for name in names}
    return {name: list(values) for name, values in zip(names, zip(*rows, strict=True), strict=True)}


def episode_row(cell: Cell, episode: Episode) -> tuple[Any, ...]:
    """One row of the episodes table, in the order of ``EPISODE_COLUMNS``; an open-ended answer is neither right nor wrong."""
    did = [None if isinstance(shown.turn, OpenAnswer) else shown.turn.action for shown in episode.turns]
    correct = None if cell.protocol is Protocol.OEG else episode.ending is Ending.CORRECT
    prompt = reply = 0
    cost = 0.0
    for shown in episode.turns:
        prompt += shown.reply.prompt_tokens
        reply += shown.reply.reply_tokens
        cost += shown.reply.cost
    return (
        episode.key, cell.key, cell.model.name, cell.scenario, cell.condition.name,
        cell.protocol.value, episode.sample.id, episode.seed, episode.ending.value, correct,
        len(did), did.count(Action.SUGGESTION), did.count(Action.ABSTENTION), did.count(Action.CATEGORY),
        did.count(Action.UNPARSABLE), episode.error, episode.seconds, prompt, reply, cost,
    )  # fmt: skip


def turn_row(key: str, number: int, shown: Shown) -> tuple[Any, ...]:
    """One row of the turns table, in the order of ``TURN_COLUMNS``; of an open-ended answer there is only the text."""
    turn = shown.turn
    if isinstance(turn, OpenAnswer):
        return (key, number, turn.frame, shown.image.key, turn.reply, None, None, None, None)
    move = None if turn.move is None else turn.move.value
    return (
        key, number, turn.frame, shown.image.key, turn.reply, turn.option.value, turn.category.value, turn.action.value, move,
    )  # fmt: skip
