"""Hashes of tensors depend on values alone: not on how an engine cuts, pads and types them."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="the extra 'transformers' is not installed")

import torch

from actors.engine.hf.input_hashes import (
    hash_tensors,
    join_slices,
    parse_dtype,
)


def hashed(value: object, dtype: str = "float32") -> str:
    return hash_tensors({"x": value}, parse_dtype(dtype))["x"]


def test_a_batch_is_its_pictures_one_by_one() -> None:
    pictures = torch.rand(3, 2, 3, 4, 5) + 1

    assert hashed(pictures) == hashed(list(pictures)) == hashed([list(picture) for picture in pictures])
    assert hashed(pictures) != hashed(pictures.flip(0)) and hashed(pictures) != hashed(pictures[:2])


def test_padding_counts_for_nothing_and_a_pixel_for_everything() -> None:
    small, large = torch.rand(3, 2, 4) + 1, torch.rand(3, 5, 6) + 1
    padded = torch.zeros(2, 2, 3, 5, 6)
    padded[0, 0, :, :2, :4] = small
    padded[1, 0] = large
    changed = padded.clone()
    changed[0, 0, 1, 1, 1] += 0.5

    assert hashed(padded) == hashed([small, large])
    assert hashed(changed) != hashed([small, large])


def test_slices_are_joined_as_the_processor_has_them() -> None:
    """Two pictures of two slices and one, of 2 x 3, 1 x 2 and 3 x 1 patches with edges of 4 pixels, zeros inside."""
    grids = [torch.tensor([[2, 3], [1, 2]]), torch.tensor([[3, 1]])]
    row = torch.rand(3, 4, 4 * (6 + 2 + 3)).round()
    first = torch.zeros(2, 3, 4, 24)
    first[0], first[1, :, :, :8] = row[..., :24], row[..., 24:32]
    joined = join_slices({"pixel_values": [first, row[None, :, :, 32:]], "tgt_sizes": grids, "mode": [torch.tensor(4)]})

    assert torch.equal(joined["pixel_values"], row[None]) and joined["mode"] == [torch.tensor(4)]
    assert joined["target_sizes"].tolist() == [[2, 3], [1, 2], [3, 1]] and "tgt_sizes" not in joined
