"""The batches of one run and model at a service: submit, await, read, and find them again by their metadata.

Each call is repeated until the service answers; a batch is submitted once, even if the answer is lost.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from random import Random
from time import monotonic
from typing import TypeVar

import openai
from openai import AsyncOpenAI

from actors.engine.backend import BackendDied, BackendError, ModelStopped, Refused, Unprocessable
from actors.engine.openai.batch_api import BatchApi
from actors.engine.openai.batch_file import BatchFile
from actors.engine.openai.batch_reply import FINAL, ResultLine, ServiceBatch
from actors.engine.openai.rate_limit import RetryableError, backoff
from sweeps.spec import ModelSpec

FIRST_POLL_S, LAST_POLL_S = 1.0, 60.0
"""Seconds before the first poll of a batch, and at most between later ones; each pause is 1.5 times the last."""
BATCH_PATIENCE_S = 26 * 3600.0
"""Seconds for which a service may be unreachable while a batch runs: its 24-hour window and two hours."""
DELETE_PATIENCE_S = 10.0
"""Seconds spent on deleting an input file that is no longer needed."""
QUEUE_FULL = "token_limit_exceeded"
"""Error code of a batch that does not fit into the account's queue at present."""
RUN, MODEL, CEILING, REQUESTS = "proactive-sweep-run", "model", "ceiling", "requests"
"""Keys of a batch's metadata."""

Answer = TypeVar("Answer")


class FileTooLarge(Exception):
    """A file that the service refuses at this size."""


class RunBatches:
    """The batches of one run and model."""

    def __init__(
        self,
        client: AsyncOpenAI,
        model: ModelSpec,
        run: str,
        classify: Callable[[Exception], Exception],
        clean: Callable[[str], str],
    ) -> None:
        """``classify`` maps an error of the SDK to ours; ``clean`` makes a service's text safe to print."""
        self.api, self.model, self.run, self.classify, self.clean = BatchApi(client), model, run, classify, clean
        self.patience = model.endpoint.patience
        self.chance = Random(f"{run}/{model.name}")

    @property
    def metadata(self) -> dict[str, str]:
        """The metadata that marks a batch as this run's and this model's."""
        return {RUN: self.run, MODEL: self.model.name}

    async def list_earlier(self) -> list[ServiceBatch]:
        """Return the batches that earlier attempts of this run submitted, oldest first."""
        return await self._call_or_stop(lambda: self.api.list_batches(self.metadata), self.patience)

    async def submit(self, file: BatchFile) -> ServiceBatch:
        """Upload a file and submit it once; raises FileTooLarge or ModelStopped."""
        try:
            uploaded = await self._call(lambda: self.api.upload(file), self.patience)
        except Unprocessable as problem:
            raise FileTooLarge(str(problem)) from None
        figures = {CEILING: repr(file.ceiling), REQUESTS: str(len(file.ceilings)), "sha256": file.digest}
        is_retry = False

        async def create() -> ServiceBatch:
            nonlocal is_retry
            if is_retry:  # the batch may exist although its answer was lost
                for batch in await self.api.list_batches(self.metadata):
                    if batch.input_file_id == uploaded:
                        return batch
            is_retry = True
            return await self.api.create(uploaded, {**self.metadata, **figures})

        batch = await self._call_or_stop(create, self.patience)
        if not batch.carries(self.metadata):
            await self._call_or_stop(lambda: self.api.cancel(batch.id), self.patience)
            raise ModelStopped(
                f"{self.model.name}: the service keeps no metadata of batches, which resuming needs; "
                "remove batch from the model's entry"
            )
        self.report(f"batch {batch.id} is sent: {len(file.ceilings):,} requests, {file.size / 1e6:,.1f} MB")
        return batch

    async def finish(self, batch: ServiceBatch, requests: int = 0) -> ServiceBatch:
        """Wait until the batch has ended.

        Raises FileTooLarge or ModelStopped if the service refused its file, which has so many ``requests``. With 0 requests (a
        batch of an earlier attempt), a failed batch is returned like any other.
        """
        pause = FIRST_POLL_S
        while batch.status not in FINAL:
            await asyncio.sleep(pause)
            pause = min(1.5 * pause, LAST_POLL_S)
            batch = await self._call_or_stop(partial(self.api.retrieve, batch.id), BATCH_PATIENCE_S)
        self.report(f"batch {batch.id} is {batch.status}")
        if batch.status == "failed" and requests:
            await self.delete_input(batch)
            error = batch.first_error
            reason = self.clean(
                f"{self.model.name}: the service refused a batch of {requests:,} requests: {error.code}: {error.message}"
            )
            raise FileTooLarge(reason) if error.code == QUEUE_FULL and requests > 1 else ModelStopped(reason)
        return batch

    async def read_lines(self, batch: ServiceBatch) -> list[ResultLine] | None:
        """Return the lines of a batch's files, answers first; None if the service has no file of it."""
        lines: list[ResultLine] | None = None
        for file in filter(None, (batch.output_file_id, batch.error_file_id)):
            try:
                content = await self._call(partial(self.api.read_lines, file, batch.seconds), BATCH_PATIENCE_S)
            except ModelStopped as error:
                if not isinstance(error.__cause__, openai.NotFoundError):
                    raise
                self.report(f"the service no longer has file {file} of batch {batch.id}")
                continue
            lines = [*(lines or []), *content]
        return lines

    async def delete_input(self, batch: ServiceBatch) -> None:
        """Delete a batch's input file, whose pictures the service no longer needs; a failure is only reported."""
        if not batch.input_file_id:
            return
        try:
            await self._call(lambda: self.api.delete(batch.input_file_id), DELETE_PATIENCE_S)
        except BackendError as problem:
            self.report(f"input file {batch.input_file_id} stays at the service: {problem}")

    async def _call_or_stop(self, call: Callable[[], Awaitable[Answer]], patience: float) -> Answer:
        """Call as ``_call``; a refusal stops the model, because it concerns more than one request."""
        try:
            return await self._call(call, patience)
        except (Unprocessable, Refused) as problem:
            raise ModelStopped(str(problem)) from None

    async def _call(self, call: Callable[[], Awaitable[Answer]], patience: float) -> Answer:
        """Call until the service answers; raises BackendDied ``patience`` seconds after the first failure."""
        first, failures = 0.0, 0
        while True:
            try:
                return await call()
            except Exception as problem:  # the SDK may raise anything on an untrusted response
                error = self.classify(problem)
                if not isinstance(error, RetryableError):
                    raise error from problem
            first, failures = first or monotonic(), failures + 1
            if monotonic() - first > patience:
                raise BackendDied(f"{self.model.name}: no answer for {patience:g} s; last error: {error.reason}")
            await asyncio.sleep(backoff(failures, self.chance) if error.rest is None else error.rest)

    def report(self, line: str) -> None:
        """Print a line of the worker's log."""
        print(self.clean(f"{self.model.name}: {line}"), flush=True)
