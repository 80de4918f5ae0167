"""The interface of everything that replies: ``await backend.reply(request)`` returns a ``Reply`` or raises a named error.

Errors::

    BackendError
    ├── Unprocessable     this request can never be answered (a bad picture): its episode ends, counted as an error
    │   └── Overflow      it exceeds the model (context, pictures, memory): its episode ends as OVERFLOW, no error
    ├── Refused           the provider declined (content filter): its episode ends as REFUSED
    ├── BackendDied       the engine is gone: the worker is replaced, its unfinished episodes are pending again
    └── ModelStopped      key refused, quota used up, no such model: a new worker would not help, episodes stay pending
        └── BudgetSpent   ``max_cost`` is reached

Any other exception is a bug and propagates.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from envs.render import UnreadablePicture as UnprocessablePicture
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


ENDS_EPISODE = (Unprocessable, UnprocessablePicture)


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation: pictures first, then text, as in the paper's template."""

    role: str
    """``user``, ``assistant`` or ``system``."""
    text: str
    images: tuple[ImageRef, ...] = ()


def images_of(messages: Iterable[Message]) -> list[ImageRef]:
    """Return the pictures of a conversation, in order."""
    return [image for message in messages for image in message.images]


@dataclass(frozen=True, slots=True)
class Situation:
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
    """The offered function calls, each with its option; empty if none may be called."""


@dataclass(frozen=True, slots=True)
class Request:
    """One question to one model."""

    messages: tuple[Message, ...]
    sampling: Sampling
    seed: int
    """Seed of this turn's decoding: differs by turn, same for every model."""
    situation: Situation
    key: str = ""
    """The key of its episode; empty if a later attempt need not find the answer."""
    tools: tuple[Function, ...] = ()
    """Functions offered with the messages; the text of a reply that calls any is ``envs.tool_calls.encode_calls``."""


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
    """Prompt tokens whose attention came from a cache; None if the engine does not report it."""
    pictures: int | None = None
    """Pictures of the prompt; None if ``cached_pictures`` is."""
    cached_pictures: int | None = None
    """Pictures preprocessed for an earlier request; None if the engine does not report it."""


class ReplyScore(NamedTuple):
    """The probability that a model writes exactly one reply and ends."""

    log_probability: float
    """Natural logarithm, at temperature 1, without top-p, top-k and penalties."""
    greedy: bool
    """True if greedy decoding writes this reply."""


class ScoredReplies(NamedTuple):
    """The scores of some replies to one request, and what asking for them took."""

    scores: tuple[ReplyScore, ...]
    """One per reply, in order."""
    usage: Reply
    """Tokens, time and cost; its text is empty."""


class FirstToken(NamedTuple):
    """A token with which a reply may begin."""

    text: str
    log_probability: float


@dataclass(frozen=True, slots=True)
class FirstTokenReply(Reply):
    """A reply cut off after one token, with the probabilities of the most probable first tokens."""

    first: tuple[FirstToken, ...] = ()
    """In falling order."""


@dataclass(frozen=True, slots=True)
class ModelInput:
    """What an engine makes of a request before any network computes."""

    ids: tuple[int, ...] = ()
    """Token ids of the prompt, pictures expanded; empty behind a service."""
    hashes: Mapping[str, str] = field(default_factory=dict)
    """Name of each tensor -> its SHA-256; for a service only ``request``, the body that is sent."""
    decoding: Mapping[str, Any] = field(default_factory=dict)
    """Decoding choices as the engine receives them."""
    dtype: str = ""
    """Type of the network's floats, such as ``bfloat16``; empty behind a service."""
    raw_pixels: bool = False
    """True if pictures are bytes here, and the engine normalizes them on its device (vLLM 0.32 for Qwen)."""


class Backend(ABC):
    """The interface of an engine; only ``reply`` has no default."""

    scores_replies: bool = False
    """True if the engine has ``option_log_probabilities``."""
    load_seconds: float = 0.0
    """Seconds that its load took, without the wait for a turn; 0 if it loads nothing."""

    @abstractmethod
    async def reply(self, request: Request) -> Reply:
        """Answer; raises a ``BackendError``."""

    async def option_log_probabilities(
        self, request: Request, replies: Sequence[str], thought: str = ""
    ) -> ScoredReplies:
        """Return the score of each of these replies, given that the model has written ``thought`` before them.

        Raises as ``reply``. Only for engines with ``scores_replies``.
        """
        raise NotImplementedError(f"{type(self).__name__} gives no probabilities")

    async def first_tokens(self, request: Request) -> FirstTokenReply | None:
        """Return the probabilities of a reply's first token; None if the engine gives none. Raises as ``reply``."""
        return None

    async def close(self) -> None:
        """Release what the engine holds; safe to call twice."""
        return None

    @property
    def cache_tokens(self) -> int | None:
        """Tokens that the key-value cache holds; None if there is no such cache, or its size is unknown."""
        return None

    async def model_input(self, request: Request) -> ModelInput | None:
        """Return what the engine makes of a request; None for a policy. Raises as ``reply`` and errors of its processor.

        Call this only while no request is in flight.
        """
        return None

    async def identify(self, before: str = "") -> str:
        """Return what identifies the model of a service, to compare with ``before``, the run's record; empty if unknown."""
        return ""

    def in_play(self) -> AbstractContextManager[None]:
        """Return a context for one episode, for engines that wait until every episode in play has sent a request."""
        return nullcontext()

    def limit_in_flight(self, requests: int) -> None:
        """Change the number of requests that may be in flight, where the engine limits them itself."""
        return None

    def join_run(self, run: str, budget: Any | None) -> None:
        """Bind a paid engine to a run folder's name, and to the ``RemoteBudget`` of its sweep if that has one."""
        return None


class LocalBackend(Backend):
    """An engine whose model runs on this node."""

    @abstractmethod
    async def token_ids(self, request: Request) -> list[int]:
        """Return the ids that the model reads, pictures expanded; raises errors of its processor."""


class ScriptedBackend(Backend):
    """A backend that answers with a function of the request: for tests, dry runs and new contributors."""

    def __init__(self, answer: Callable[[Request], str]) -> None:
        self.answer = answer

    async def reply(self, request: Request) -> Reply:
        return Reply(self.answer(request))
