"""The backend for services with OpenAI's Batch API: half the price, up to 24 hours per turn.

Every request is paid once: batches of earlier attempts carry the run's name in their metadata, and are awaited and read before
a new request is sent (docs/decisions/0013). Requests collect in a file until every episode in play waits for an answer.
"""

import asyncio
import json
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from actors.engine.backend import BudgetSpent, ModelStopped, Reply, Request, Unprocessable, images_of
from actors.engine.chat_format import data_url
from actors.engine.openai.backend import OpenAIBackend
from actors.engine.openai.batch_file import BatchFile, request_id, request_line
from actors.engine.openai.batch_reply import EXPIRED, FINAL, MISSING, ResultLine, ServiceBatch
from actors.engine.openai.prompt_tokens import token_rule
from actors.engine.openai.rate_limit import Price, ReservationKind, RetryableError
from actors.engine.openai.reply import Tokens, read_usage
from actors.engine.openai.run_batches import CEILING, REQUESTS, FileTooLarge, RunBatches
from actors.engine.openai.shared_budget import RemoteBudget
from envs.types import ImageRef
from sweeps.spec import ModelSpec

GATHER_S = 1.0
"""Seconds without a new request, while every episode in play waits, after which a file is sent."""
TRIES = 3
"""Batches in which a request fails before its episode ends."""
MAX_RENDERED = 16
"""Maximum number of requests with their pictures in memory."""
UNKNOWN_PICTURE = 4_096
"""Tokens assumed per picture for the ceiling, if no rule of the provider is known."""
MARK_TOKENS = 16
"""Most tokens that a message has in addition to its text, which has at most one token per byte."""


class OpenAIBatchBackend(OpenAIBackend):
    """One model of one service, for many concurrent requests, with one file per turn."""

    def __init__(self, model: ModelSpec, data: Path) -> None:
        super().__init__(model, data)
        self.batches = RunBatches(self.client, model, "", self.classify, self._clean)
        self.episodes_in_play = 0
        """Episodes in play: a file is sent when as many requests wait."""
        self.waiting: dict[str, asyncio.Future[ResultLine]] = {}
        """``custom_id`` -> future outcome of each request without an answer."""
        self.open_file = BatchFile()
        """The file that takes new requests."""
        self.earlier: dict[str, deque[ResultLine]] = {}
        """``custom_id`` -> answers of batches that earlier attempts sent, in the order to use them."""
        self.rendering = asyncio.Semaphore(MAX_RENDERED)
        self.adopting: asyncio.Task[None] | None = None
        """The task that fills ``earlier``; None before the first request."""
        self.sending: set[asyncio.Task[None]] = set()
        self.timer: asyncio.TimerHandle | None = None

    async def first_tokens(self, request: Request) -> None:
        """Return None: batches only return replies."""
        return None

    @contextmanager
    def in_play(self) -> Iterator[None]:
        self.episodes_in_play += 1
        try:
            yield
        finally:
            self.episodes_in_play -= 1
            self._restart_timer()

    def join_run(self, run: str, budget: RemoteBudget | None) -> None:
        super().join_run(run, budget)
        self.batches.run = run

    async def reply(self, request: Request) -> Reply:
        """Answer the request, up to a day later; raises Unprocessable, Refused, BackendDied, ModelStopped or BudgetSpent."""
        await self._adopt_once()
        failures = 0
        while True:
            if self.stopped is not None:
                raise self.stopped
            line, is_new = await self._answer(request)
            if line.code == EXPIRED:
                continue
            try:
                return self._read_line(line, bool(request.tools))
            except RetryableError as error:
                failures += is_new
                if failures >= TRIES:
                    raise Unprocessable(
                        f"{self.model.name} failed in {failures} batches on this request alone; last error: {error.reason}"
                    ) from None
            except ModelStopped as reason:
                self.stopped = reason
                raise

    async def close(self) -> None:
        """Close the connections; running batches continue, and the next attempt reads them. Safe to call twice."""
        for task in filter(None, (*self.sending, self.adopting)):
            task.cancel()
        if self.timer:
            self.timer.cancel()
        self.open_file.close()
        await self.batches.api.close()
        await super().close()

    # -- sending ------------------------------------------------------------------------------------------------------
    async def _answer(self, request: Request) -> tuple[ResultLine, bool]:
        """Return the outcome of a request, and True if it was sent now, not by an earlier attempt."""
        async with self.rendering:
            body, ceiling = await self._render(request)
            custom_id = request_id(request.key, body)
            if earlier := self.earlier.get(custom_id):
                return earlier.popleft(), False
            content = request_line(custom_id, body)
        if not self.open_file.fits(content):
            self._send_file()
        self.open_file.add(custom_id, content, ceiling)
        answer = self.waiting[custom_id] = asyncio.get_running_loop().create_future()
        self._restart_timer()
        try:
            return await answer, True
        finally:
            self.waiting.pop(custom_id, None)

    async def _render(self, request: Request) -> tuple[dict[str, Any], float]:
        """Return a request's body, with extra fields among the others, and the most that the request may cost."""
        form, limit = self.endpoint.pictures, self.endpoint.largest_picture
        pictures = await self.pictures.load_as(
            request.messages, lambda image: (data_url(image, form, limit), image.size)
        )
        urls: Mapping[ImageRef, str] = {ref: url for ref, (url, _) in pictures.items()}
        body = self.body(request, urls)
        extra = body.pop("extra_body")
        picture_tokens = token_rule(self.model.source) or (lambda width, height: UNKNOWN_PICTURE)
        prompt = sum(MARK_TOKENS + len(message.text.encode()) for message in request.messages)
        prompt += len(json.dumps(body.get("tools", "")))
        prompt += sum(picture_tokens(*pictures[ref][1]) for ref in images_of(request.messages))
        longest = request.sampling.max_tokens + self.endpoint.reserve
        return {**body, **extra}, self._cost(Tokens(prompt, longest))

    def _restart_timer(self) -> None:
        """Check again after ``GATHER_S`` seconds whether every episode waits."""
        if self.timer:
            self.timer.cancel()
        self.timer = asyncio.get_running_loop().call_later(GATHER_S, self._send_if_all_wait)

    def _send_if_all_wait(self) -> None:
        if self.open_file.ceilings and len(self.waiting) >= self.episodes_in_play:
            self._send_file()

    def _send_file(self) -> None:
        file, self.open_file = self.open_file, BatchFile()
        task = asyncio.create_task(self._deliver_or_fail(file))
        self.sending.add(task)
        task.add_done_callback(self.sending.discard)

    async def _deliver_or_fail(self, file: BatchFile) -> None:
        """Deliver a file; if that fails, its unanswered requests raise the error."""
        try:
            await self._deliver(file)
        except Exception as problem:  # a bug is raised by the waiting requests
            if isinstance(problem, ModelStopped):
                self.stopped = problem
            for name in file.ceilings:
                if (answer := self.waiting.get(name)) and not answer.done():
                    answer.set_exception(problem)
        finally:
            file.close()

    async def _deliver(self, file: BatchFile) -> None:
        """Send a file and hand out its answers; if it is too large, send one half after the other."""
        try:
            async with self.budget.reserve(Price(file.ceiling), ReservationKind.NEW):
                batch = await self.batches.finish(await self.batches.submit(file), len(file.ceilings))
                lines = await self._read_answers(batch, list(file.ceilings))
                self.budget.pay(self._lines_cost(lines, file.ceilings))
            self._hand_out(lines)
            return
        except (BudgetSpent, FileTooLarge) as problem:
            if len(file.ceilings) == 1:
                raise problem if isinstance(problem, BudgetSpent) else Unprocessable(str(problem)) from None
        for half in file.halves():
            try:
                await self._deliver(half)
            finally:
                half.close()

    # -- answers ------------------------------------------------------------------------------------------------------
    async def _read_answers(self, batch: ServiceBatch, names: Sequence[str]) -> list[ResultLine]:
        """Return the outcome of each request of an ended batch; a cancelled batch stops the model."""
        by_name = {line.id: line for line in reversed(await self.batches.read_lines(batch) or [])}
        absent = [name for name in names if name not in by_name]
        await self.batches.delete_input(batch)
        if absent and batch.status == "cancelled":
            self.stopped = ModelStopped(
                f"{self.model.name}: batch {self._clean(batch.id)} was cancelled at the service with {len(absent):,} requests"
                " unanswered; run again to send those"
            )
        code = EXPIRED if batch.status in ("expired", "cancelled") else MISSING
        lost = [ResultLine(name, 0, {}, code, "the service's files do not mention it") for name in absent]
        return [*by_name.values(), *lost]

    def _hand_out(self, lines: Sequence[ResultLine]) -> None:
        for line in lines:
            if (answer := self.waiting.get(line.id)) and not answer.done():
                answer.set_result(line)
        self._restart_timer()

    def _read_line(self, line: ResultLine, tools: bool) -> Reply:
        """Return the reply of a line; raises Refused, Unprocessable, ModelStopped or RetryableError."""
        if line.status == 200:
            tokens = read_usage(line.body)
            self._warn_of(tokens)
            return self._read_choice(line.body, tokens, self._cost(tokens), line.seconds, tools)
        if not line.status:
            raise RetryableError(self._clean(f"{line.code}: {line.message}"))
        raise self.classify_status(line.status, line.code, line.message, tools=tools)

    def _lines_cost(self, lines: Sequence[ResultLine], ceilings: Mapping[str, float]) -> float:
        """Return the cost of the answers; one with invalid token counts costs at least its ceiling."""
        cost = 0.0
        for line in lines:
            if line.status == 200:
                tokens = read_usage(line.body)
                billed = self._cost(tokens)
                cost += max(billed, ceilings.get(line.id, billed)) if tokens.invalid else billed
        return cost

    # -- batches of earlier attempts ----------------------------------------------------------------------------------
    async def _adopt_once(self) -> None:
        """Wait until the batches of earlier attempts are read; the first caller starts reading."""
        if self.adopting is None:
            self.adopting = asyncio.create_task(self._adopt())
        await asyncio.shield(self.adopting)

    async def _adopt(self) -> None:
        """Await the batches of earlier attempts, charge their cost and collect their answers in ``earlier``."""
        batches = await self.batches.list_earlier()
        ended = [batch for batch in batches if batch.status in FINAL]
        lines = {batch.id: await self.batches.read_lines(batch) for batch in ended}
        await self.budget.raise_spent_to(sum(self._batch_cost(batch, lines[batch.id]) for batch in ended))
        running = [batch for batch in batches if batch.status not in FINAL]
        if batches:
            self.batches.report(
                f"{len(batches):,} batches of this run are at the service, {len(running):,} of them still running"
            )
        answers = await asyncio.gather(*map(self._await_earlier, running))
        lines |= {batch.id: answer for batch, answer in zip(running, answers, strict=True)}
        for batch in batches:
            for line in lines[batch.id] or ():
                if line.status == 200:
                    self.earlier.setdefault(line.id, deque()).append(line)

    async def _await_earlier(self, running: ServiceBatch) -> list[ResultLine] | None:
        """Return the answers of a batch that an earlier attempt sent, once it has ended."""
        ceiling = running.number(CEILING)
        async with self.budget.reserve(Price(ceiling), ReservationKind.SENT):
            ended = await self.batches.finish(running)
            lines = await self.batches.read_lines(ended)
            self.budget.pay(self._batch_cost(ended, lines))
        await self.batches.delete_input(ended)
        return lines

    def _batch_cost(self, batch: ServiceBatch, lines: Sequence[ResultLine] | None) -> float:
        """Return the cost of a batch; if its files are deleted (``lines`` is None), the most that it may have cost."""
        ceiling = batch.number(CEILING)
        if lines is None:
            return ceiling if batch.status == "completed" else 0.0
        share = ceiling / max(1.0, batch.number(REQUESTS))
        return self._lines_cost(lines, {line.id: share for line in lines})
