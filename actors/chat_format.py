"""A conversation in the chat format of each engine: they differ only in how a picture is written."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Any, Literal

from actors.backend import Message
from envs.types import ImageRef

if TYPE_CHECKING:
    from PIL.Image import Image

Part = dict[str, Any]
Chat = list[dict[str, Any]]

JPEG_QUALITY = 95
SERVICE_EDGE, SMALLEST_EDGE = 2048, 64
"""Pixels: OpenAI's models fit each picture into a square of the first before they look at it (OpenAI's guide on vision, "high"
detail); where a service takes even less, the square is halved until the picture fits, down to the second."""


def conversation(messages: Sequence[Message], part: Callable[[ImageRef], Part], plain: bool = False) -> Chat:
    """The messages in the shape that chat templates and chat services share: pictures first, then the text.

    ``part`` writes one picture down. ``plain`` writes messages without pictures as a bare string, which text-only
    templates and services want; templates of multimodal models want lists throughout.
    """
    return [{"role": message.role, "content": _content(message, part, plain)} for message in messages]


def _content(message: Message, part: Callable[[ImageRef], Part], plain: bool) -> str | list[Part]:
    if plain and not message.images:
        return message.text
    return [*map(part, message.images), {"type": "text", "text": message.text}]


def marked(messages: Sequence[Message], mark: str) -> Chat:
    """The messages as bare strings, each picture as the model's own ``mark`` before the text: for templates that join strings."""
    return [{"role": message.role, "content": mark * len(message.images) + message.text} for message in messages]


def has_start_token(text: str, tokenizer: Any) -> bool:
    """Whether a rendered conversation begins with the tokenizer's start token, so that no second one may be added.

    The package lets the tokenizer add it always: templates of LLaVA-1.5 and LLaVA-NeXT write none and rely on that, the one
    of Idefics3 writes one and gets two there (docs/decisions/0008).
    """
    return bool(tokenizer.bos_token) and text.startswith(tokenizer.bos_token)


def data_url(image: Image, form: Literal["png", "jpeg"] = "png", limit: int | None = None) -> str:
    """A picture as a ``data:`` URL of at most ``limit`` bytes, shrunk where it would be longer; equal pixels give equal bytes."""
    url, edge = _encoded(image, form), SERVICE_EDGE
    while limit is not None and len(url) > limit and edge >= SMALLEST_EDGE:
        smaller = image.copy()
        smaller.thumbnail((edge, edge))
        url, edge = _encoded(smaller, form), edge // 2
    return url


def _encoded(image: Image, form: Literal["png", "jpeg"]) -> str:
    held = BytesIO()
    options: dict[str, Any] = {"quality": JPEG_QUALITY, "subsampling": 0} if form == "jpeg" else {}
    image.save(held, form.upper(), **options)
    return f"data:image/{form};base64,{b64encode(held.getvalue()).decode('ascii')}"
