"""Requests that wait for the transformers backend, and the choice of the next batch: the oldest one and the most similar ones."""

from asyncio import Future
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, NamedTuple

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
    answer: Future[Any] | None = None
    """A ``Reply``, or the result of ``work``; None for a job that is only prepared."""
    created: float = field(default_factory=perf_counter)

    @property
    def open_answer(self) -> Future[Any] | None:
        """The future, while its caller still waits; None once it is answered or cancelled."""
        return self.answer if self.answer is not None and not self.answer.done() else None

    @property
    def kind(self) -> Hashable:
        """The properties that jobs of one batch share."""
        return self.request.sampling, len(images_of(self.request.messages)), self.work is None

    @property
    def length(self) -> int:
        """Characters of the conversation: close enough to tokens to keep padding short."""
        return sum(len(message.text) for message in self.request.messages)


class PreparedBatch(NamedTuple):
    jobs: list[Job]
    inputs: Any
    """What ``ModelAndProcessor.inputs`` returns: padded tensors on the CPU, one row per job."""


def similar_jobs(jobs: Sequence[Job], limit: int) -> list[Job]:
    """Return the first job and those of its kind nearest in length, at most ``limit``; a job with its own work is alone."""
    if jobs and jobs[0].work:
        return [jobs[0]]
    same_kind = [job for job in jobs if job.kind == jobs[0].kind]
    return same_kind[:1] + sorted(same_kind[1:], key=lambda job: abs(job.length - jobs[0].length))[: limit - 1]
