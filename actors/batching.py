"""Forms batches of waiting requests: the oldest first, then those most similar to it; nobody waits for a batch to fill up.

No engine is imported here: what a batch is made of can be tested in milliseconds.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from threading import Condition
from time import perf_counter
from typing import Any

from actors.backend import Reply, Request
from envs.types import ImageRef


@dataclass(eq=False)
class Job:
    """One request on its way through the model."""

    request: Request
    pictures: Mapping[ImageRef, Any]
    """Pixels, already cropped and resized."""
    answer: Future[Reply] = field(default_factory=Future)
    asked: float = field(default_factory=perf_counter)

    @property
    def kind(self) -> Hashable:
        """Jobs of one kind can share a batch: the same decoding, the same number of pictures."""
        return self.request.sampling, sum(len(message.images) for message in self.request.messages)

    @property
    def length(self) -> int:
        """Characters of the conversation: close enough to tokens to keep padding short."""
        return sum(len(message.text) for message in self.request.messages)


class Waiting:
    """Jobs that wait for the model; filled by the event loop, emptied by the model's thread."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []
        self.closed: BaseException | None = None
        """Why nothing is taken any more."""
        self.changed = Condition()

    def put(self, job: Job) -> None:
        """Queue a job; raises the reason when the room is closed."""
        with self.changed:
            self.check()
            self.jobs.append(job)
            self.changed.notify()

    def check(self) -> None:
        """Raise the reason if the room is closed."""
        if self.closed is not None:
            raise self.closed

    def take(self, most: int) -> list[Job]:
        """The oldest job and up to ``most - 1`` like it, nearest in length; blocks until there is one, [] once closed.

        Jobs whose caller has gone away are dropped.
        """
        with self.changed:
            self.changed.wait_for(lambda: self.jobs or self.closed is not None)
            taken = company(self.jobs, most)
            self.jobs = [job for job in self.jobs if job not in taken]
        return [job for job in taken if job.answer.running() or job.answer.set_running_or_notify_cancel()]

    def give_back(self, jobs: Sequence[Job]) -> None:
        """Put jobs that were taken before all others; they get the reason where the room is closed."""
        with self.changed:
            reason = self.closed
            if reason is None:
                self.jobs = [*jobs, *self.jobs]
                self.changed.notify()
        for job in jobs if reason is not None else ():
            job.answer.set_exception(reason)

    def full(self, most: int) -> bool:
        """Whether a whole batch could be taken now."""
        with self.changed:
            return len(self.jobs) >= most and len(company(self.jobs, most)) == most

    def close(self, reason: BaseException) -> None:
        """Take nothing more; whoever waits gets ``reason``. The first reason stays."""
        with self.changed:
            self.closed = self.closed or reason
            left, self.jobs = self.jobs, []
            self.changed.notify_all()
        for job in left:
            if job.answer.running() or job.answer.set_running_or_notify_cancel():
                job.answer.set_exception(reason)


def company(jobs: list[Job], most: int) -> list[Job]:
    """The first job and those of its kind nearest to it in length, at most ``most``."""
    if not jobs:
        return []
    oldest = jobs[0]
    alike = [job for job in jobs[1:] if job.kind == oldest.kind]
    alike.sort(key=lambda job: abs(job.length - oldest.length))
    return [oldest, *alike[: most - 1]]
