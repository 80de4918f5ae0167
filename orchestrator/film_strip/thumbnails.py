"""Thumbnails of the pictures that the models saw, with the same crops; turns with equal pictures share one.

Their number and bytes are bounded. A picture that is left out or cannot be shown has a reason in its place.
"""

import io
import re
from base64 import b64encode
from collections.abc import Callable
from math import inf
from pathlib import Path

from envs.render import Renderer, UnreadablePicture
from envs.types import ImageRef
from orchestrator.datasets.staging import data_folder
from orchestrator.report.html.text import visible
from orchestrator.report.run_data import RunData

EDGE = 208
"""Pixels of a thumbnail's longer side."""
QUALITY = 72
MOST_BYTES = 6_000_000
"""Most bytes that all thumbnails take in a page."""
CACHE_BYTES = 64 << 20
Keep = Callable[[bytes], int]

_NUMBER = r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?"
_KEY = re.compile(rf"(.*?)(?:@({_NUMBER}),({_NUMBER}),({_NUMBER}),({_NUMBER}))?(#grey)?(?:\^(\d{{1,6}}))?", re.DOTALL)


def picture_folder(run_data: RunData, data: Path | None = None) -> Path | None:
    """Return the data folder (default: the one that the run was read with); None if it is absent or lacks the run's samples."""
    folder = data or run_data.data or data_folder(run_data.sweep)
    return folder if run_data.samples and folder.is_dir() else None


def parse_image_key(key: str) -> ImageRef:
    """Return the picture of a stored name, the inverse of ``ImageRef.key``."""
    match = _KEY.fullmatch(key)
    assert match is not None  # the first group takes whatever the others do not
    path, *crop, grey, edge = match.groups()
    box = None if crop[0] is None else (float(crop[0]), float(crop[1]), float(crop[2]), float(crop[3]))
    return ImageRef(path, box, None if edge is None else int(edge), grey is not None)


class Thumbnails:
    """The pictures of one page: ``number`` gives each its index in ``uris``, or the one that ``keep`` returns."""

    def __init__(
        self, data: Path | None, most: float = inf, most_bytes: int = MOST_BYTES, keep: Keep | None = None
    ) -> None:
        """``data`` is the benchmark folder, None if it is not available; ``most`` bounds the number of pictures."""
        self.renderer = None if data is None else Renderer(data, CACHE_BYTES)
        self.most, self.most_bytes, self.keep = most, most_bytes, keep or self._embed
        self.uris: list[str] = []
        self.bytes = 0
        self._numbers: dict[str, int | str] = {}

    def number(self, key: str) -> int | str:
        """Return the picture's number, or the reason why it is missing."""
        if self.renderer is None:
            return "the data folder is not available"
        if not key:
            return "none was shown"
        ref = parse_image_key(key)
        full_size = ImageRef(ref.path, ref.crop, grey=ref.grey)
        if full_size.key not in self._numbers:
            self._numbers[full_size.key] = self._add(self.renderer, full_size)
        return self._numbers[full_size.key]

    def _add(self, renderer: Renderer, ref: ImageRef) -> int | str:
        """Keep the picture in WebP, and return its number; the reason if it cannot be shown."""
        if len(self.uris) >= self.most or self.bytes >= self.most_bytes:
            return "left out: the number of pictures of a page is bounded"
        try:
            picture = renderer.picture(ref)
        except UnreadablePicture as problem:
            return visible(problem)
        scale, buffer = min(1.0, EDGE / max(picture.size)), io.BytesIO()
        small = picture.resize((max(1, round(picture.width * scale)), max(1, round(picture.height * scale))))
        small.save(buffer, "WEBP", quality=QUALITY, method=4)
        return self.keep(buffer.getvalue())

    def _embed(self, picture: bytes) -> int:
        uri = "data:image/webp;base64," + b64encode(picture).decode()
        self.uris.append(uri)
        self.bytes += len(uri)
        return len(self.uris) - 1
