"""Asks a service fixed questions, to notice that another model answers under the same name, or that it is not shown functions.

Only self-hosted services are asked: behind a provider's name, models and hardware may change at any time.
"""

import asyncio
from collections.abc import Awaitable, Callable
from math import exp
from time import monotonic
from typing import Any

import openai
from openai import AsyncOpenAI

from actors.engine.backend import FirstTokenReply, ModelStopped, Refused, Reply, Unprocessable
from actors.engine.chat_format import FUNCTION_PROBE, function_schema
from actors.engine.openai.first_tokens import MOST_TOKENS, NoLogprobs
from actors.engine.openai.reply import parse_object
from actors.engine.openai.served_identity import Probe, describe_other_model, is_checked, same_model, to_identity
from actors.engine.openai.server_fields import length_field
from sweeps.spec import ModelSpec

QUESTIONS = (
    "Name an animal, a color and a city.",
    "A box, a lamp and two cups stand on a table in the hall. Ann takes the lamp to the kitchen, Ben puts a cup into the box "
    "and carries the box upstairs. Which of these is still in the hall? A. The box. B. The lamp. C. One cup. D. Nothing.",
)
REPLY_TOKENS = 8
IDLE_S = 1.0
"""Seconds without a request, after which a service may have been restarted unnoticed; no server loads a model faster."""


Ask = Callable[[dict[str, Any]], Awaitable[tuple[Reply, object]]]
"""Sends a body once; returns the reply and the service's fingerprint. Raises BackendError and RetryableError."""


class ServedModelCheck:
    """The check of one service: the identity of its model, and whether the questions are due again."""

    def __init__(self, model: ModelSpec, client: AsyncOpenAI, ask: Ask) -> None:
        self.model, self.client, self.ask = model, client, ask
        self.active = False
        """True if the service is to be checked: it lists the model, or could not be reached when asked for its list."""
        self.due = False
        """True if the service may have been restarted since it was identified."""
        self.identity = ""
        """Identity of the model with which the run began; empty until it is known."""
        self.shows_functions = False
        """True once ``check_functions`` has passed."""
        self.fingerprint: object = None
        """``system_fingerprint`` of the last answer."""
        self.lock = asyncio.Lock()

    async def identify(self, before: str = "") -> str:
        """Return the identity of the model that answers now; empty if the service is down or not to be checked.

        ``before`` is the run's record. Raises as ``ask``.
        """
        if not is_checked(self.model):
            return ""
        self.identity = before
        try:
            self.active = self.due = await self._is_listed()
        except openai.APIConnectionError:
            self.active = self.due = True
            return ""
        now = await self._probe() if self.active else ""
        if not before:
            self.identity, self.due = now, self.active and not now
        return now

    def notice_idle(self, last_answer_at: float) -> None:
        """Make the check due if the service was idle long enough to be restarted unnoticed."""
        self.due |= self.active and monotonic() - last_answer_at > IDLE_S

    def notice_failure(self) -> None:
        """Make the check due, because the service may be restarting."""
        self.due = self.active

    async def notice_answer(self, fingerprint: object) -> None:
        """Check the model if the service's configuration is not that of the last answer; raises as ``check``."""
        self.due |= self.active and self.fingerprint not in (None, fingerprint)
        self.fingerprint = fingerprint
        await self.check()

    async def check(self) -> None:
        """Ask the questions again if that is due; raises ModelStopped if another model answers, and as ``ask``."""
        async with self.lock:
            if not self.due:
                return
            now = await self._probe()
            self.identity = self.identity or now
            if now and not same_model(self.identity, now):
                raise ModelStopped(describe_other_model(self.model, "this run began with"))
            self.due = False

    async def check_functions(self) -> None:
        """Raise ModelStopped if the service silently leaves functions out of the prompt, as some chat templates do.

        Asks once per start; raises as ``ask``, too.
        """
        async with self.lock:
            if self.shows_functions or not self.active:
                return
            question = self._question(QUESTIONS[0])
            (without, _), (with_function, _) = [
                await self.ask(question | tools) for tools in ({}, {"tools": [function_schema(FUNCTION_PROBE)]})
            ]
            if 0 < without.prompt_tokens == with_function.prompt_tokens:
                raise ModelStopped(
                    f"{self.model.endpoint.base_url} does not show functions to {self.model.source}: its prompt has as many"
                    f' tokens with a function as without; write tools = "text" in the entry of {self.model.name}'
                )
            self.shows_functions = True

    async def _is_listed(self) -> bool:
        """Return True if the service lists the model; raises APIConnectionError if it is down."""
        try:
            response = await self.client.models.with_raw_response.list()
            return any(entry["id"] == self.model.source for entry in parse_object(response.content)["data"])
        except openai.APIConnectionError:
            raise
        except (openai.OpenAIError, ValueError, TypeError, LookupError):
            return False

    async def _probe(self) -> str:
        """Return the identity of the model that answers; empty if the service refuses to answer the questions."""
        probes = [probe for question in QUESTIONS if (probe := await self._ask_question(question))]
        return to_identity(probes) if len(probes) == len(QUESTIONS) else ""

    async def _ask_question(self, question: str) -> Probe | None:
        """Return the model's reply to a question; None if the service refuses it."""
        body = self._question(question)
        try:
            reply, _ = await self.ask({**body, "logprobs": True, "top_logprobs": MOST_TOKENS})
        except NoLogprobs:
            reply, _ = await self.ask(body)
        except (Unprocessable, Refused):
            return None
        first = reply.first if isinstance(reply, FirstTokenReply) else ()
        return Probe(
            reply.prompt_tokens, {token.text: round(exp(token.log_probability), 4) for token in first}, reply.text
        )

    def _question(self, text: str) -> dict[str, Any]:
        """Return the body of a short greedy request."""
        return {
            "model": self.model.source,
            "messages": [{"role": "user", "content": text}],
            length_field(self.model.endpoint): REPLY_TOKENS,
            "temperature": 0.0,
        }
