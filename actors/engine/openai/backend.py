"""The backend for services with OpenAI's chat completions, such as ``vllm serve``.

A refused request ends its episode, a temporary error is retried, and an error that every request would get stops the model.
"""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from math import inf
from pathlib import Path
from random import Random
from time import monotonic, perf_counter
from typing import Any

from openai import AsyncOpenAI
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, wait_random_exponential

from actors.engine.backend import Backend, BackendDied, ModelInput, ModelStopped, Refused, Reply, Request, Unprocessable
from actors.engine.budget import Bill, Ledger, Wallet
from actors.engine.chat_format import data_url
from actors.engine.image_loader import PictureLoader
from actors.engine.in_flight import choose_in_flight
from actors.engine.openai import request_body
from actors.engine.openai.dialect import Dialect, open_client, read_key
from actors.engine.openai.rate_limit import Pace, RetryableError, Throttled
from actors.engine.openai.refusal import FieldRefused
from actors.engine.openai.reply import Answer, Tokens, UnreadableAnswer, parse_first_choice, parse_object, read_usage
from actors.text.redaction import redact_key
from envs.thoughts import MAX_THOUGHTS, split_thoughts, tidy_answer
from envs.tool_calls import encode_calls
from sweeps.spec import ModelSpec

TRIES = 14
"""Failures of one request, while others are answered, after which it is not retried; a good replica of two comes before."""
UNREADABLE_TRIES = 4
"""Unreadable answers to one request after which it is not retried: each may be billed."""
MOST_SILENT = 20
"""Replies in a row without a text, but with thoughts, that stop the model."""
REMEDY = (
    "write thinking = { budget = 2048 } in its entry, or a larger budget, turn thinking off with"
    " chat = { enable_thinking = false }, or start the server without a reasoning parser"
)
MIN_BACKOFF_S, MAX_BACKOFF_S = 0.5, 60.0
"""Smallest and largest upper bound of a back-off, in seconds."""


@dataclass
class Sending:
    """A request on its way, and the failures that it has met."""

    request: Request
    body: dict[str, Any]
    bill: Bill
    first_failed_at: float = 0.0
    failures: int = 0
    unreadable: int = 0


class OpenAIBackend(Backend):
    """One model of one service, for many concurrent requests."""

    def __init__(self, model: ModelSpec, data: Path) -> None:
        self.model, self.endpoint = model, model.endpoint
        self.key = read_key(model)
        self.client = AsyncOpenAI(
            api_key=self.key or "none",
            base_url=self.endpoint.base_url or None,
            max_retries=0,  # this module decides which errors to retry
            timeout=self.endpoint.deadline,
            http_client=open_client(),
        )
        self.pictures = PictureLoader(data, model)
        self.pace = Pace(choose_in_flight(model))
        self.wallet = Wallet(Ledger({model.name: self.endpoint.max_cost}, None, {}), model.name)
        self.dialect = Dialect(model, self.client, self.key)
        self.last_answer_at = 0.0
        """Monotonic time of the last answer to any request."""
        self.failed_at = self.next_try_at = 0.0
        """Monotonic times of the last failure, and of the next attempt of that request."""
        self.last_failure = ""
        self.silent = 0
        """Replies in a row that hold thoughts alone."""
        self.stopped: ModelStopped | None = None
        """The error that every further request raises; None while the model accepts requests."""

    async def reply(self, request: Request) -> Reply:
        """Answer the request; raises Unprocessable, Refused, BackendDied, ModelStopped or BudgetSpent.

        It is sent until there is an answer or a final error; the reply's seconds are those of the last attempt.
        """
        body, longest = await self._load_body(request), self.model.reply_limit(request.sampling)
        async with self.wallet.open(self._cost(Tokens(reply=longest))) as bill:
            sending, chance = Sending(request, body, bill), Random(request.seed)
            retry, wait = retry_if_exception_type(RetryableError), partial(self._plan_retry, sending)
            retrying = AsyncRetrying(retry=retry, wait=wait, reraise=True)
            reply: Reply = await retrying(self._send, sending, chance)
            return reply

    async def model_input(self, request: Request) -> ModelInput:
        body = await self._load_body(request)
        digest = sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
        return ModelInput(hashes={"request": digest}, decoding={k: v for k, v in body.items() if k != "messages"})

    async def _load_body(self, request: Request) -> dict[str, Any]:
        form, limit = self.endpoint.pictures, self.endpoint.largest_picture
        urls = await self.pictures.load_as(request.messages, lambda image: data_url(image, form, limit))
        return request_body.write_body(self.model, request, urls)

    def describe_trouble(self) -> str:
        rest = self.pace.resting_until - monotonic()
        if self.last_answer_at >= self.failed_at and rest <= 0:
            return ""
        seconds = max(0.0, rest, self.next_try_at - monotonic())
        return f"{self.last_failure}, next try in {seconds:.0f} s"

    def set_budget(self, ledger: Any, holder: str) -> None:
        self.wallet = Wallet(ledger, self.model.name, holder)

    def classify(self, error: Exception, sent: Mapping[str, Any] | None = None) -> Exception:
        """Return the RetryableError or BackendError for an error of the SDK; ``sent`` is the body of the request."""
        return self.dialect.classify(error, sent or {})

    async def close(self) -> None:
        self.pictures.close()
        await self.client.close()

    # -- retries ------------------------------------------------------------------------------------------------------
    async def _send(self, sending: Sending, chance: Random) -> Reply:
        async with self.pace.slot(chance) as reductions:
            if self.stopped is not None:
                raise self.stopped
            try:
                return await self._exchange(sending)
            except Throttled as error:
                longest = min(MAX_BACKOFF_S, MIN_BACKOFF_S * 2.0 ** min(self.pace.reductions, 16))
                self.pace.slow_down(reductions, chance.uniform(0, longest) if error.rest is None else error.rest)
                error.rest = 0.0  # the pace delays every caller, this one included
                raise
            except ModelStopped as reason:
                self.stopped = reason
                raise

    async def _exchange(self, sending: Sending) -> Reply:
        """Send once; raises RetryableError and BackendError."""
        start, refused, tools = perf_counter(), self.dialect.refused_fields, sending.request.tools
        body = request_body.without_fields(sending.body, refused, tools)
        try:
            fields = parse_object(await self._post(body, sending.bill))
            tokens = read_usage(fields)
            cost, seconds = self._charge(tokens, sending.bill), perf_counter() - start
            answer = parse_first_choice(fields, tools="tools" in body)
            self._note_answer()
        except UnreadableAnswer as problem:
            self._note_answer()
            problem.reason = self.dialect.clean(problem.reason)
            raise
        except Exception as problem:  # the SDK may raise anything on an untrusted response
            estimate = partial(request_body.estimate_tokens, sending.request, self.pictures.renderer.size)
            too_long = await self.dialect.is_too_long(problem, estimate)
            raise self.dialect.classify(problem, body, too_long) from None
        if reason := request_body.describe_overlong(self.model, tokens.reply, body):
            raise ModelStopped(reason)
        usage = Reply("", tokens.prompt, tokens.reply, answer.finish, seconds, cost, tokens.cached)
        return self._to_reply(answer, usage, tokens.thoughts or 0)

    def _note_answer(self) -> None:
        self.last_answer_at = monotonic()
        self.pace.speed_up()

    async def _post(self, body: dict[str, Any], bill: Bill) -> bytes:
        """Return the answer's bytes; a request that is cut off in flight is charged with the most that it may cost."""
        try:
            async with asyncio.timeout(self.endpoint.deadline):
                response = await self.client.chat.completions.with_raw_response.create(**body)
                return bytes(response.content)
        except (TimeoutError, asyncio.CancelledError):
            bill.cut_off += 1
            raise

    def _plan_retry(self, sending: Sending, state: RetryCallState) -> float:
        """Return the seconds to wait: as the service asks, else full jitter below a bound that doubles up to a minute.

        Raises an error if a retry is useless: the service answers no request at all, or fails only on this one.
        """
        error = state.outcome.exception() if state.outcome else None
        assert isinstance(error, RetryableError)
        pause = wait_random_exponential(MIN_BACKOFF_S, MAX_BACKOFF_S)(state) if error.rest is None else error.rest
        if isinstance(error, FieldRefused):
            return pause
        self.failed_at, self.last_failure = monotonic(), error.reason
        is_planned = self.next_try_at > self.failed_at
        self.next_try_at = min(self.failed_at + pause, self.next_try_at if is_planned else inf)
        name, patience = self.model.name, self.endpoint.patience
        sending.first_failed_at = sending.first_failed_at or monotonic()
        sending.failures += not isinstance(error, Throttled)
        sending.unreadable += isinstance(error, UnreadableAnswer)
        if sending.unreadable >= UNREADABLE_TRIES:
            times = sending.unreadable
            raise Unprocessable(f"{name} gave {times} answers that cannot be read; last error: {error.reason}")
        if monotonic() - max(sending.first_failed_at, self.last_answer_at) > patience:
            raise BackendDied(f"{name}: no answer for {patience:g} s; last error: {error.reason}")
        if self.last_answer_at > sending.first_failed_at and sending.failures >= TRIES // 2:
            cause = "a request fails while others are answered, by its content or one bad replica of several"
            self.dialect.say(f"{cause}: {error.reason}", "replica")
            if sending.failures >= TRIES:
                raise Unprocessable(f"{name}: {cause}; it failed {TRIES} times, last error: {error.reason}")
        return pause

    # -- answers ------------------------------------------------------------------------------------------------------
    def _to_reply(self, answer: Answer, usage: Reply, thought_tokens: int) -> Reply:
        """Return the reply of an answer; raises Refused, and ModelStopped if its replies are thoughts alone."""
        if answer.refusal:
            raise Refused(self.dialect.clean(f"{self.model.name}: {answer.refusal}"))
        thought, text = answer.thoughts[:MAX_THOUGHTS], answer.text
        if self.model.thinking:
            thought, text = (thought, tidy_answer(text)) if thought else split_thoughts(text, usage.finish == "length")
            if thought_tokens > self.model.thinking.budget:
                answer, usage, text = replace(answer, calls=()), replace(usage, finish="length"), ""
            if not text and thought_tokens:
                thought = thought or f"({thought_tokens} tokens, which the service does not show)"
        text = encode_calls(answer.calls, text) if answer.calls else text
        self.silent = self.silent + 1 if thought and not text else 0
        if self.silent >= MOST_SILENT:
            place = "reasoning_content" if answer.thoughts else "thoughts"
            raise ModelStopped(
                f"{self.model.name}: {MOST_SILENT} replies in a row have all their text in {place}; {REMEDY}"
            )
        text, thought = redact_key(text, self.key), redact_key(thought, self.key)
        return replace(usage, text=text, thought=thought, note=self.dialect.describe(answer))

    def _charge(self, tokens: Tokens, bill: Bill) -> float:
        """Put an answer on the bill, readable or not, and return its cost; with invalid counts, the most that it may cost."""
        cost = self._cost(tokens)
        bill.cost += cost
        bill.cut_off += bool(tokens.invalid)
        bill.prompt_cost = max(bill.prompt_cost or 0.0, self._cost(Tokens(tokens.prompt)))
        if tokens.invalid:
            self.dialect.say(f"invalid token counts of the service are stored as 0: {tokens.invalid}", "tokens")
        return cost

    def _cost(self, tokens: Tokens) -> float:
        prompt_price, reply_price = self.model.prices
        return (tokens.prompt * prompt_price + tokens.reply * reply_price) / 1e6  # prices are per million tokens
