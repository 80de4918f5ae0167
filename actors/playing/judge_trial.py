"""Stops a judge whose replies hold no verdicts: its first answers are a trial, and a judge that fails it is asked no more.

Until one answer has a verdict, a worker sends its judge at most ``FIRST_ANSWERS`` answers; the others wait.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from actors.engine.backend import ModelStopped
from actors.playing.judge import Judged, Verdict

FIRST_ANSWERS = 20
"""A judge that has given no verdict after this many answers is stopped."""
LONG_TRIAL = 100
"""After this many answers, a judge is stopped unless at least ``MIN_SHARE`` of them have a verdict."""
MIN_SHARE = 0.05


def reads_nothing(verdicts: int, judged: int) -> bool:
    """Return True if a judge gave a verdict on none of the judged answers, or on too few of at least ``LONG_TRIAL``."""
    return (judged > 0 and verdicts == 0) or (judged >= LONG_TRIAL and verdicts < MIN_SHARE * judged)


@dataclass
class JudgeTrial:
    """The counts of one judge in one worker."""

    name: str
    passed: bool = False
    """True once enough answers have a verdict, in this worker or elsewhere."""
    verdicts: int = 0
    """Answers that got a verdict."""
    judged_count: int = 0
    """All answers that were judged, with or without a verdict."""
    running: int = 0
    """Answers that are being judged."""
    last_reason: str = ""
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def run(self, judging: Callable[[], Awaitable[Judged[Verdict]]]) -> Judged[Verdict]:
        """Judge one answer once it is admitted, and count it; raises ModelStopped after a failed trial."""
        async with self.changed:
            await self.changed.wait_for(
                lambda: self.passed or self.failed or self.verdicts or self.judged_count + self.running < FIRST_ANSWERS
            )
            if self.failed:
                count = f"{self.verdicts or 'no'} verdict{'s' * (self.verdicts > 1)}"
                raise ModelStopped(
                    f"{self.name} gave {count} on its first {self.judged_count} answers, so it is stopped and asked no more;"
                    f" the last: {self.last_reason}"
                )
            self.running += 1
        try:
            judged = await judging()
        except BaseException:
            self.running -= 1
            raise
        async with self.changed:
            self.running -= 1
            self.judged_count += 1
            self.verdicts += not judged.reason
            self.last_reason = judged.reason or self.last_reason
            self.passed |= self.judged_count >= LONG_TRIAL and not self.failed
            self.changed.notify_all()
        return judged

    @property
    def failed(self) -> bool:
        """True if the judge is to be stopped."""
        if self.passed or self.judged_count < FIRST_ANSWERS:
            return False
        return reads_nothing(self.verdicts, self.judged_count)
