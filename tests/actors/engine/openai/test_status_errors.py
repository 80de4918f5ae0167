"""Meanings of a service's HTTP status and words: a lost request, a retry, a stopped model, or a refusal."""

from __future__ import annotations

from typing import Any

import pytest

from actors.engine.backend import ModelStopped, Overflow, Refused, Unprocessable
from actors.engine.openai.first_tokens import NoLogprobs
from actors.engine.openai.rate_limit import RetryableError
from actors.engine.openai.status_errors import error_of_status


def error(status: int, code: str = "", message: str = "no", **fields: Any) -> Exception:
    return error_of_status(status, code, f"{code} {message}", "the reason", **fields)


@pytest.mark.parametrize(
    ("expected", "cases"),
    [
        (Refused, [(400, "content_filter"), (400, "content_policy_violation"), (500, "invalid_prompt"),
                   (403, "moderation_blocked")]),
        (RetryableError, [(408, ""), (409, ""), (429, ""), (429, "rate_limit_exceeded"), (500, ""), (503, ""), (529, "")]),
        (ModelStopped, [(429, "insufficient_quota"), (429, "billing_hard_limit_reached"), (429, "billing_not_active"),
                        (401, ""), (403, ""), (404, "model_not_found"), (404, ""), (405, ""), (499, ""),
                        (400, "unsupported_parameter"), (400, "unsupported_value"), (422, "unknown_parameter"),
                        (400, "model_not_found")]),
        (Unprocessable, [(400, ""), (413, ""), (422, ""), (400, "invalid_image")]),
    ],
)  # fmt: skip
def test_statuses_and_codes(expected: type[Exception], cases: list[tuple[int, str]]) -> None:
    assert {case: type(error(*case)) for case in cases} == dict.fromkeys(cases, expected)
    assert {str(error(*case)) for case in cases if expected is not RetryableError} <= {"the reason"}


@pytest.mark.parametrize(
    "message",
    ["context_length_exceeded", "This model's maximum context length is 4096", "The MAXIMUM MODEL LENGTH is 9",
     "beyond the context window", "At most 12 images may be provided", "too many images"],
)  # fmt: skip
def test_words_about_length_make_a_lost_request_an_overflow(message: str) -> None:
    for status in (400, 413, 422):
        assert type(error(status, "", message)) is Overflow
    assert type(error(404, "", message)) is ModelStopped
    assert type(error(400, "", message, tools=True)) is Overflow, "even if functions are named beside it"
    assert type(error(400, "", f"tool_choice: {message}", tools=True)) is Overflow


@pytest.mark.parametrize(
    "message",
    ['"auto" tool choice requires --enable-auto-tool-choice', "tool_choice is not known", "tools are not supported",
     "no tool use", "no tool-call parser", "function calling is off", "function_call", "FUNCTIONCALL", "it has no tools"],
)  # fmt: skip
def test_a_service_without_functions_stops_the_model_only_if_some_were_sent(message: str) -> None:
    for status in (400, 404, 422):
        problem = error(status, "", message, tools=True)
        assert type(problem) is ModelStopped
        assert str(problem) == 'the reason; write tools = "text" in its entry to have functions in the prompt'
    assert type(error(400, "", message)) is Unprocessable
    assert type(error(413, "", message, tools=True)) is Unprocessable
    assert type(error(400, "", "a stool is shown", tools=True)) is Unprocessable


def test_a_service_without_log_probabilities_is_known_by_its_words() -> None:
    kinds = {status: type(error(status, "", "logprobs are off")) for status in (400, 401, 403, 404, 422, 500, 503)}

    assert kinds == {**dict.fromkeys((400, 403, 404, 422, 500), NoLogprobs), 401: ModelStopped, 503: RetryableError}
    assert str(error(500, "", "logprobs are off")) == "the reason"


def test_a_retry_carries_the_pause_that_the_service_asks_for() -> None:
    throttled, failed = error(429, rest=2.5), error(503, rest=1.5)

    assert isinstance(throttled, RetryableError) and isinstance(failed, RetryableError)
    assert (throttled.reason, throttled.rest, throttled.throttled, throttled.unreadable) == (
        "the reason",
        2.5,
        True,
        False,
    )
    assert (failed.reason, failed.rest, failed.throttled, failed.unreadable) == ("the reason", 1.5, False, False)
