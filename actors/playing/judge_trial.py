"""Stops a judge that reads nothing: its first answers are its trial, and nothing more is asked if it fails it.

A worker's judge reads at most ``FIRST_ANSWERS`` answers before one has a verdict; then the others follow.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from actors.engine.backend import ModelStopped

FIRST_ANSWERS = 20
"""Answers without a verdict, with none before, after which a judge stops."""
LONG_TRIAL = 100
"""Answers of which fewer than ``MIN_SHARE`` with a verdict stop a judge."""
MIN_SHARE = 0.05


def reads_nothing(read: int, judged: int) -> bool:
    """Return True if a judge with ``read`` verdicts on ``judged`` answers reads none, or too few to count."""
    return (judged > 0 and read == 0) or (judged >= LONG_TRIAL and read < MIN_SHARE * judged)


@dataclass
class Outcome:
    """What became of one answer; ``reason`` says why it has no verdict, and is empty if it has one."""

    reason: str = "it was not read"


@dataclass
class JudgeTrial:
    """The counts of one judge in one worker."""

    name: str
    passed: bool = False
    """True once enough answers have a verdict, in this worker or elsewhere."""
    read: int = 0
    judged: int = 0
    running: int = 0
    last_reason: str = ""
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    @asynccontextmanager
    async def answer(self) -> AsyncIterator[Outcome]:
        """Judge one answer in the block, which sets the outcome; raises ModelStopped if the judge has failed its trial."""
        async with self.changed:
            await self.changed.wait_for(
                lambda: self.passed or self.failed or self.read or self.judged + self.running < FIRST_ANSWERS
            )
            if self.failed:
                verdicts = f"{self.read or 'no'} verdict{'s' * (self.read > 1)}"
                raise ModelStopped(
                    f"{self.name} gave {verdicts} on its first {self.judged} answers, so it is stopped and asked no more;"
                    f" the last: {self.last_reason}"
                )
            self.running += 1
        outcome = Outcome()
        try:
            yield outcome
        except BaseException:
            self.running -= 1
            raise
        async with self.changed:
            self.running -= 1
            self.judged += 1
            self.read += not outcome.reason
            self.last_reason = outcome.reason or self.last_reason
            self.passed |= self.judged >= LONG_TRIAL and not self.failed
            self.changed.notify_all()

    @property
    def failed(self) -> bool:
        if self.passed or self.judged < FIRST_ANSWERS:
            return False
        return reads_nothing(self.read, self.judged)
