"""Forms batches of waiting requests: the oldest first, then the most similar ones. No batch waits until it is full."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from threading import Condition
from time import perf_counter
from typing import Any

from actors.engine.backend import Request, images_of
from envs.types import ImageRef


@dataclass(eq=False)
class Job:
    """One request on its way through the model."""

    request: Request
    pictures: Mapping[ImageRef, Any]
    """Cropped and resized pixels."""
    work: Callable[..., Any] | None = None
    """What to do with the model and this job's batch instead of writing a reply."""
    answer: Future[Any] = field(default_factory=Future)
    """A ``Reply``, or the result of ``work``."""
    created: float = field(default_factory=perf_counter)

    @property
    def kind(self) -> Hashable:
        """The properties that jobs of one batch share."""
        return self.request.sampling, len(images_of(self.request.messages)), self.work is None

    @property
    def length(self) -> int:
        """Characters of the conversation: close enough to tokens to keep padding short."""
        return sum(len(message.text) for message in self.request.messages)


class JobQueue:
    """A queue of jobs, filled by the event loop and emptied by the model's thread."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []
        self.closing_error: BaseException | None = None
        """The error that callers get once the queue is closed; None while it is open."""
        self.changed = Condition()

    def put(self, job: Job) -> None:
        """Append a job; raises ``closing_error`` if the queue is closed."""
        with self.changed:
            self.check()
            self.jobs.append(job)
            self.changed.notify()

    def check(self) -> None:
        """Raise ``closing_error`` if the queue is closed."""
        if self.closing_error is not None:
            raise self.closing_error

    def take(self, limit: int) -> list[Job]:
        """Take the oldest job and similar ones, at most ``limit``; wait while the queue is empty, return [] once it is closed.

        Jobs of cancelled callers are dropped.
        """
        with self.changed:
            self.changed.wait_for(lambda: self.jobs or self.closing_error is not None)
            batch = similar_jobs(self.jobs, limit)
            self.jobs = [job for job in self.jobs if job not in batch]
        return [job for job in batch if job.answer.running() or job.answer.set_running_or_notify_cancel()]

    def put_back(self, jobs: Sequence[Job]) -> None:
        """Put taken jobs back at the front; they fail with ``closing_error`` if the queue is closed."""
        with self.changed:
            reason = self.closing_error
            if reason is None:
                self.jobs = [*jobs, *self.jobs]
                self.changed.notify()
        for job in jobs if reason is not None else ():
            job.answer.set_exception(reason)

    def has_batch(self, limit: int) -> bool:
        """Return True if a full batch can be taken now."""
        with self.changed:
            return len(self.jobs) >= limit and len(similar_jobs(self.jobs, limit)) == limit

    def close(self, reason: BaseException) -> None:
        """Refuse further jobs and fail the waiting ones with ``reason``; the first reason stays."""
        with self.changed:
            self.closing_error = self.closing_error or reason
            waiting, self.jobs = self.jobs, []
            self.changed.notify_all()
        for job in waiting:
            if job.answer.running() or job.answer.set_running_or_notify_cancel():
                job.answer.set_exception(reason)


def similar_jobs(jobs: list[Job], limit: int) -> list[Job]:
    """Return the first job and those of its kind nearest in length, at most ``limit``; a job with its own work is alone."""
    if jobs and jobs[0].work:
        return jobs[:1]
    same_kind = [job for job in jobs if job.kind == jobs[0].kind]
    return same_kind[:1] + sorted(same_kind[1:], key=lambda job: abs(job.length - jobs[0].length))[: limit - 1]
