"""Tokens of a picture by OpenAI's rules, and of a prompt before it is sent, so that a budget holds from the first requests on.

Text counts one token per four bytes (OpenAI's rule of thumb), a picture by the provider's published rule, here those for detail
"high", which apply to a picture without ``detail``. The first answer shows by how much the estimates err (``rate_limit.Budget``).

Source of the rules: the guide "Images and vision", section "Calculating costs"
(platform.openai.com/docs/guides/images-vision). For gpt-5.2 the guide has no rule; users measured 1.2 tokens per patch
(community.openai.com/t/1372291).
"""

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from math import ceil, floor, sqrt

from actors.engine.backend import Request, images_of
from envs.render import UnreadablePicture
from envs.types import ImageRef

TILES: Mapping[str, tuple[int, int]] = {
    "gpt-4o-mini": (2833, 5667), "gpt-4o": (85, 170), "gpt-4.1": (85, 170), "o1": (75, 150), "o3": (75, 150),
    "gpt-5": (70, 140),
}  # fmt: skip
"""Model -> tokens of a picture, and of each of its tiles."""
PATCHES: Mapping[str, float] = {
    "gpt-4.1-mini": 1.62, "gpt-4.1-nano": 2.46, "gpt-5-mini": 1.62, "gpt-5-nano": 2.46, "gpt-5.2": 1.2, "o4-mini": 1.72,
}  # fmt: skip
"""Model -> tokens of a patch."""
SQUARE, SHORT, TILE = 2048, 768, 512
PATCH, MAX_PATCHES = 32, 1536
BYTES_PER_TOKEN, MESSAGE_TOKENS = 4, 4
PIXELS_PER_TOKEN = 750
"""For a provider without a published rule: a megapixel is some 1,300 tokens with most engines."""
LEAST_PICTURE = 64
"""Tokens of the smallest picture."""


def token_rule(source: str) -> Callable[[int, int], int] | None:
    """Return the rule (width, height) -> tokens of OpenAI's model ``source``; None for other models."""
    name = re.sub(r"-\d{4}-\d{2}-\d{2}$", "", source)
    if name in PATCHES:
        return lambda width, height: ceil(patches(width, height) * PATCHES[name])
    if name in TILES:
        base, each = TILES[name]
        return lambda width, height: base + each * tiles(width, height)
    return None


def tiles(width: int, height: int) -> int:
    """Return the number of 512-pixel squares of a picture, fitted into 2,048 x 2,048 and then to a shorter side of 768."""
    for bound, edge in ((SQUARE, max), (SHORT, min)):
        scale = min(1.0, bound / edge(width, height))
        width, height = max(1, round(width * scale)), max(1, round(height * scale))
    return ceil(width / TILE) * ceil(height / TILE)


def patches(width: int, height: int) -> int:
    """Return the number of 32-pixel squares of a picture, which is shrunk until they are at most 1,536."""
    wide, high = width / PATCH, height / PATCH
    count = ceil(wide) * ceil(high)
    if count <= MAX_PATCHES:
        return count
    shrink = sqrt(MAX_PATCHES / (wide * high))
    shrink *= min(max(1, floor(edge * shrink)) / (edge * shrink) for edge in (wide, high))
    return min(MAX_PATCHES, ceil(round(wide * shrink, 6)) * ceil(round(high * shrink, 6)))


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
