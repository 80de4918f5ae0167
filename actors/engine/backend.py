"""The interface of engines and policies: ``await backend.reply(request)`` returns a ``Reply`` or raises a named error.

Errors::

    BackendError
    ├── Unprocessable     this request can never be answered (a bad picture): its episode ends, counted as an error
    │   └── Overflow      it exceeds a limit (context, pictures, memory): its episode ends as OVERFLOW, not as an error
    ├── Refused           the provider declined (content filter): its episode ends as REFUSED
    ├── BackendDied       the engine is gone: the worker is replaced, its unfinished episodes are pending again
    └── ModelStopped      key refused, quota used up, no such model: a new worker would not help, episodes stay pending
        └── BudgetSpent   ``max_cost`` is reached

Any other exception is a bug and propagates.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from envs.render import UnreadablePicture
from envs.tool_calls import Call, Function
from envs.types import ImageRef, Sample, State, View
from sweeps.sampling import Sampling


class BackendError(Exception):
    """Parent of the errors of an engine."""


class Unprocessable(BackendError):
    """A request that the model's processor can never take."""


class Overflow(Unprocessable):
    """A request beyond the model's limits: tokens of its context, pictures per prompt, or memory of its device."""


class Refused(BackendError):
    """An answer that the provider declined to give; the message is its reason."""


class BackendDied(BackendError):
    """The end of an engine: it can answer no request."""


class ModelStopped(BackendError):
    """A model that accepts no more requests, for a reason that a new worker would not cure."""


class BudgetSpent(ModelStopped):
    """A budget too small for the next request."""


ENDS_EPISODE = (Unprocessable, UnreadablePicture)
"""Errors that end the request's episode and nothing else."""


class Message(NamedTuple):
    """One message of a conversation: pictures first, then text, as in the paper's template."""

    role: str
    """``user``, ``assistant`` or ``system``."""
    text: str
    images: tuple[ImageRef, ...] = ()


def images_of(messages: Iterable[Message]) -> list[ImageRef]:
    """Return the pictures of a conversation, in order."""
    return [image for message in messages for image in message.images]


class Situation(NamedTuple):
    """The game behind a request: baseline policies may read it, engines never do."""

    sample: Sample
    state: State
    view: View
    open_ended: bool = False
    """True if free text is expected; the view's options are then hidden."""
    answer: str = ""
    """The answer that a judge reads; empty in every other request."""
    dialogue: bool = False
    """True if a judge reads one answer of several (``envs.dialogue``)."""
    calls: tuple[tuple[Call, str], ...] = ()
    """The offered function calls, each with its option; empty if no functions are offered."""


class Request(NamedTuple):
    messages: tuple[Message, ...]
    sampling: Sampling
    seed: int
    """Seed of this turn's decoding: differs by turn, same for every model."""
    situation: Situation
    key: str = ""
    """The key of its episode; empty outside an episode."""
    tools: tuple[Function, ...] = ()
    """Functions offered with the messages; ``envs.tool_calls.encode_calls`` writes a reply's calls as its text."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer of an engine, with its tokens, time and cost."""

    text: str
    prompt_tokens: int = 0
    reply_tokens: int = 0
    finish: str = "stop"
    """``stop`` or ``length``, as the engine reports it."""
    seconds: float = 0.0
    cost: float = 0.0
    """In the currency of the model's price entry; 0 where nothing is billed."""
    cached_tokens: int | None = None
    """Prompt tokens whose keys and values came from a cache; None if the engine does not report them."""
    pictures: int | None = None
    """Number of pictures in the prompt; None if ``cached_pictures`` is None."""
    cached_pictures: int | None = None
    """Number of its pictures that were preprocessed for an earlier request; None if the engine does not report it."""
    thought: str = ""
    """What the model thought before ``text``, which holds none of it; empty if it shows none."""
    note: str = ""
    """What a service did otherwise than asked: another model, its own word for the end, a field left out."""


@dataclass(frozen=True, slots=True)
class ModelInput:
    """The input that an engine prepares from a request, before the network runs."""

    ids: tuple[int, ...] = ()
    """Token ids of the prompt, pictures expanded; empty for a model behind a service."""
    hashes: Mapping[str, str] = field(default_factory=dict)
    """Name of each tensor -> its SHA-256; for a service only ``request``, the body that is sent."""
    decoding: Mapping[str, Any] = field(default_factory=dict)
    """Decoding parameters as the engine receives them."""
    dtype: str = ""
    """Type of the network's floats, such as ``bfloat16``; empty for a model behind a service."""
    raw_pixels: bool = False
    """True if the tensors hold bytes of pictures, which the engine normalizes on its device (vLLM 0.32 for Qwen)."""


class Backend(ABC):
    """The interface of an engine; only ``reply`` has no default."""

    scores_replies: bool = False
    """True if the probabilities of its replies can be computed (extras/operating)."""

    @abstractmethod
    async def reply(self, request: Request) -> Reply:
        """Answer the request; raises a ``BackendError``."""

    async def close(self) -> None:
        """Release what the engine holds; safe to call twice."""
        return None

    @property
    def cache_tokens(self) -> int | None:
        """Capacity of the key-value cache in tokens; None if there is no such cache, or its size is unknown."""
        return None

    async def model_input(self, request: Request) -> ModelInput | None:
        """Return the engine's input for a request; None for a policy. Raises as ``reply``, and errors of the processor.

        Call this only while no request is in flight.
        """
        return None

    def describe_trouble(self) -> str:
        """Return why no request is answered now, and when the next one is sent; empty if they are answered."""
        return ""

    def set_budget(self, ledger: Any, holder: str) -> None:
        """Let a paid engine ask the sweep's ledger before each request; ``holder`` names this worker."""
        return None
