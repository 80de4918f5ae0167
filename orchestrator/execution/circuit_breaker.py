"""The circuit breaker: a model that refuses its first 20 requests under a condition stops, and none of them is stored.

An episode whose first request the engine itself refused is held back until another episode of the same model, condition and
protocol ends otherwise, in this attempt or an earlier one. It looks at all workers' batches together, for leases can be small.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from actors.records import Columns, EpisodeBatch
from envs.types import Ending

REFUSALS_TO_STOP = 20
"""Episodes refused at their first request, and nothing else seen, after which a model stops."""
NO_EVIDENCE = (Ending.UNPROCESSABLE, Ending.FAILED)
"""Endings that show nothing where no turn was played: a picture that cannot be read, a worker that died."""


class Asked(NamedTuple):
    """What is judged together: the requests to one model under one condition."""

    model: str
    condition: str
    protocol: str


class CircuitBreaker:
    """Lets batches through, less what is held back."""

    def __init__(self, answering: Iterable[tuple[str, str, str]] = ()) -> None:
        """``answering``: model, condition, protocol of which an earlier attempt has stored an episode that was not refused."""
        self.answering = {Asked(*one) for one in answering}
        self.stopped: dict[str, str] = {}
        """Model -> why it is to stop."""
        self._held: dict[Asked, list[EpisodeBatch]] = {}

    def let_through(self, batch: EpisodeBatch) -> list[EpisodeBatch]:
        """What may be stored now: the batch less what is held back, and what was held back until this batch came."""
        asked, refused = _asked(batch), _refused(batch)
        shown = zip(asked, batch.episodes["ending"], batch.episodes["turns"], strict=True)
        self.answering |= {one for one, ending, turns in shown if turns or ending not in NO_EVIDENCE}
        hold = [no and one not in self.answering for one, no in zip(asked, refused, strict=True)]
        for one in dict.fromkeys(one for one, held in zip(asked, hold, strict=True) if held):
            self._hold(one, only(batch, [held and one == other for held, other in zip(hold, asked, strict=True)]))
        free = [one for one in self._held if one in self.answering]
        released = [held for one in free for held in self._held.pop(one)]
        return [only(batch, [not held for held in hold]) if any(hold) else batch, *released]

    def leftovers(self) -> list[EpisodeBatch]:
        """What is still held back of models that go on: fewer than ``REFUSALS_TO_STOP`` were pending."""
        held, self._held = self._held, {}
        return [batch for one, batches in held.items() if one.model not in self.stopped for batch in batches]

    def _hold(self, one: Asked, batch: EpisodeBatch) -> None:
        held = self._held.setdefault(one, [])
        held.append(batch)
        count = sum(len(part.ordinals) for part in held)
        if count >= REFUSALS_TO_STOP and one.model not in self.stopped:
            self.stopped[one.model] = (
                f"{one.model} refused all of its first {count} requests under {one.condition}, so it is stopped and none of"
                f" them is stored; the last: {batch.episodes['error'][-1]}"
            )


def _asked(batch: EpisodeBatch) -> list[Asked]:
    columns = [batch.episodes[name] for name in Asked._fields]
    return [Asked(*row) for row in zip(*columns, strict=True)]


def _refused(batch: EpisodeBatch) -> list[bool]:
    """Whether the engine itself refused each episode's first request."""
    return [
        ordinal in batch.rejected and not turns
        for ordinal, turns in zip(batch.ordinals, batch.episodes["turns"], strict=True)
    ]


def only(batch: EpisodeBatch, keep: Sequence[bool]) -> EpisodeBatch:
    """The batch without the episodes that are not to keep, their turns included."""
    keys = {key for key, wanted in zip(batch.episodes["key"], keep, strict=True) if wanted}

    def filtered(columns: Columns) -> Columns:
        rows = [key in keys for key in columns["key"]]
        return {name: [v for v, row in zip(values, rows, strict=True) if row] for name, values in columns.items()}

    ordinals = [ordinal for ordinal, wanted in zip(batch.ordinals, keep, strict=True) if wanted]
    return EpisodeBatch(ordinals, filtered(batch.episodes), filtered(batch.turns), batch.rejected)
