"""Maps an HTTP status of a service to an error, by the error codes and words that services use."""

import re

from actors.engine.backend import ModelStopped, Overflow, Refused, Unprocessable
from actors.engine.openai.first_tokens import NoLogprobs
from actors.engine.openai.rate_limit import RetryableError

FILTERED = {"content_filter", "content_policy_violation", "invalid_prompt", "moderation_blocked"}
"""Error codes with which services decline a prompt."""
MISCONFIGURED = {"unsupported_parameter", "unsupported_value", "unknown_parameter", "model_not_found"}
"""Error codes, sent with HTTP 400, that every request would get."""
TOO_LONG = re.compile(
    r"context_length_exceeded|maximum (?:context|model) length|context window|at most \d+ image|too many images", re.I
)
"""Messages of OpenAI, vLLM's server and others about a prompt that is too long or has too many pictures."""
NO_TOOLS = re.compile(r"tool[ _-]?(?:choice|use|call|s\b)|function[ _-]?call", re.I)
"""Messages of services without function calls: vLLM's server without ``--enable-auto-tool-choice``, others for some models."""
OUT_OF_MONEY = {"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"}
"""Error codes, sent with HTTP 429, that no retry cures."""


def error_of_status(
    status: int, code: str, words: str, reason: str, rest: float | None = None, tools: bool = False
) -> Exception:
    """Return the error for an HTTP status other than 200; ``words`` are the service's, ``reason`` becomes the message.

    ``rest``: seconds that the service asks to wait; ``tools``: functions were sent.
    """
    if code in FILTERED:
        return Refused(reason)
    if status in (400, 403, 404, 422, 500) and "logprobs" in words:  # 500: llama.cpp's server without logits_all
        return NoLogprobs(reason)
    if status in (408, 409) or status >= 500 or (status == 429 and code not in OUT_OF_MONEY):
        return RetryableError(reason, rest, throttled=status == 429)
    if tools and status in (400, 404, 422) and NO_TOOLS.search(words) and not TOO_LONG.search(words):
        return ModelStopped(f'{reason}; write tools = "text" in its entry to have functions in the prompt')
    if status in (400, 413, 422) and code not in MISCONFIGURED:
        return (Overflow if TOO_LONG.search(words) else Unprocessable)(reason)
    return ModelStopped(reason)
