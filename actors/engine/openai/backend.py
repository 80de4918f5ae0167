"""The backend for services with OpenAI's chat completions, such as ``vllm serve``.

A refused request ends its episode, a temporary error is retried, and an error that every request would get stops the model.
The SDK's own retries are off, because this module decides which errors to retry.
"""

import asyncio
import json
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from random import Random
from time import monotonic, perf_counter
from typing import Any

import openai
from openai import AsyncOpenAI

from actors.engine.backend import (
    Backend,
    BackendDied,
    BackendError,
    FirstTokenReply,
    ModelInput,
    ModelStopped,
    Refused,
    Reply,
    Request,
    Unprocessable,
)
from actors.engine.chat_format import Part, conversation, data_url, function_schema
from actors.engine.image_loader import PictureLoader
from actors.engine.in_flight import expected_in_flight
from actors.engine.openai import http_client
from actors.engine.openai.first_tokens import NoLogprobs, add_first_tokens, first_token_body
from actors.engine.openai.prompt_tokens import picture_tokens, text_tokens
from actors.engine.openai.rate_limit import Budget, Pace, Price, RetryableError, backoff, retry_after
from actors.engine.openai.reply import Tokens, UnreadableAnswer, parse_first_choice, parse_object, read_usage
from actors.engine.openai.server_fields import check_length, length_field, server_fields
from actors.engine.openai.shared_budget import RemoteBudget
from actors.engine.openai.status_errors import error_of_status
from actors.text.printable import one_line
from actors.text.redaction import redact_key
from envs.tool_calls import encode_calls
from envs.types import ImageRef
from sweeps.spec import ModelSpec

TRIES = 8
"""Failures of one request, while others succeed, after which it is not retried."""
UNREADABLE_TRIES = 4
"""Unreadable answers to one request after which it is not retried: each may be billed."""
REASON_LENGTH = 300
"""Maximum characters of a service's message in a reason."""
MILLION = 1e6


class OpenAIBackend(Backend):
    """One model of one service, for many concurrent requests."""

    def __init__(self, model: ModelSpec, data: Path) -> None:
        self.model, self.endpoint = model, model.endpoint
        self.key = http_client.read_key(model)
        self.client = AsyncOpenAI(
            api_key=self.key or "none",
            base_url=self.endpoint.base_url or None,
            max_retries=0,
            timeout=self.endpoint.deadline,
            http_client=http_client.open_client(),
        )
        self.pictures = PictureLoader(data, model)
        self.pace = Pace(expected_in_flight(model))
        self.budget: Budget | RemoteBudget = Budget(self.endpoint.max_cost, model.name)
        self.last_answer_at = 0.0
        """Monotonic time of the last answer to any request."""
        self.gives_logprobs = model.endpoint.decoding
        """False for reasoning models, and once the service has refused to return log-probabilities."""
        self.stopped: BackendError | None = None
        """The error that every further request raises; None while the model accepts requests."""
        self.warned = False
        """True once an invalid token count has been reported."""

    async def reply(self, request: Request) -> Reply:
        """Answer the request; raises Unprocessable, Refused, BackendDied, ModelStopped or BudgetSpent."""
        return await self._pay_and_send(request, await self._load_body(request))

    async def first_tokens(self, request: Request) -> FirstTokenReply | None:
        """Return the probabilities of a reply's first token; None if the service gives none. Raises as ``reply``."""
        try:
            body = first_token_body(await self._load_body(request))
            reply = await self._pay_and_send(request, body) if self.gives_logprobs else None
        except NoLogprobs:
            self.gives_logprobs = False
            return None
        return reply if isinstance(reply, FirstTokenReply) else None

    async def _pay_and_send(self, request: Request, body: dict[str, Any]) -> Reply:
        price = self._price(request)
        async with self.budget.reserve(price):
            return await self._send_until_answered(body, Random(request.seed), price)

    async def model_input(self, request: Request) -> ModelInput:
        body = await self._load_body(request)
        digest = sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
        return ModelInput(hashes={"request": digest}, decoding={k: v for k, v in body.items() if k != "messages"})

    async def _load_body(self, request: Request) -> dict[str, Any]:
        form, limit = self.endpoint.pictures, self.endpoint.largest_picture
        urls = await self.pictures.load_as(request.messages, lambda image: data_url(image, form, limit))
        return self.body(request, urls)

    def limit_in_flight(self, requests: int) -> None:
        self.pace.set_limit(requests)

    def set_budget(self, budget: RemoteBudget) -> None:
        self.budget = budget

    async def close(self) -> None:
        self.pictures.close()
        await self.client.close()

    def body(self, request: Request, urls: Mapping[ImageRef, str]) -> dict[str, Any]:
        """Return the body to send, with every decoding parameter that the service accepts."""

        def part(image: ImageRef) -> Part:
            return {"type": "image_url", "image_url": {"url": urls[image]}}

        sampling, endpoint = request.sampling, self.endpoint
        body: dict[str, Any] = {
            "model": self.model.source,
            "messages": conversation(request.messages, part, plain=True),
            length_field(endpoint): sampling.max_tokens + endpoint.reserve,
        }
        if endpoint.decoding:
            body |= {"seed": request.seed}
            if not sampling.checkpoint:  # else the server's defaults apply, which for vLLM are the checkpoint's
                body |= {"temperature": sampling.temperature, "top_p": sampling.top_p}
        if endpoint.effort:
            body["reasoning_effort"] = endpoint.effort
        if request.tools:  # "auto", because option letters are not forced either (docs/decisions/0014)
            body |= {"tools": [function_schema(function) for function in request.tools], "tool_choice": "auto"}
        return {**body, "extra_body": server_fields(self.model, sampling)}

    # -- retries ------------------------------------------------------------------------------------------------------
    async def _send_until_answered(self, body: dict[str, Any], chance: Random, price: Price) -> Reply:
        """Retry until there is an answer or a final error; the reply's seconds are those of the last attempt."""
        first_failed_at, failures, unreadable = 0.0, 0, 0
        while True:
            if self.stopped is not None:
                raise self.stopped
            try:
                return await self._send(body, chance, price)
            except RetryableError as error:
                first_failed_at = first_failed_at or monotonic()
                failures += not error.throttled
                unreadable += error.unreadable
                self._check_limits(first_failed_at, failures, unreadable, error.reason)
                await asyncio.sleep(backoff(failures, chance) if error.rest is None else error.rest)
            except ModelStopped as reason:
                self.stopped = reason
                raise

    async def _send(self, body: dict[str, Any], chance: Random, price: Price) -> Reply:
        async with self.pace.slot(chance) as reductions:
            try:
                return await self._exchange(body, price)
            except RetryableError as error:
                if error.throttled:
                    rest = backoff(self.pace.reductions, chance) if error.rest is None else error.rest
                    self.pace.slow_down(reductions, rest)
                    error.rest = 0.0  # the pace delays every caller, this one included
                raise

    async def _exchange(self, body: dict[str, Any], price: Price | None = None) -> Reply:
        """Send once; raises RetryableError and BackendError."""
        start = perf_counter()
        try:
            answer = parse_object(await self._post(body, price))
        except UnreadableAnswer as problem:
            raise self._unreadable_error(problem) from None
        except Exception as problem:  # the SDK may raise anything on an untrusted response
            raise self.classify(problem, tools="tools" in body) from None
        self.last_answer_at = monotonic()
        self.pace.speed_up()
        cost, seconds = self._charge(tokens := read_usage(answer), price), perf_counter() - start
        check_length(self.model, tokens.reply, body)
        return self._read_choice(answer, tokens, cost, seconds, tools="tools" in body)

    async def _post(self, body: dict[str, Any], price: Price | None) -> bytes:
        """Return the answer's bytes; a request that is cut off in flight is charged with the most that it may cost."""
        try:
            async with asyncio.timeout(self.endpoint.deadline):
                response = await self.client.chat.completions.with_raw_response.create(**body)
                return bytes(response.content)
        except (TimeoutError, asyncio.CancelledError):
            if price:
                self.budget.pay_cut_off(price)
            raise

    def _check_limits(self, first_failed_at: float, failures: int, unreadable: int, reason: str) -> None:
        """Raise if a retry is useless: the service answers no request at all, or fails only on this one."""
        if unreadable >= UNREADABLE_TRIES:
            raise Unprocessable(
                f"{self.model.name} gave {unreadable} answers that cannot be read; last error: {reason}"
            )
        if monotonic() - max(first_failed_at, self.last_answer_at) > self.endpoint.patience:
            raise BackendDied(f"{self.model.name}: no answer for {self.endpoint.patience:g} s; last error: {reason}")
        if failures >= TRIES and self.last_answer_at > first_failed_at:
            raise Unprocessable(
                f"{self.model.name} failed {failures} times on this request alone; last error: {reason}"
            )

    def classify(self, error: Exception, tools: bool = False) -> Exception:
        """Return the RetryableError or BackendError for an error of the SDK; ``tools``: functions were sent."""
        if not isinstance(error, openai.APIStatusError):
            return RetryableError(self._clean(f"{type(error).__name__}: {error.__cause__ or error}"))
        rest = retry_after(error.response.headers)
        return self.classify_status(error.status_code, str(error.code or ""), str(error.message), rest, tools)

    def classify_status(
        self, status: int, code: str, message: str, rest: float | None = None, tools: bool = False
    ) -> Exception:
        """Return the error for an HTTP status other than 200.

        ``rest``: seconds that the service asks to wait; ``tools``: functions were sent.
        """
        reason = self._clean(f"{self.model.name}: HTTP {status} {code}: {message}")
        if status == 401:  # services repeat parts of the key in this one
            reason = f"{self.model.name}: HTTP 401: the service refuses the key in {self.endpoint.key_env}"
        if 300 <= status < 400:
            reason = f"{self.model.name}: HTTP {status}: the service redirects; give the final address as base_url"
        return error_of_status(status, code, f"{code} {message}", reason, rest, tools)

    def _unreadable_error(self, problem: UnreadableAnswer) -> RetryableError:
        """Return a retryable error, and record that the service answers."""
        self.last_answer_at = monotonic()
        return RetryableError(self._clean(str(problem)), unreadable=True)

    def _clean(self, text: str) -> str:
        """Return one short line without control characters and key; it is cut last, because half a key is not recognized."""
        return one_line(redact_key(text, self.key))[:REASON_LENGTH]

    # -- answers ------------------------------------------------------------------------------------------------------
    def _read_choice(self, answer: dict[str, Any], tokens: Tokens, cost: float, seconds: float, tools: bool) -> Reply:
        """Return the reply of the first choice; raises Refused or RetryableError."""
        try:
            choice = parse_first_choice(answer, tools)
        except UnreadableAnswer as problem:
            raise self._unreadable_error(problem) from None
        if choice.refusal:
            raise Refused(self._clean(f"{self.model.name}: {choice.refusal}"))
        text = redact_key(encode_calls(choice.calls, choice.text) if choice.calls else choice.text, self.key)
        reply = Reply(text, tokens.prompt, tokens.reply, choice.finish, seconds, cost, tokens.cached)
        return add_first_tokens(reply, answer)

    def _charge(self, tokens: Tokens, price: Price | None) -> float:
        """Pay for an answer, readable or not, and return its cost; with invalid counts, pay at least the estimate."""
        cost = self._cost(tokens)
        prompt_cost = self._cost(Tokens(tokens.prompt)) if price else 0.0
        self.budget.pay(max(cost, sum(price or ())) if tokens.invalid else cost, price, prompt_cost)
        self._warn_of(tokens)
        return cost

    def _cost(self, tokens: Tokens) -> float:
        prompt_price, reply_price = self.model.prices
        return (tokens.prompt * prompt_price + tokens.reply * reply_price) / MILLION

    def _warn_of(self, tokens: Tokens) -> None:
        if tokens.invalid and not self.warned:
            self.warned = True
            line = f"{self.model.name}: invalid token counts of the service are stored as 0: {tokens.invalid}"
            print(self._clean(line), flush=True)

    def _price(self, request: Request) -> Price:
        """Return the most that a request may cost."""
        longest = request.sampling.max_tokens + self.endpoint.reserve
        pictures = picture_tokens(request, self.model.source, self.pictures.renderer.size)
        text = self._cost(Tokens(text_tokens(request)))
        return Price(self._cost(Tokens(reply=longest)), text, self._cost(Tokens(pictures)))
