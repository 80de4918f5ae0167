"""Estimates the tokens of a prompt before it is sent, so that a budget holds from the first request.

Text counts as one token per four bytes (OpenAI's rule of thumb). A picture counts by OpenAI's published rules for detail "high",
which the API uses if a request names no detail. ``rate_limit.Budget`` corrects the estimates by the first answer.

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
"""Model -> tokens of a picture without its tiles, and tokens of a tile (``tile_count``)."""
PATCHES: Mapping[str, float] = {
    "gpt-4.1-mini": 1.62, "gpt-4.1-nano": 2.46, "gpt-5-mini": 1.62, "gpt-5-nano": 2.46, "gpt-5.2": 1.2, "o4-mini": 1.72,
}  # fmt: skip
"""Model -> tokens of a patch (``patch_count``)."""
SQUARE, SHORT_EDGE, TILE = 2048, 768, 512
"""Pixels of the square and of the short edge that a picture is shrunk to, and of a tile's edge."""
PATCH, MAX_PATCHES = 32, 1536
"""Pixels of a patch's edge, and the most patches of a picture."""
BYTES_PER_TOKEN, MESSAGE_TOKENS = 4, 4
PIXELS_PER_TOKEN = 750
"""Pixels per token for models without a published rule: most engines use some 1,300 tokens per megapixel."""
MIN_PICTURE_TOKENS = 64
"""Tokens of the smallest picture, for models without a published rule."""


def token_rule(source: str) -> Callable[[int, int], int] | None:
    """Return the rule (width, height) -> tokens of OpenAI's model ``source``; None for other models."""
    name = re.sub(r"-\d{4}-\d{2}-\d{2}$", "", source)
    if name in PATCHES:
        return lambda width, height: ceil(patch_count(width, height) * PATCHES[name])
    if name in TILES:
        base, per_tile = TILES[name]
        return lambda width, height: base + per_tile * tile_count(width, height)
    return None


def tile_count(width: int, height: int) -> int:
    """Return the number of 512-pixel squares of a picture, shrunk to fit 2,048 x 2,048 and then to a short edge of 768."""
    for bound, edge in ((SQUARE, max), (SHORT_EDGE, min)):
        scale = min(1.0, bound / edge(width, height))
        width, height = max(1, round(width * scale)), max(1, round(height * scale))
    return ceil(width / TILE) * ceil(height / TILE)


def patch_count(width: int, height: int) -> int:
    """Return the number of 32-pixel squares of a picture, which is shrunk until they are at most 1,536."""
    columns, rows = width / PATCH, height / PATCH
    count = ceil(columns) * ceil(rows)
    if count <= MAX_PATCHES:
        return count
    scale = sqrt(MAX_PATCHES / (columns * rows))
    scale *= min(max(1, floor(edge * scale)) / (edge * scale) for edge in (columns, rows))
    return min(MAX_PATCHES, ceil(round(columns * scale, 6)) * ceil(round(rows * scale, 6)))


def text_tokens(request: Request) -> int:
    """Return the estimated tokens of a request's messages and functions, without pictures."""
    texts = [*(message.text for message in request.messages), *(str(function) for function in request.tools)]
    return sum(MESSAGE_TOKENS + ceil(len(text.encode("utf-8", "replace")) / BYTES_PER_TOKEN) for text in texts)


def picture_tokens(request: Request, source: str, size: Callable[[ImageRef], tuple[int, int]]) -> int:
    """Return the estimated tokens of a request's pictures for the model ``source``; ``size``: picture -> width and height."""
    rule, tokens = token_rule(source) or _fallback_rule, 0
    for image in images_of(request.messages):
        with suppress(UnreadablePicture):
            tokens += rule(*size(image))
    return tokens


def _fallback_rule(width: int, height: int) -> int:
    return max(MIN_PICTURE_TOKENS, ceil(width * height / PIXELS_PER_TOKEN))
