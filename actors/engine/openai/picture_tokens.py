"""Tokens of a picture by OpenAI's published rules for detail "high", which apply to a picture without ``detail``.

Source: the guide "Images and vision", section "Calculating costs" (platform.openai.com/docs/guides/images-vision). For gpt-5.2
the guide has no rule; users measured 1.2 tokens per patch (community.openai.com/t/1372291).
"""

import math
import re
from collections.abc import Callable, Mapping

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


def token_rule(source: str) -> Callable[[int, int], int] | None:
    """Return the rule (width, height) -> tokens of OpenAI's model ``source``; None for other models."""
    name = re.sub(r"-\d{4}-\d{2}-\d{2}$", "", source)
    if name in PATCHES:
        return lambda width, height: math.ceil(patches(width, height) * PATCHES[name])
    if name in TILES:
        base, each = TILES[name]
        return lambda width, height: base + each * tiles(width, height)
    return None


def tiles(width: int, height: int) -> int:
    """Return the number of 512-pixel squares of a picture, fitted into 2,048 x 2,048 and then to a shorter side of 768."""
    for bound, edge in ((SQUARE, max), (SHORT, min)):
        scale = min(1.0, bound / edge(width, height))
        width, height = max(1, round(width * scale)), max(1, round(height * scale))
    return math.ceil(width / TILE) * math.ceil(height / TILE)


def patches(width: int, height: int) -> int:
    """Return the number of 32-pixel squares of a picture, which is shrunk until they are at most 1,536."""
    wide, high = width / PATCH, height / PATCH
    count = math.ceil(wide) * math.ceil(high)
    if count <= MAX_PATCHES:
        return count
    shrink = math.sqrt(MAX_PATCHES / (wide * high))
    shrink *= min(max(1, math.floor(edge * shrink)) / (edge * shrink) for edge in (wide, high))
    return min(MAX_PATCHES, math.ceil(round(wide * shrink, 6)) * math.ceil(round(high * shrink, 6)))
