"""The backend for services that speak OpenAI's chat completions, ``vllm serve`` among them.

A refused request ends its episode, trouble is waited out, a final refusal stops the model; nothing else is raised. The SDK's
own retries are off: this loop knows which errors are worth one.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from time import monotonic, perf_counter
from typing import Any

import openai
from openai import AsyncOpenAI

from actors import openai_http
from actors.backend import BackendDied, BackendError, Overflow, Refused, Reply, Request, Unprocessable
from actors.chat_format import Part, conversation, data_url
from actors.image_loader import Pictures
from actors.in_flight import expected
from actors.openai_reply import Tokens, UnreadableAnswer, first_choice, parsed, tokens
from actors.printable import one_line
from actors.rate_limit import Budget, ModelStopped, Pace, backoff, retry_after
from actors.redaction import redact_key
from actors.tool_prompts import schema
from envs.tool_calls import sent
from envs.types import ImageRef
from sweeps.sampling import Sampling
from sweeps.spec import ModelSpec

TRIES = 8
"""Failures after which a request that fails while others succeed is given up."""
UNREADABLE_TRIES = 4
"""Answers to one request that cannot be read, after which it is given up: each of them may have been paid for."""
REASON_LENGTH = 300
"""Characters of a service's words that a reason keeps."""
MILLION = 1e6
FILTERED = {"content_filter", "content_policy_violation", "invalid_prompt", "moderation_blocked"}
"""Error codes with which services decline a prompt."""
MISCONFIGURED = {"unsupported_parameter", "unsupported_value", "unknown_parameter", "model_not_found"}
"""Codes of a 400 that every other request would get too."""
OUTGROWN = re.compile(
    r"context_length_exceeded|maximum (?:context|model) length|context window|at most \d+ image|too many images", re.I
)
"""How OpenAI, vLLM's server and others say that a prompt is too long or holds too many pictures."""
NO_TOOLS = re.compile(r"tool[ _-]?(?:choice|use|call|s\b)|function[ _-]?call", re.I)
"""How services say that they call no functions: vLLM's server without ``--enable-auto-tool-choice``, and others by model."""
OUT_OF_MONEY = {"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"}


@dataclass(eq=False)
class Trouble(Exception):
    """Worth another try."""

    reason: str
    rest: float | None = None
    """Seconds that the service asked to wait."""
    throttled: bool = False
    unreadable: bool = False
    """The service answered, but not as the protocol says: that is this request's trouble, and no sign of a dead service."""


class OpenAIBackend:
    """One model of one service, asked by many episodes at once."""

    def __init__(self, model: ModelSpec, data: Path) -> None:
        self.model, self.endpoint = model, model.endpoint
        self.key = _key(model)
        self.client = AsyncOpenAI(
            api_key=self.key or "none",
            base_url=self.endpoint.base_url or None,
            max_retries=0,
            timeout=self.endpoint.deadline,
            http_client=openai_http.client(),
        )
        self.pictures = Pictures(data, model)
        self.pace = Pace(expected(model))
        self.budget = Budget(self.endpoint.max_cost, model.name)
        self.dearest = 0.0
        """The most that a prompt has cost so far."""
        self.heard = 0.0
        """When the service last answered anybody, on the monotonic clock."""
        self.stopped: BackendError | None = None
        self.warned = False
        """Whether a token count that is none was reported already."""

    async def reply(self, request: Request) -> Reply:
        """Answer; raises Unprocessable, Refused, BackendDied, ModelStopped or BudgetSpent."""
        form, limit = self.endpoint.pictures, self.endpoint.largest_picture
        urls = await self.pictures.made(request.messages, lambda image: data_url(image, form, limit))
        body, chance = self.body(request, urls), Random(request.seed)
        ceiling = self._ceiling(request)
        async with self.budget.hold(lambda: self._ceiling(request)):
            return await self._insist(body, chance, ceiling)

    async def close(self) -> None:
        """Close the connections; safe to call twice."""
        self.pictures.close()
        await self.client.close()

    def body(self, request: Request, urls: Mapping[ImageRef, str]) -> dict[str, Any]:
        """The request as it is sent; every decoding choice that the service accepts is stated."""

        def part(image: ImageRef) -> Part:
            return {"type": "image_url", "image_url": {"url": urls[image]}}

        sampling, endpoint = request.sampling, self.endpoint
        body: dict[str, Any] = {
            "model": self.model.source,
            "messages": conversation(request.messages, part, plain=True),
            "max_completion_tokens": sampling.max_tokens + endpoint.reserve,
        }
        if endpoint.decoding:
            body |= {"seed": request.seed}
            if not sampling.checkpoint:  # else the server takes its own defaults, which for vLLM are the checkpoint's
                body |= {"temperature": sampling.temperature, "top_p": sampling.top_p}
        if endpoint.effort:
            body["reasoning_effort"] = endpoint.effort
        if request.tools:  # "auto", as letters are asked for and not forced (docs/decisions/0014)
            body |= {"tools": [schema(one) for one in request.tools], "tool_choice": "auto"}
        return {**body, "extra_body": self._extra(sampling)}

    def _extra(self, sampling: Sampling) -> dict[str, Any]:
        """What the SDK has no argument for."""
        extra: dict[str, Any] = {}
        if self.endpoint.server == "vllm":
            extra = {"min_p": 0.0} if sampling.checkpoint else {"top_k": sampling.top_k, "min_p": 0.0}
            if self.model.repetition_penalty is not None:  # else the server takes the checkpoint's own
                extra["repetition_penalty"] = self.model.repetition_penalty
        if self.model.chat:
            extra["chat_template_kwargs"] = self.model.chat
        if self.model.processor:
            extra["mm_processor_kwargs"] = self.model.processor
        return {**extra, **self.model.options}

    # -- patience -----------------------------------------------------------------------------------------------------
    async def _insist(self, body: dict[str, Any], chance: Random, ceiling: float) -> Reply:
        """Ask until there is an answer or no hope; the reply's seconds are those of the attempt that brought it."""
        first, failures, unreadable = 0.0, 0, 0
        while True:
            if self.stopped is not None:
                raise self.stopped
            try:
                return await self._attempt(body, chance, ceiling)
            except Trouble as trouble:
                first = first or monotonic()
                failures += not trouble.throttled
                unreadable += trouble.unreadable
                self._give_up(first, failures, unreadable, trouble.reason)
                await asyncio.sleep(backoff(failures, chance) if trouble.rest is None else trouble.rest)
            except ModelStopped as reason:
                self.stopped = reason
                raise

    async def _attempt(self, body: dict[str, Any], chance: Random, ceiling: float) -> Reply:
        async with self.pace.slot(chance) as round_:
            began = perf_counter()
            try:
                async with asyncio.timeout(self.endpoint.deadline):
                    response = await self.client.chat.completions.with_raw_response.create(**body)
                answer = parsed(response.content)
            except UnreadableAnswer as odd:
                raise self._unreadable(odd) from None
            except Exception as error:  # what the SDK raises on an untrusted response is not for us to list
                meaning = self.meaning(error, tools="tools" in body)
                if isinstance(meaning, Trouble) and meaning.throttled:
                    rest = backoff(self.pace.round, chance) if meaning.rest is None else meaning.rest
                    self.pace.slower(round_, rest)
                    meaning.rest = 0.0  # the pace makes everybody rest, this caller too
                raise meaning from None
            self.heard = monotonic()
            self.pace.answered()
            return self._read(answer, perf_counter() - began, ceiling, tools="tools" in body)

    def _give_up(self, first: float, failures: int, unreadable: int, reason: str) -> None:
        """Raise when waiting longer makes no sense: the service is silent for all, or fails on this request alone."""
        if unreadable >= UNREADABLE_TRIES:
            raise Unprocessable(f"{self.model.name} gave {unreadable} answers that cannot be read; last: {reason}")
        if monotonic() - max(first, self.heard) > self.endpoint.patience:
            raise BackendDied(f"{self.model.name}: no answer for {self.endpoint.patience:g} s; last: {reason}")
        if failures >= TRIES and self.heard > first:
            raise Unprocessable(f"{self.model.name} failed {failures} times on this request alone; last: {reason}")

    def meaning(self, error: Exception, tools: bool = False) -> Exception:
        """What an error of the SDK means to the sweep: Trouble, or one of the named errors; ``tools``: were functions sent?"""
        if not isinstance(error, openai.APIStatusError):
            return Trouble(self._clean(f"{type(error).__name__}: {error.__cause__ or error}"))
        rest = retry_after(error.response.headers)
        return self.refusal(error.status_code, str(error.code or ""), str(error.message), rest, tools)

    def refusal(
        self, status: int, code: str, message: str, rest: float | None = None, tools: bool = False
    ) -> Exception:
        """What a status other than 200 means to the sweep; ``rest``: seconds to wait; ``tools`` as above."""
        said = self._clean(f"{self.model.name}: HTTP {status} {code}: {message}")
        if code in FILTERED:
            return Refused(said)
        if status in (408, 409) or status >= 500 or (status == 429 and code not in OUT_OF_MONEY):
            return Trouble(said, rest, throttled=status == 429)
        told = f"{code} {message}"
        if tools and status in (400, 404, 422) and NO_TOOLS.search(told) and not OUTGROWN.search(told):
            return ModelStopped(f'{said}; write tools = "text" in its entry to have functions in the prompt')
        if status in (400, 413, 422) and code not in MISCONFIGURED:
            return (Overflow if OUTGROWN.search(told) else Unprocessable)(said)
        if 300 <= status < 400:
            return ModelStopped(
                f"{self.model.name}: HTTP {status}: the service redirects; give the final address as base_url"
            )
        if status == 401:  # services repeat parts of the key in this one
            return ModelStopped(f"{self.model.name}: HTTP 401: the service refuses the key in {self.endpoint.key_env}")
        return ModelStopped(said)

    def _unreadable(self, odd: UnreadableAnswer) -> Trouble:
        """The service works; it is heard, and this request is tried again."""
        self.heard = monotonic()
        return Trouble(self._clean(str(odd)), unreadable=True)

    def _clean(self, text: str) -> str:
        """One line without control characters and without the key, cut last: half a key is not recognized."""
        return one_line(redact_key(text, self.key))[:REASON_LENGTH]

    # -- answers ------------------------------------------------------------------------------------------------------
    def _read(self, answer: dict[str, Any], seconds: float, ceiling: float, tools: bool = False) -> Reply:
        """The first choice, paid for whether it can be read or not; raises Refused or Trouble."""
        used = tokens(answer)
        return self._said(answer, used, self._charge(used, ceiling), seconds, tools)

    def _said(self, answer: dict[str, Any], used: Tokens, cost: float, seconds: float, tools: bool = False) -> Reply:
        """The first choice; raises Refused or Trouble."""
        try:
            choice = first_choice(answer, tools)
        except UnreadableAnswer as odd:
            raise self._unreadable(odd) from None
        if choice.refusal:
            raise Refused(self._clean(f"{self.model.name}: {choice.refusal}"))
        text = redact_key(sent(choice.calls, choice.text) if choice.calls else choice.text, self.key)
        return Reply(text, used.prompt, used.reply, choice.finish, seconds, cost, used.cached)

    def _charge(self, used: Tokens, ceiling: float) -> float:
        """What an answer cost; where its counts are odd, the budget takes the most that it may have cost."""
        cost = self._cost(used)
        self.dearest = max(self.dearest, self._cost(Tokens(used.prompt)))
        self.budget.pay(max(cost, ceiling) if used.odd else cost)
        self._warn_of(used)
        return cost

    def _cost(self, used: Tokens) -> float:
        asked, said = self.model.prices
        return (used.prompt * asked + used.reply * said) / MILLION

    def _warn_of(self, used: Tokens) -> None:
        if used.odd and not self.warned:
            self.warned = True
            print(
                self._clean(f"{self.model.name}: odd token counts of the service are stored as 0: {used.odd}"),
                flush=True,
            )

    def _ceiling(self, request: Request) -> float:
        """What a request may cost at most, as far as is known: its longest reply, and the dearest prompt so far."""
        longest = request.sampling.max_tokens + self.endpoint.reserve
        return self.dearest + self._cost(Tokens(reply=longest))


def _key(model: ModelSpec) -> str:
    """The key from the environment; raises ValueError when it is not there."""
    name = model.endpoint.key_env
    if name and not os.environ.get(name):
        raise ValueError(
            f"{model.name} needs a key: set {name}, or empty key_env in its entry if the service wants none"
        )
    return os.environ.get(name, "") if name else ""
