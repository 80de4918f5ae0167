"""Writes a conversation in the chat format of each engine; the formats differ only in how they hold pictures."""

import json
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import date
from io import BytesIO
from typing import Any, Literal

from PIL.Image import Image

from actors.engine.backend import Message
from envs.tool_calls import Function, reject_duplicates
from envs.types import ImageRef

Part = dict[str, Any]
Chat = list[dict[str, Any]]

JPEG_QUALITY = 95
SERVICE_EDGE, SMALLEST_EDGE = 2048, 64
"""Edges of squares in pixels: OpenAI's models shrink pictures to fit the first (OpenAI's guide on vision, "high" detail). A
picture with too many bytes for a service is shrunk to fit the first, then half that edge and so on, down to the second."""
MAX_NAME, MAX_ARGUMENTS = 100, 10_000
"""Most characters of a call's name and of its arguments."""
FUNCTION_PROBE = Function("look_behind", "Looks behind it.", "side", ("left",))
"""A function for testing whether a chat template writes functions."""


def conversation(messages: Sequence[Message], part: Callable[[ImageRef], Part], plain: bool = False) -> Chat:
    """Return the messages in the format of chat templates and services: pictures first, then the text.

    ``part`` encodes one picture. ``plain`` writes messages without pictures as a bare string, which text-only
    templates and services need; templates of multimodal models need lists throughout.
    """

    def content(message: Message) -> str | list[Part]:
        if plain and not message.images:
            return message.text
        return [*map(part, message.images), {"type": "text", "text": message.text}]

    return [{"role": message.role, "content": content(message)} for message in messages]


def with_picture_marks(messages: Sequence[Message], mark: str) -> Chat:
    """Return the messages as bare strings with the model's ``mark`` per picture, for templates that join strings."""
    return [{"role": message.role, "content": mark * len(message.images) + message.text} for message in messages]


def template_variables(chat: Mapping[str, Any]) -> dict[str, Any]:
    """Return a chat template's variables; ``today`` (``2026-11-01``) becomes the function that templates call for the date."""
    variables = dict(chat)
    if today := variables.pop("today", None):
        variables["strftime_now"] = date.fromisoformat(today).strftime
    return variables


def has_start_token(text: str, tokenizer: Any) -> bool:
    """Return True if a rendered conversation already begins with the tokenizer's start token and needs no other.

    The package always adds one: templates of LLaVA-1.5 and LLaVA-NeXT rely on that, and Idefics3 gets two there
    (docs/decisions/0008).
    """
    return bool(tokenizer.bos_token) and text.startswith(tokenizer.bos_token)


def data_url(image: Image, form: Literal["png", "jpeg"] = "png", limit: int | None = None) -> str:
    """Return a picture as a ``data:`` URL, shrunk until that has at most ``limit`` bytes; equal pixels give equal bytes."""
    url, edge = _encode(image, form), SERVICE_EDGE
    while limit is not None and len(url) > limit and edge >= SMALLEST_EDGE:
        smaller = image.copy()
        smaller.thumbnail((edge, edge))
        url, edge = _encode(smaller, form), edge // 2
    return url


def _encode(image: Image, form: Literal["png", "jpeg"]) -> str:
    content = BytesIO()
    options: dict[str, Any] = {"quality": JPEG_QUALITY, "subsampling": 0} if form == "jpeg" else {}
    image.save(content, form.upper(), **options)
    return f"data:image/{form};base64,{b64encode(content.getvalue()).decode('ascii')}"


def function_schema(function: Function) -> dict[str, Any]:
    """Return the function in the format of OpenAI's ``tools`` and chat templates."""
    properties = {function.parameter: {"type": "string", "enum": list(function.values)}} if function.values else {}
    parameters = {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}
    schema = {"name": function.name, "description": function.description, "parameters": parameters}
    return {"type": "function", "function": schema}


def bounded_call(name: str, arguments: str) -> tuple[str, Any]:
    """Return a call's name and arguments, both bounded; the arguments become an object if their JSON text is a flat one."""
    text, values = arguments[:MAX_ARGUMENTS], None
    with suppress(ValueError, RecursionError):
        if len(arguments) <= MAX_ARGUMENTS:
            values = json.loads(text.strip() or "{}", object_pairs_hook=reject_duplicates)
    is_flat = isinstance(values, dict) and all(isinstance(value, str | int | float | None) for value in values.values())
    return name[:MAX_NAME], values if is_flat else text
