"""Finished episodes as columns: the form in which they travel and are stored, one list a column, no nested rows."""

from __future__ import annotations

from collections import Counter
from typing import Any

from actors.play import Episode, Shown
from envs.types import Action, Ending
from sweeps.spec import Cell

Columns = dict[str, list[Any]]

EPISODE_COLUMNS = (
    "key", "cell", "model", "scenario", "condition", "protocol", "sample_id", "seed", "ending", "correct", "turns",
    "suggestions", "abstentions", "categories", "unparsable", "error", "seconds", "prompt_tokens", "reply_tokens", "cost",
)  # fmt: skip
TURN_COLUMNS = ("key", "turn", "frame", "image", "reply", "option", "category", "action", "move")


class Block:
    """Rows of finished episodes with their ordinals, filled one episode at a time."""

    def __init__(self) -> None:
        self.ordinals: list[int] = []
        self.episodes: Columns = {name: [] for name in EPISODE_COLUMNS}
        self.turns: Columns = {name: [] for name in TURN_COLUMNS}

    def __len__(self) -> int:
        return len(self.ordinals)

    def add(self, ordinal: int, cell: Cell, episode: Episode) -> None:
        """Append one finished episode."""
        self.ordinals.append(ordinal)
        for name, value in zip(EPISODE_COLUMNS, episode_row(cell, episode), strict=True):
            self.episodes[name].append(value)
        for number, shown in enumerate(episode.turns):
            for name, value in zip(TURN_COLUMNS, turn_row(episode.key, number, shown), strict=True):
                self.turns[name].append(value)

    def content(self) -> dict[str, Any]:
        """What goes over the wire: ``{"ordinals": [...], "episodes": {...}, "turns": {...}}``."""
        return {"ordinals": self.ordinals, "episodes": self.episodes, "turns": self.turns}


def episode_row(cell: Cell, episode: Episode) -> tuple[Any, ...]:
    """One row of the episodes table, in the order of ``EPISODE_COLUMNS``."""
    did = Counter(shown.turn.action for shown in episode.turns)
    replies = [shown.reply for shown in episode.turns]
    return (
        episode.key, cell.key, cell.model.name, cell.scenario, cell.condition.name,
        cell.protocol.value, episode.sample.id, episode.seed, episode.ending.value, episode.ending is Ending.CORRECT,
        len(episode.turns), did[Action.SUGGESTION], did[Action.ABSTENTION], did[Action.CATEGORY], did[Action.UNPARSABLE],
        episode.error, episode.seconds, sum(r.prompt_tokens for r in replies), sum(r.reply_tokens for r in replies),
        sum(r.cost for r in replies),
    )  # fmt: skip


def turn_row(key: str, number: int, shown: Shown) -> tuple[Any, ...]:
    """One row of the turns table, in the order of ``TURN_COLUMNS``."""
    turn = shown.turn
    move = None if turn.move is None else turn.move.value
    return (
        key, number, turn.frame, shown.image.key, turn.reply, turn.option.value, turn.category.value, turn.action.value, move,
    )  # fmt: skip
