"""Keeps what an image processor made of each picture, which the next conditions of a sample show again.

A picture is processed alone, once, and the parts are joined as the processor itself joins a batch: below one another, each
padded with zeros to the largest. Where that does not give the processor's own tensors, to the bit, for three test pictures,
nothing is kept.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from hashlib import sha256
from typing import Any

import torch
from PIL import Image
from torch.nn.functional import pad
from transformers import BaseImageProcessor, BatchFeature

MAX_BYTES = 1 << 30
"""Most bytes of a model's processed pictures in memory."""
TEST_SIZES = ((96, 64), (640, 480), (480, 640))
"""Width and height of the test pictures."""


def keep_processed_pictures(processor: Any) -> Any:
    """Return a copy of the processor with a cache before its pictures' ``preprocess``; one of another kind as it is."""
    if not isinstance(getattr(processor, "image_processor", None), BaseImageProcessor):
        return processor
    caching = copy(processor)
    caching.image_processor = copy(processor.image_processor)
    caching.image_processor.preprocess = PictureCache(processor.image_processor.preprocess)
    return caching


class PictureCache:
    """The method ``preprocess`` of an image processor, with a memory; call it from one thread at a time."""

    def __init__(self, preprocess: Callable[..., Any]) -> None:
        self.preprocess = preprocess
        self.kept: OrderedDict[bytes, Mapping[str, Any]] = OrderedDict()
        """Hash of the pixels -> what the processor made of the picture; the last used one is last."""
        self._layout: tuple[()] | tuple[bool, dict[str, Any]] | None = None
        """Of the first call: True if its pictures came in a list per request, and its options; empty if parts do not join."""

    def __call__(self, images: Sequence[Any], **options: Any) -> Any:
        """Return the tensors of a batch; raises what the processor raises."""
        layout = isinstance(images[0], list), options
        if self._layout is None:
            self._layout = layout if self._test(*layout) else ()
        return self._join(images, *layout) if layout == self._layout else self.preprocess(images, **options)

    def _test(self, in_rows: bool, options: Mapping[str, Any]) -> bool:
        first, second, third = (Image.radial_gradient("L").resize(size).convert("RGB") for size in TEST_SIZES)
        images = [[first, second], [third, first]] if in_rows else [first, second, third]
        try:
            return are_equal(self._join(images, in_rows, options), self.preprocess(images, **options))
        except Exception:  # of a form that is not known here; a real fault comes again without the cache
            return False
        finally:
            self.kept.clear()

    def _join(self, images: Sequence[Any], in_rows: bool, options: Mapping[str, Any]) -> Any:
        if not in_rows:
            parts = [self._process(image, [image], options) for image in images]
            return BatchFeature({key: _concatenate([part[key] for part in parts]) for key in parts[0]})
        rows = [[self._process(image, [[image]], options) for image in row] for row in images]
        return BatchFeature({key: _concatenate([_in_one_row(row, key) for row in rows]) for key in rows[0][0]})

    def _process(self, image: Image.Image, batch: Sequence[Any], options: Mapping[str, Any]) -> Mapping[str, Any]:
        key = sha256(image.tobytes() + repr((image.mode, image.size)).encode()).digest()
        if key not in self.kept:
            features = self.preprocess(batch, **options).items()  # joined three times as fast in one piece of memory
            self.kept[key] = {name: v.contiguous() if isinstance(v, torch.Tensor) else v for name, v in features}
            excess = sum(map(_memory, self.kept.values())) - MAX_BYTES
            while excess > 0 and len(self.kept) > 1:
                excess -= _memory(self.kept.popitem(last=False)[1])
        self.kept.move_to_end(key)
        return self.kept[key]


def _in_one_row(parts: Sequence[Mapping[str, Any]], key: str) -> Any:
    """Return the values of one request's pictures, each of which was processed as a request of its own."""
    row = _concatenate([part[key][0] for part in parts]) if len(parts) > 1 else parts[0][key][0]
    return row[None] if isinstance(row, torch.Tensor) else [row]


def _concatenate(parts: Sequence[Any]) -> Any:
    """Return lists one after the other, and tensors below one another, the smaller ones padded with zeros."""
    if isinstance(parts[0], list):
        return [value for part in parts for value in part]
    shape = [max(edges) for edges in zip(*(part.shape[1:] for part in parts), strict=True)]
    missing = [[most - edge for most, edge in zip(shape, part.shape[1:], strict=True)] for part in parts]
    sides = [[side for zeros in reversed(edges) for side in (0, zeros)] for edges in missing]
    return torch.cat([pad(part, own) if any(own) else part for part, own in zip(parts, sides, strict=True)])


def are_equal(ours: Any, theirs: Any) -> bool:
    """Return True if two processors' results have the same names, types and values."""
    if isinstance(ours, torch.Tensor):
        return isinstance(theirs, torch.Tensor) and ours.dtype == theirs.dtype and torch.equal(ours, theirs)
    if isinstance(ours, Mapping | BatchFeature):
        return ours.keys() == theirs.keys() and all(are_equal(ours[key], theirs[key]) for key in ours)
    return bool(ours == theirs)


def _memory(features: Mapping[str, Any]) -> int:
    return sum(value.nbytes for value in features.values() if isinstance(value, torch.Tensor))
