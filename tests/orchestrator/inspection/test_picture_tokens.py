"""Tokens of a picture by OpenAI's guide, worked out by hand at the bounds of its rules."""

from __future__ import annotations

import pytest

from orchestrator.inspection.picture_tokens import patch_count, tile_count, token_rule


@pytest.mark.parametrize(
    ("width", "height", "count"),
    [
        (1, 1, 1), (512, 512, 1), (513, 512, 2), (512, 513, 2), (768, 768, 4), (1024, 1024, 4), (2048, 4096, 6),
        (1333, 1000, 4),  # to 1,024 x 768
        (1335, 1000, 6),  # to 1,025 x 768
        (8192, 2051, 8),  # to 2,048 x 513
        (1, 4096, 4), (4096, 1, 4),  # to 1 x 2,048
    ],
)  # fmt: skip
def test_tiles_of_a_picture_that_is_fitted_twice_and_never_enlarged(width: int, height: int, count: int) -> None:
    assert tile_count(width, height) == count


@pytest.mark.parametrize(
    ("width", "height", "count"),
    [
        (1, 1, 1), (32, 32, 1), (33, 32, 2), (32, 33, 2), (65, 64, 6), (1536, 1024, 1536),
        (1568, 1024, 1488),  # 49 x 32 patches, to 48 x 31
        (1800, 2400, 1452),  # the guide's own example: 33 x 44
        (40, 41_600, 1040),  # 1.25 x 1,300 patches, to 1 x 1,040
        (16, 64_000, 1536),  # less than a patch wide
    ],
)  # fmt: skip
def test_patches_of_a_picture_that_is_shrunk_to_whole_ones(width: int, height: int, count: int) -> None:
    assert patch_count(width, height) == count


@pytest.mark.parametrize(
    ("model", "tokens"),
    [
        ("gpt-4o-mini", 2833 + 4 * 5667), ("gpt-4o", 85 + 4 * 170), ("gpt-4.1", 85 + 4 * 170), ("o1", 75 + 4 * 150),
        ("o3", 75 + 4 * 150), ("gpt-5", 70 + 4 * 140), ("gpt-4.1-mini", 1659), ("gpt-4.1-nano", 2520),
        ("gpt-5-mini", 1659), ("gpt-5-nano", 2520), ("gpt-5.2", 1229), ("o4-mini", 1762),
    ],
)  # fmt: skip
def test_a_picture_of_1024_pixels_costs_four_tiles_or_1024_patches(model: str, tokens: int) -> None:
    """1,024 times 1.62 are 1,658.88, times 2.46 are 2,519.04, times 1.2 are 1,228.8, times 1.72 are 1,761.28."""
    for source in (model, f"{model}-2025-12-01"):
        rule = token_rule(source)
        assert rule is not None and rule(1024, 1024) == tokens
    assert token_rule(f"{model}-2025-12") is None and token_rule(f"{model}-2025-12-01-preview") is None
