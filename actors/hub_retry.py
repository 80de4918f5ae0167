"""Retries the Hub after a pause where it did not answer; that is no fault of the model, and no worker is given up for it.

A model that the Hub does not have, or does not give to this user, is not asked for twice; nor is anything in offline mode.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from time import sleep
from typing import TypeVar

PAUSES_S = (15.0, 60.0, 180.0)
"""Seconds before the second try and those after it; huggingface_hub itself has asked six times within half a minute by then."""
CLIENTS = ("httpx", "httpx2", "requests")
"""The packages whose errors tell that a request failed on its way, or came back with a status."""

Result = TypeVar("Result")


class HubUnreachable(RuntimeError):
    """The Hub did not answer for as long as it was asked; a later start may fare better."""


def persistently(
    work: Callable[[], Result], what: str, report: Callable[[str], None], pauses: Sequence[float] = PAUSES_S
) -> Result:
    """What ``work`` gives, tried again after each of ``pauses`` (seconds) while the Hub does not answer.

    Raises HubUnreachable after the last try, and at once whatever else ``work`` raises.
    """
    for pause in (*pauses, None):
        try:
            return work()
        except Exception as problem:
            if (why := unreachable(problem)) is None:
                raise
            told = f"the Hub does not answer for {what} ({why})"
        if pause is not None:
            report(f"{told}; asking again in {pause:g} s")
            sleep(pause)
    raise HubUnreachable(f"{told}; asked {len(pauses) + 1} times")


def unreachable(problem: BaseException) -> str | None:
    """Why nobody answered, if that is what an error or one of its causes tells; None for every other error."""
    why = None
    for cause in _causes(problem):
        if type(cause).__name__ == "OfflineModeIsEnabled":
            return None
        why = why or _failed(cause)
    return why


def _failed(cause: BaseException) -> str | None:
    """What a client's error says of a busy or absent server; None where the server gave a proper refusal."""
    if not any(base.__module__.partition(".")[0] in CLIENTS for base in type(cause).__mro__):
        return None
    status = getattr(getattr(cause, "response", None), "status_code", None)
    if status is None:
        return str(cause) or type(cause).__name__
    return f"HTTP {status}" if status == 429 or status >= 500 else None


def _causes(problem: BaseException | None) -> Iterator[BaseException]:
    """An error and what it came of."""
    seen: set[int] = set()
    while problem is not None and id(problem) not in seen:
        seen.add(id(problem))
        yield problem
        problem = problem.__cause__ or problem.__context__
