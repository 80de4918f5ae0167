"""Chat services whose answer is a function of the request, asked at a stated pace, with faults drawn from a seed.

One request meets ``FAULTS_A_REQUEST`` faults at most and outages last seconds, so no backend gives up and replies stay the same.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import Any

from tests.actors.hostile import BODIES, SHAPES, raw
from tests.actors.service import HANG, Answer, Service, completion, failure, service

FAULTS_A_REQUEST = 2
"""Of unreadable answers a backend takes three, of other failures seven, before it gives a request up."""
FAULTS: dict[str, Answer] = {**SHAPES, **BODIES, "HTTP 500": failure(500), "no answer": HANG}
AWAY: dict[str, Answer] = {
    "HTTP 503": failure(503),
    "HTTP 429": failure(429, "rate_limit_exceeded", retry_after="2"),
    "an answer cut off": raw(b"x", 502, content_length="100", connection="close"),
}
"""What a whole service says while it is away."""
REPLIES = ("A", "B", "C", "D", "a cup", "I cannot tell; please remove the object in front.")
VERDICTS = ("0,0", "0,1", "1,0", "1,1")


class Answerer:
    """What one service answers; ``asked`` counts its requests."""

    def __init__(self, name: str, texts: Sequence[str], seed: int) -> None:
        self.name, self.texts, self.chance = name, texts, random.Random(f"{name} {seed}")
        self.asked = 0
        self.share = 0.0
        """Of requests that meet a fault."""
        self.played: Counter[str] = Counter()
        """Fault -> how often it was answered."""
        self.away, self.away_until = AWAY["HTTP 503"], 0.0
        self.service: Service | None = None
        self._met: Counter[bytes] = Counter()
        self._paced = (0.0, 0.0)

    def pace(self, requests: int, seconds: float) -> None:
        """From now on so many requests take so long, however many are in flight; further ones are answered at once."""
        self.asked, self._paced = 0, (monotonic(), seconds / max(1, requests))

    def leave(self, how: str, seconds: float) -> None:
        """Answer nothing but this for so long."""
        self.away, self.away_until = AWAY[how], monotonic() + seconds

    def __call__(self, number: int, body: dict[str, Any]) -> Answer:
        assert self.service is not None
        for records in (self.service.bodies, self.service.keys, self.service.times):
            records.clear()  # an hour of pictures would fill the memory
        if monotonic() < self.away_until:
            self.service.delay = 0.05
            return self.away
        began, each = self._paced
        self.service.delay = min(8.0, max(0.0, began + self.asked * each - monotonic())) if each else 0.0
        self.asked += 1
        digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).digest()
        if self.chance.random() < self.share and self._met[digest] < FAULTS_A_REQUEST:
            self._met[digest] += 1
            name = self.chance.choice(list(FAULTS))
            self.played[name] += 1
            return FAULTS[name]
        return completion(self.texts[digest[0] % len(self.texts)])


@contextmanager
def answering(name: str, texts: Sequence[str], seed: int) -> Iterator[Answerer]:
    """Run a service of its own for the duration of the block."""
    answerer = Answerer(name, texts, seed)
    with service(answerer) as answerer.service:
        yield answerer
