"""Estimates the tokens of a prompt before it is sent, so that a budget holds from the first requests on.

Text counts one token per four bytes (OpenAI's rule of thumb), a picture by the provider's published rule. The first answer shows
by how much the estimates err (``rate_limit.Budget``).
"""

from collections.abc import Callable
from contextlib import suppress
from math import ceil

from actors.engine.backend import Request, images_of
from actors.engine.openai.picture_tokens import token_rule
from envs.render import UnreadablePicture
from envs.types import ImageRef

BYTES_PER_TOKEN, MESSAGE_TOKENS = 4, 4
PIXELS_PER_TOKEN = 750
"""For a provider without a published rule: a megapixel is some 1,300 tokens with most engines."""
LEAST_PICTURE = 64
"""Tokens of the smallest picture."""


def text_tokens(request: Request) -> int:
    """Return the estimated tokens of a request's messages and functions, without pictures."""
    texts = [*(message.text for message in request.messages), *(str(function) for function in request.tools)]
    return sum(MESSAGE_TOKENS + ceil(len(text.encode("utf-8", "replace")) / BYTES_PER_TOKEN) for text in texts)


def picture_tokens(request: Request, source: str, size: Callable[[ImageRef], tuple[int, int]]) -> int:
    """Return the estimated tokens of a request's pictures for the model ``source``; ``size``: picture -> width and height."""
    rule, tokens = token_rule(source) or _unpublished_rule, 0
    for image in images_of(request.messages):
        with suppress(UnreadablePicture):
            tokens += rule(*size(image))
    return tokens


def _unpublished_rule(width: int, height: int) -> int:
    return max(LEAST_PICTURE, ceil(width * height / PIXELS_PER_TOKEN))
