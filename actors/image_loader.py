"""Opens, crops and resizes pictures in threads of their own, so that the loop of episodes never waits for a disk.

The preprocessing of an engine then starts from pixels, and a picture named twice in one conversation is opened once.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from actors.backend import Message
from envs.render import Fit, Renderer
from envs.types import ImageRef
from sweeps.spec import ModelSpec
from sweeps.values import digest

if TYPE_CHECKING:
    from PIL.Image import Image

T = TypeVar("T")

MOST_THREADS = 8
"""Decoding releases the interpreter lock; beyond this the disk or the lock is the limit."""


def threads() -> int:
    """In how many threads pictures are opened."""
    return min(MOST_THREADS, os.cpu_count() or 1)


class Pictures:
    """The pictures of one benchmark folder, as an engine asks for them."""

    def __init__(self, data: Path, model: ModelSpec | None = None) -> None:
        """``model`` is the one that will see them: for Qwen's they are fitted first."""
        self.renderer = Renderer(data, fit=fit(model) if model else None)
        self.folder = digest(str(data.resolve()))
        self.threads = ThreadPoolExecutor(threads(), thread_name_prefix="pictures")

    async def shown(self, messages: Sequence[Message]) -> dict[ImageRef, Image]:
        """Every picture of a conversation as RGB pixels; raises ``envs.render.Unprocessable`` for an unreadable one."""
        return await self.made(messages, lambda image: image)

    async def made(self, messages: Sequence[Message], form: Callable[[Image], T]) -> dict[ImageRef, T]:
        """Every picture of a conversation in another form, made in the same threads."""
        loop = asyncio.get_running_loop()
        wanted = list(dict.fromkeys(image for message in messages for image in message.images))

        def one(ref: ImageRef) -> T:
            return form(self.renderer.picture(ref))

        ready = (loop.run_in_executor(self.threads, one, ref) for ref in wanted)
        return dict(zip(wanted, await asyncio.gather(*ready), strict=True))

    def opened(self, messages: Sequence[Message]) -> dict[ImageRef, Image]:
        """Every picture of a conversation as RGB pixels, opened in the calling thread; raises as ``shown``."""
        wanted = dict.fromkeys(image for message in messages for image in message.images)
        return {image: self.renderer.picture(image) for image in wanted}

    def name(self, image: ImageRef) -> str:
        """What an engine's picture cache may know these pixels by: folder, file, crop and size."""
        return f"{self.folder}:{image.key}"

    def close(self) -> None:
        """Release the threads; safe to call twice."""
        self.threads.shutdown(wait=False, cancel_futures=True)


def png(picture: Image) -> bytes:
    """The pixels as PNG, without loss and without what the file told beside them: comments, EXIF, colour profiles."""
    bare, content = picture.copy(), BytesIO()
    bare.info = {}
    bare.save(content, "PNG")
    return content.getvalue()


def fit(model: ModelSpec) -> Fit | None:
    """The bounds to which a model's pictures are fitted before the crop, those of its processor; None for all but Qwen's."""
    if not model.fits_pictures:
        return None
    bounds = Fit()
    return bounds._replace(
        fewest=model.processor.get("min_pixels", bounds.fewest), most=model.processor.get("max_pixels", bounds.most)
    )
