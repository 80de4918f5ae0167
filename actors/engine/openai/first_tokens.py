"""The probabilities of a reply's first token, which services return as ``top_logprobs``: enough for replies that are letters."""

from collections.abc import Mapping
from dataclasses import asdict
from math import inf
from typing import Annotated, Any

from pydantic import Field, ValidationError

from actors.engine.backend import FirstToken, FirstTokenReply, Reply, Unprocessable
from actors.engine.openai.reply import Untrusted

MOST_TOKENS = 20
"""The largest ``top_logprobs`` that OpenAI and vLLM's server take."""


class NoLogprobs(Unprocessable):
    """The error of a service that refuses to return log-probabilities."""


class _Token(Untrusted):
    token: Annotated[str, Field(max_length=1000)]
    logprob: Annotated[float, Field(le=1e-3, allow_inf_nan=True)]


class _Position(Untrusted):
    top_logprobs: Annotated[list[_Token], Field(min_length=1, max_length=1000)]


class _Logprobs(Untrusted):
    content: Annotated[list[Any], Field(min_length=1)]


def first_token_body(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body that asks for the first token's probabilities instead of a reply."""
    single = {"max_completion_tokens": 1, "logprobs": True, "top_logprobs": MOST_TOKENS}
    return {**body, **single, "temperature": 1.0, "top_p": 1.0}


def add_first_tokens(reply: Reply, answer: Mapping[str, Any]) -> Reply:
    """Return the reply with the first token's probabilities if the validated answer has them; else the reply unchanged."""
    try:
        content = _Logprobs.model_validate(answer["choices"][0].get("logprobs")).content
        tokens = _Position.model_validate(content[0]).top_logprobs
    except ValidationError:
        return reply
    first = [FirstToken(token.token, token.logprob) for token in tokens if token.logprob > -inf]
    return FirstTokenReply(**asdict(reply), first=tuple(sorted(first, key=lambda token: -token.log_probability)))
