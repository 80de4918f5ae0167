"""Opens, crops and resizes pictures in threads, so that the event loop never waits for a disk.

A picture that occurs twice in one conversation is opened once.
"""

import asyncio
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from PIL.Image import Image

from actors.engine.backend import Message, images_of
from envs.render import Fit, Renderer
from envs.types import ImageRef
from sweeps.spec import ModelSpec

T = TypeVar("T")

MAX_THREADS = 8
"""Decoding pictures releases the interpreter lock; with more threads, the disk or the lock is the limit."""


def thread_count() -> int:
    """Return the number of threads that open pictures."""
    return min(MAX_THREADS, os.cpu_count() or 1)


class PictureLoader:
    """A loader of one benchmark folder's pictures for an engine."""

    def __init__(self, data: Path, model: ModelSpec | None = None) -> None:
        """``data`` is the benchmark folder; pictures for a ``model`` of Qwen's are first resized to ``picture_bounds``."""
        self.renderer = Renderer(data, fit=picture_bounds(model) if model else None)
        self.threads = ThreadPoolExecutor(thread_count(), thread_name_prefix="pictures")

    async def load(self, messages: Sequence[Message]) -> dict[ImageRef, Image]:
        """Return each picture of a conversation as RGB pixels; raises ``envs.render.UnreadablePicture``."""
        return await self.load_as(messages, lambda image: image)

    async def load_as(self, messages: Sequence[Message], convert: Callable[[Image], T]) -> dict[ImageRef, T]:
        """Return each picture of a conversation, converted by ``convert`` in the same threads; raises as ``load``."""
        loop, refs = asyncio.get_running_loop(), list(dict.fromkeys(images_of(messages)))
        opening = (
            loop.run_in_executor(self.threads, lambda ref: convert(self.renderer.picture(ref)), ref) for ref in refs
        )
        return dict(zip(refs, await asyncio.gather(*opening), strict=True))

    def close(self) -> None:
        self.threads.shutdown(wait=False, cancel_futures=True)


def picture_bounds(model: ModelSpec) -> Fit | None:
    """Return the bounds to which a model's pictures are fitted before the crop; None for models other than Qwen's."""
    if not model.fits_pictures:
        return None
    options = {"fewest": "min_pixels", "most": "max_pixels"}
    return Fit(**{name: model.processor[option] for name, option in options.items() if option in model.processor})
