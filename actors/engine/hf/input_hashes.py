"""Hashes of the tensors that a network receives: equal for equal values, however an engine cuts and pads them."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

IDS = "input_ids"
NORMALIZATION = "normalization"
"""Name of the hash of the normalization that an engine applies to raw pixels on its device."""


def hash_tensors(tensors: Mapping[str, Any], dtype: torch.dtype) -> dict[str, str]:
    """Return name -> SHA-256 of each tensor, or of the tensors in nested lists, one per picture.

    Floats are hashed in the network's ``dtype``, to which every call converts them; integers and booleans as 64-bit integers.
    Zeros that pad pictures to equal sizes or numbers of tiles are left out, because vLLM adds them later, in its engine: a plane
    (the last two of three or more dimensions) loses its last rows and columns of zeros, and a plane of zeros is skipped.
    ``labels`` are left out, too: PaliGemma's processor adds these training targets, and no reply depends on them.
    """
    hashes = {}
    for name, value in sorted((name, value) for name, value in tensors.items() if name != "labels"):
        digest = hashlib.sha256()
        for tensor in _leaves(value):
            is_float = torch.is_floating_point(tensor)
            for part in _without_padding(tensor.detach().cpu().to(dtype if is_float else torch.int64)):
                digest.update(part.contiguous().flatten().view(torch.uint8).numpy().tobytes())
        hashes[str(name)] = digest.hexdigest()
    return hashes


def holds_raw_pixels(tensors: Mapping[str, Any]) -> bool:
    """Return True if pictures are bytes, not normalized floats."""
    return any(leaf.dtype == torch.uint8 for name in tensors if "pixel" in name for leaf in _leaves(tensors[name]))


def hash_normalization(mean: Sequence[float], deviation: Sequence[float], factor: float) -> dict[str, str]:
    """Return the hash of a normalization: mean and standard deviation of each color, and the factor applied before them."""
    return hash_tensors({NORMALIZATION: [*map(float, (*mean, *deviation, factor))]}, torch.float32)


def join_slices(tensors: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tensors of MiniCPM-V's pictures as its processor makes them.

    Args:
        tensors: ``pixel_values``, slices x colors x patch edge x padded length of each picture, and ``tgt_sizes``, rows and
            columns of patches of each slice.

    Returns:
        ``pixel_values``, 1 x colors x patch edge x the lengths of all slices, and ``target_sizes``.
    """
    others = {name: value for name, value in tensors.items() if name not in ("pixel_values", "tgt_sizes")}
    rows = [
        part[..., : height * width * part.shape[-2]]
        for picture, sizes in zip(tensors["pixel_values"], tensors["tgt_sizes"], strict=True)
        for part, (height, width) in zip(picture, sizes.tolist(), strict=True)
    ]
    return {**others, "pixel_values": torch.cat(rows, dim=-1)[None], "target_sizes": torch.cat(tensors["tgt_sizes"])}


def dtype_name(dtype: torch.dtype) -> str:
    """Return the name of a type, such as ``bfloat16``."""
    return str(dtype).removeprefix("torch.")


def _leaves(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple) and value and all(isinstance(part, bool | int | float) for part in value):
        yield torch.tensor(value)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _leaves(part)
    elif isinstance(value, bool | int | float):
        yield torch.tensor(value)


def _without_padding(tensor: torch.Tensor) -> Sequence[torch.Tensor]:
    if tensor.ndim < 3:
        return [tensor]
    planes = tensor.reshape(-1, *tensor.shape[-2:])
    rows, columns = (planes != 0).any(dim=2), (planes != 0).any(dim=1)
    if bool(rows[:, -1].all()) and bool(columns[:, -1].all()):
        return [planes]
    sizes = zip(planes, rows, columns, strict=True)
    return [plane[: _end(row), : _end(column)] for plane, row, column in sizes if bool(row.any())]


def _end(used: torch.Tensor) -> int:
    """Return the number of rows or columns up to the last used one, padding excluded."""
    return int(used.nonzero()[-1]) + 1
