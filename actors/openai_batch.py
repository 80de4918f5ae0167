"""The backend for services through OpenAI's Batch API: half the price, up to 24 hours a turn.

Every request is paid once: what an earlier attempt has sent is found at the service by the run's name in its metadata, waited
for and read before anything new goes out (docs/decisions/0013). Requests collect in a file until every episode in play waits.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from random import Random
from time import monotonic
from typing import Any, TypeVar

import openai

from actors.backend import BackendDied, BackendError, Refused, Reply, Request, Unprocessable
from actors.chat_format import data_url
from actors.openai_backend import OpenAIBackend, Trouble
from actors.openai_batch_api import BatchApi
from actors.openai_batch_file import BatchFile, line, request_id
from actors.openai_batch_reply import EXPIRED, FINAL, MISSING, Batch, Line
from actors.openai_reply import Tokens, UnreadableAnswer, tokens
from actors.rate_limit import Batched, BudgetSpent, ModelStopped, backoff
from actors.service_pictures import rule
from envs.types import ImageRef
from sweeps.spec import ModelSpec

GATHER_S = 1.0
"""Seconds in which no request was added and every episode in play waits, after which a file goes out."""
FIRST_POLL_S, LAST_POLL_S = 1.0, 60.0
"""Seconds to the first look at a batch, and between later ones, each pause half as long again as the one before."""
BATCH_PATIENCE_S = 26 * 3600.0
"""Seconds for which a service may be out of reach while a batch is out: its window, and some."""
DELETE_PATIENCE_S = 10.0
"""Seconds for which an input file that nobody needs any more is tried to be deleted."""
TRIES = 3
"""Batches in which a request fails before its episode ends."""
RENDERED = 16
"""Requests with their pictures in memory at once."""
UNKNOWN_PICTURE = 4_096
"""Tokens that a picture counts before its batch is answered, where no rule of the provider is known."""
MARKS = 16
"""Tokens that a message may have beside its text, whose bytes bound its tokens."""
FULL = "token_limit_exceeded"
"""Error code of a batch that does not fit into the account's queue now."""
RUN, MODEL, CEILING, REQUESTS = "proactive-sweep-run", "model", "ceiling", "requests"
"""Keys of a batch's metadata."""

Answer = TypeVar("Answer")


class TooMuch(Exception):
    """The service takes no file of this size, now or ever."""


class OpenAIBatchBackend(OpenAIBackend):
    """One model of one service, asked by many episodes at once, a file a turn."""

    def __init__(self, model: ModelSpec, data: Path, run: str = "") -> None:
        """``run`` names the run folder whose batches are this one's."""
        super().__init__(model, data)
        self.run, self.api = run, BatchApi(self.client)
        self.chance = Random(f"{run}/{model.name}")
        self.playing = 0
        """Episodes in play: a file goes out when as many requests wait."""
        self.waiting: dict[str, asyncio.Future[Line]] = {}
        self.open = BatchFile()
        self.past: dict[str, deque[Line]] = {}
        """Answers of batches that earlier attempts have sent, to be taken in their order."""
        self.rendering = asyncio.Semaphore(RENDERED)
        self.adopting: asyncio.Task[None] | None = None
        self.sending: set[asyncio.Task[None]] = set()
        self.timer: asyncio.TimerHandle | None = None

    @property
    def metadata(self) -> dict[str, str]:
        """What marks a batch as this run's and this model's."""
        return {RUN: self.run, MODEL: self.model.name}

    @contextmanager
    def in_play(self) -> Iterator[None]:
        """One episode is played meanwhile."""
        self.playing += 1
        try:
            yield
        finally:
            self.playing -= 1
            self._stir()

    async def reply(self, request: Request) -> Reply:
        """Answer, up to a day later; raises Unprocessable, Refused, BackendDied, ModelStopped or BudgetSpent."""
        await self._adopted()
        failures = 0
        while True:
            if self.stopped is not None:
                raise self.stopped
            found, new = await self._answer(request)
            if found.code == EXPIRED:
                continue
            try:
                return self._read_line(found, bool(request.tools))
            except Trouble as trouble:
                failures += new
                if failures >= TRIES:
                    told = (
                        f"{self.model.name} failed in {failures} batches on this request alone; last: {trouble.reason}"
                    )
                    raise Unprocessable(told) from None
            except ModelStopped as reason:
                self.stopped = reason
                raise

    async def close(self) -> None:
        """Close the connections; batches that are out go on, and the next attempt reads them. Safe to call twice."""
        for task in (*self.sending, *([self.adopting] if self.adopting else [])):
            task.cancel()
        if self.timer:
            self.timer.cancel()
        self.open.close()
        await self.api.close()
        await super().close()

    # -- what goes out ------------------------------------------------------------------------------------------------
    async def _answer(self, request: Request) -> tuple[Line, bool]:
        """What became of a request, and whether it was sent for this."""
        async with self.rendering:
            body, ceiling = await self._rendered(request)
            name = request_id(request.key, body)
            if past := self.past.get(name):
                return past.popleft(), False
            content = line(name, body)
        if not self.open.fits(content):
            self._send()
        self.open.add(name, content, ceiling)
        answer = self.waiting[name] = asyncio.get_running_loop().create_future()
        self._stir()
        try:
            return await answer, True
        finally:
            self.waiting.pop(name, None)

    async def _rendered(self, request: Request) -> tuple[dict[str, Any], float]:
        """The body of a request as plain chat completions have it, and the most that it may cost."""
        form, limit = self.endpoint.pictures, self.endpoint.largest_picture
        shown = await self.pictures.made(request.messages, lambda image: (data_url(image, form, limit), image.size))
        urls: Mapping[ImageRef, str] = {ref: url for ref, (url, _) in shown.items()}
        body = self.body(request, urls)
        extra = body.pop("extra_body")
        counted = rule(self.model.source) or (lambda width, height: UNKNOWN_PICTURE)
        texts = sum(MARKS + len(message.text.encode()) for message in request.messages)
        texts += len(json.dumps(body.get("tools", "")))
        pictures = sum(counted(*shown[ref][1]) for message in request.messages for ref in message.images)
        longest = request.sampling.max_tokens + self.endpoint.reserve
        return {**body, **extra}, self._cost(Tokens(texts + pictures, longest))

    def _stir(self) -> None:
        """Something has changed: look again in ``GATHER_S`` whether everybody waits."""
        if self.timer:
            self.timer.cancel()
        self.timer = asyncio.get_running_loop().call_later(GATHER_S, self._look)

    def _look(self) -> None:
        if self.open.ids and len(self.waiting) >= self.playing:
            self._send()

    def _send(self) -> None:
        """Close the open file and have it sent."""
        file, self.open = self.open, BatchFile()
        task = asyncio.create_task(self._sent(file))
        self.sending.add(task)
        task.add_done_callback(self.sending.discard)

    async def _sent(self, file: BatchFile) -> None:
        """Have a file answered; whoever waits for what it could not have gets the reason."""
        try:
            await self._delivered(file)
        except Exception as problem:  # a bug travels up, through those who wait
            if isinstance(problem, ModelStopped):
                self.stopped = problem
            for name in file.ids:
                if name in self.waiting and not self.waiting[name].done():
                    self.waiting[name].set_exception(problem)
        finally:
            file.close()

    async def _delivered(self, file: BatchFile) -> None:
        """Send a file and hand out its answers; halves of it one after the other where it is too much at once."""
        try:
            async with self.budget.hold(lambda: file.ceiling, Batched.NEW):
                found = await self._results(await self._finished(await self._submitted(file)))
                self.budget.pay(self._paid(found, file.ids))
            self._hand_out(found)
            return
        except (BudgetSpent, TooMuch) as problem:
            if len(file.ids) == 1:
                raise problem if isinstance(problem, BudgetSpent) else Unprocessable(str(problem)) from None
        for half in file.halves():
            try:
                await self._delivered(half)
            finally:
                half.close()

    async def _submitted(self, file: BatchFile) -> tuple[Batch, Sequence[str]]:
        """The batch of a file, made once however often the service is asked, and the requests in it."""
        try:
            uploaded = await self._persist(lambda: self.api.upload(file), self.endpoint.patience)
        except Unprocessable as problem:
            raise TooMuch(str(problem)) from None
        more = {CEILING: repr(file.ceiling), REQUESTS: str(len(file.ids)), "sha256": file.digest}
        tried = False

        async def created() -> Batch:
            nonlocal tried
            if tried:  # an answer that was lost on its way may have been of a batch that was made
                known = [one for one in await self.api.listed(self.metadata) if one.input_file == uploaded]
                if known:
                    return known[0]
            tried = True
            return await self.api.create(uploaded, {**self.metadata, **more})

        batch = await self._finally(created, self.endpoint.patience)
        if not self.metadata.items() <= batch.metadata.items():
            await self._finally(lambda: self.api.cancel(batch.id), self.endpoint.patience)
            raise ModelStopped(
                f"{self.model.name}: the service keeps no metadata of batches, by which they are found again; leave batch out"
            )
        self._say(f"batch {batch.id} is sent: {len(file.ids):,} requests, {file.size / 1e6:,.1f} MB")
        return batch, list(file.ids)

    # -- what comes back ----------------------------------------------------------------------------------------------
    async def _finished(self, sent: tuple[Batch, Sequence[str]]) -> tuple[Batch, Sequence[str]]:
        """The batch once nothing changes any more; raises TooMuch or ModelStopped where its file was refused."""
        batch, names = sent
        pause = FIRST_POLL_S
        while batch.status not in FINAL:
            await asyncio.sleep(pause)
            pause = min(1.5 * pause, LAST_POLL_S)
            batch = await self._finally(partial(self.api.retrieve, batch.id), BATCH_PATIENCE_S)
        self._say(f"batch {batch.id} is {batch.status}")
        if batch.status == "failed" and names:
            await self._forgotten(batch.input_file)
            told = f"{self.model.name}: the service refused a batch of {len(names):,} requests: {batch.code}: {batch.problem}"
            if batch.code == FULL and len(names) > 1:
                raise TooMuch(self._clean(told))
            raise ModelStopped(self._clean(told))
        return batch, names

    async def _results(self, ended: tuple[Batch, Sequence[str]]) -> list[Line]:
        """What became of each request of a batch; raises ModelStopped where somebody cancelled it."""
        batch, names = ended
        found = {one.id: one for one in reversed(await self._lines(batch) or [])}
        absent = [name for name in names if name not in found]
        if batch.input_file:
            await self._forgotten(batch.input_file)
        if absent and batch.status == "cancelled":
            self.stopped = ModelStopped(
                f"{self.model.name}: batch {self._clean(batch.id)} was cancelled at the service with {len(absent):,} requests"
                " unanswered; run again to send those"
            )
        code = EXPIRED if batch.status in ("expired", "cancelled") else MISSING
        lost = [Line(name, 0, {}, code, "the service's files do not mention it") for name in absent]
        return [*found.values(), *lost]

    async def _lines(self, batch: Batch) -> list[Line] | None:
        """The lines of a batch's files, answers first; None where the service has none of them any more."""
        seconds = max(0.0, batch.ended - batch.created)
        found: list[Line] | None = None
        for file in filter(None, (batch.output_file, batch.error_file)):
            try:
                lines = await self._persist(partial(self.api.lines, file, seconds), BATCH_PATIENCE_S)
            except ModelStopped as gone:
                if not isinstance(gone.__cause__, openai.NotFoundError):
                    raise
                self._say(f"the service has no file {file} of batch {batch.id} any more")
                continue
            found = [*(found or []), *lines]
        return found

    def _hand_out(self, found: Sequence[Line]) -> None:
        for one in found:
            if one.id in self.waiting and not self.waiting[one.id].done():
                self.waiting[one.id].set_result(one)
        self._stir()

    def _read_line(self, found: Line, tools: bool) -> Reply:
        """The reply of a line; raises Refused, Unprocessable, ModelStopped or Trouble."""
        if found.status == 200:
            used = tokens(found.body)
            self._warn_of(used)
            return self._said(found.body, used, self._cost(used), found.seconds, tools)
        if not found.status:
            raise Trouble(self._clean(f"{found.code}: {found.message}"))
        raise self.refusal(found.status, found.code, found.message, tools=tools)

    def _paid(self, found: Sequence[Line], ceilings: Mapping[str, float]) -> float:
        """What the answers cost; where counts are odd, the most that it may have been."""
        used = [(one, tokens(one.body)) for one in found if one.status == 200]
        return sum(max(self._cost(u), ceilings.get(one.id, 0.0)) if u.odd else self._cost(u) for one, u in used)

    # -- what earlier attempts have sent ------------------------------------------------------------------------------
    async def _adopted(self) -> None:
        """Wait until all earlier batches of this run are read; the first caller begins it."""
        if self.adopting is None:
            self.adopting = asyncio.create_task(self._adopt())
        await asyncio.shield(self.adopting)

    async def _adopt(self) -> None:
        known = await self._finally(lambda: self.api.listed(self.metadata), self.endpoint.patience)
        ended = [one for one in known if one.status in FINAL]
        lines = {one.id: await self._lines(one) for one in ended}
        await self.budget.at_least(sum(self._cost_of(one, lines[one.id]) for one in ended))
        running = [one for one in known if one.status not in FINAL]
        if known:
            self._say(f"{len(known):,} batches of this run are at the service, {len(running):,} of them under way")
        for one, found in zip(running, await asyncio.gather(*map(self._awaited, running)), strict=True):
            lines[one.id] = found
        for one in known:
            for answer in lines[one.id] or ():
                if answer.status == 200:
                    self.past.setdefault(answer.id, deque()).append(answer)

    async def _awaited(self, running: Batch) -> list[Line] | None:
        """The answers of a batch that an earlier attempt has sent, once it has ended."""
        ceiling = _number(running.metadata.get(CEILING, ""))
        async with self.budget.hold(lambda: ceiling, Batched.SENT):
            ended, _ = await self._finished((running, ()))
            found = await self._lines(ended)
            self.budget.pay(self._cost_of(ended, found))
        if ended.input_file:
            await self._forgotten(ended.input_file)
        return found

    def _cost_of(self, batch: Batch, found: Sequence[Line] | None) -> float:
        """What a batch cost, or where its files are gone, the most that it may have cost."""
        ceiling = _number(batch.metadata.get(CEILING, ""))
        if found is None:
            return ceiling if batch.status == "completed" else 0.0
        each = ceiling / max(1.0, _number(batch.metadata.get(REQUESTS, "")))
        return self._paid(found, {one.id: each for one in found})

    async def _forgotten(self, file: str) -> None:
        """Delete an input file, whose pictures nobody needs at the service any more; a failure is no trouble."""
        try:
            await self._persist(lambda: self.api.delete(file), DELETE_PATIENCE_S)
        except BackendError as problem:
            self._say(f"input file {file} stays at the service: {problem}")

    # -- patience -----------------------------------------------------------------------------------------------------
    async def _finally(self, call: Callable[[], Awaitable[Answer]], patience: float) -> Answer:
        """As ``_persist``, where a refusal is of no one request and stops the model."""
        try:
            return await self._persist(call, patience)
        except (Unprocessable, Refused) as problem:
            raise ModelStopped(str(problem)) from None

    async def _persist(self, call: Callable[[], Awaitable[Answer]], patience: float) -> Answer:
        """Call until there is an answer; raises BackendDied after ``patience`` seconds, and what a refusal means."""
        first, failures = 0.0, 0
        while True:
            try:
                return await call()
            except (UnreadableAnswer, ValueError) as odd:
                trouble = Trouble(self._clean(f"{type(odd).__name__}: {odd}"))
            except Exception as error:  # what the SDK raises on an untrusted response is not for us to list
                meaning = self.meaning(error)
                if not isinstance(meaning, Trouble):
                    raise meaning from error
                trouble = meaning
            first, failures = first or monotonic(), failures + 1
            if monotonic() - first > patience:
                raise BackendDied(f"{self.model.name}: no answer for {patience:g} s; last: {trouble.reason}")
            await asyncio.sleep(backoff(failures, self.chance) if trouble.rest is None else trouble.rest)

    def _say(self, line: str) -> None:
        print(self._clean(f"{self.model.name}: {line}"), flush=True)


def _number(text: str) -> float:
    """A figure of our own metadata; 0 for what is none."""
    try:
        value = float(text)
    except ValueError:
        return 0.0
    return value if 0 <= value < 1e12 else 0.0
