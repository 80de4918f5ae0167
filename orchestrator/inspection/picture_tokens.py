"""OpenAI's rules for the tokens of a picture, of detail "high", which the API uses if a request names no detail.

Source of the rules: the guide "Images and vision", section "Calculating costs"
(platform.openai.com/docs/guides/images-vision). For gpt-5.2 the guide has no rule; users measured 1.2 tokens per patch
(community.openai.com/t/1372291).
"""

import re
from collections.abc import Callable, Mapping
from math import ceil, floor, sqrt

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
