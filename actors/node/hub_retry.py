"""Retries a load after a pause if the Hub does not answer, so that an outage costs no worker.

A model that is absent or not accessible is requested once, as is any model in offline mode.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from tenacity import RetryCallState

PAUSES_S = (15.0, 60.0, 180.0)
"""Seconds before each retry; before the first, huggingface_hub itself has tried six times in half a minute."""
CLIENTS = ("httpx", "httpx2", "requests")
"""The packages whose errors mean that a request failed or returned an error status."""

Loaded = TypeVar("Loaded")


class HubUnreachable(RuntimeError):
    """The Hub answered no attempt; a later start may succeed."""


def retry_hub(
    work: Callable[[], Loaded],
    what: str,
    report: Callable[[str], None],
    pauses: Sequence[float] = PAUSES_S,
    sleep: Callable[[float], None] = time.sleep,
) -> Loaded:
    """Call ``work``, and again after each of ``pauses`` (seconds) while the Hub does not answer.

    Raises HubUnreachable after the last attempt, and any other error of ``work`` at once.
    """
    # of the extras that reach the Hub
    from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_chain, wait_fixed

    def message(state: RetryCallState) -> str:
        problem = state.outcome.exception() if state.outcome else None
        return f"the Hub does not answer for {what} ({unreachable_reason(problem) if problem else ''})"

    def announce(state: RetryCallState) -> None:
        report(f"{message(state)}; asking again in {state.upcoming_sleep:g} s")

    def give_up(state: RetryCallState) -> Loaded:
        raise HubUnreachable(f"{message(state)}; asked {state.attempt_number} times")

    retrying = Retrying(
        retry=retry_if_exception(lambda problem: unreachable_reason(problem) is not None),
        wait=wait_chain(*map(wait_fixed, pauses)) if pauses else wait_fixed(0),
        stop=stop_after_attempt(len(pauses) + 1),
        before_sleep=announce,
        retry_error_callback=give_up,
        sleep=sleep,
    )
    return retrying(work)


def unreachable_reason(problem: BaseException) -> str | None:
    """Return why no server answered, if that is what an error or one of its causes says; else None."""
    causes = list(_causes(problem))
    if any(type(cause).__name__ == "OfflineModeIsEnabled" for cause in causes):
        return None
    return next(filter(None, map(_client_failure, causes)), None)


def _client_failure(cause: BaseException) -> str | None:
    """Return why a client got no answer, or one of a busy server (429, 5xx); None for refusals and other errors."""
    if not any(base.__module__.partition(".")[0] in CLIENTS for base in type(cause).__mro__):
        return None
    status = getattr(getattr(cause, "response", None), "status_code", None)
    if status is None:
        return str(cause) or type(cause).__name__
    return f"HTTP {status}" if status == 429 or status >= 500 else None


def _causes(problem: BaseException | None) -> Iterator[BaseException]:
    visited: set[int] = set()
    while problem is not None and id(problem) not in visited:
        visited.add(id(problem))
        yield problem
        problem = problem.__cause__ or problem.__context__
