"""The interface of everything that replies: ``await backend.reply(request)`` gives a ``Reply`` or raises one of two errors.

Errors::

    BackendError
    ├── Unprocessable   this request can never be answered (a bad picture): its episode ends, counted as an error
    │   └── Overflow    it outgrew the model (context, pictures, memory): its episode ends as OVERFLOW, no error
    ├── Refused         the provider declined (content filter): its episode ends as REFUSED
    └── BackendDied     the engine is gone: the worker is replaced, its unfinished episodes are pending again

Anything else is a bug and travels up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from envs.render import Unprocessable as UnprocessablePicture
from envs.tool_calls import Call, Function
from envs.types import ImageRef, Sample, State, View
from sweeps.sampling import Sampling


class BackendError(Exception):
    """Parent of the named failures."""


class Unprocessable(BackendError):
    """The model's processor refuses this input for good."""


class Overflow(Unprocessable):
    """The request outgrew what the model takes: tokens of its context, pictures of a prompt, or memory of its device."""


class Refused(BackendError):
    """The provider declined to answer; the message is its reason."""


class BackendDied(BackendError):
    """The engine cannot answer anybody any more."""


ENDS_EPISODE = (Unprocessable, UnprocessablePicture)


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation: pictures first, then text, as the paper's template has them."""

    role: str
    """``user``, ``assistant`` or ``system``."""
    text: str
    images: tuple[ImageRef, ...] = ()


@dataclass(frozen=True, slots=True)
class Situation:
    """The game behind a request: what a policy without a model may look at, and an engine never does."""

    sample: Sample
    state: State
    view: View
    open_ended: bool = False
    """Whether free text is wanted: the view's options are then not shown."""
    answer: str = ""
    """What a judge is to read; empty in every other request."""
    dialogue: bool = False
    """Whether a judge reads one answer of several (``envs.dialogue``), and not the only one."""
    calls: tuple[tuple[Call, str], ...] = ()
    """The function calls that are offered, and what they stand for; empty where no function is to be called."""


@dataclass(frozen=True, slots=True)
class Request:
    """One question to one model."""

    messages: tuple[Message, ...]
    sampling: Sampling
    seed: int
    """Seed of this turn's decoding: differs by turn, same for every model."""
    situation: Situation
    key: str = ""
    """Of the episode that asks; what has none asks for nothing that is to be found again."""
    tools: tuple[Function, ...] = ()
    """Functions that travel beside the messages; the text of a reply that calls any is ``envs.tool_calls.sent``."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back."""

    text: str
    prompt_tokens: int = 0
    reply_tokens: int = 0
    finish: str = "stop"
    """``stop`` or ``length``, as the engine reports it."""
    seconds: float = 0.0
    cost: float = 0.0
    """In the currency of the model's price entry; 0 where nothing is billed."""
    cached_tokens: int | None = None
    """Of ``prompt_tokens``, those whose attention the engine had from an earlier request; None where it does not tell."""
    pictures: int | None = None
    """Pictures of the prompt; None where the next field is."""
    cached_pictures: int | None = None
    """Of these, those that the engine had preprocessed for an earlier request; None where it does not tell."""


class Backend(Protocol):
    """An engine, as the loop sees it."""

    async def reply(self, request: Request) -> Reply:
        """Answer; raises Unprocessable, Refused or BackendDied."""
        ...

    async def close(self) -> None:
        """Release what the engine holds; safe to call twice."""
        ...


class ScriptedBackend:
    """Answers with a function of the request: for tests, dry runs and new contributors."""

    def __init__(self, answer: Callable[[Request], str]) -> None:
        self.answer = answer

    async def reply(self, request: Request) -> Reply:
        return Reply(self.answer(request))

    async def close(self) -> None:
        return None
