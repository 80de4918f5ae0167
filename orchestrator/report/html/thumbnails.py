"""Thumbnails of the pictures that the models saw.

Bounded in number and in bytes; what is left out, or cannot be shown, has a reason in its place.

A picture is what the model saw (crop applied) but for its size; two turns that saw the same picture share one thumbnail.
"""

from __future__ import annotations

import io
import re
from base64 import b64encode
from pathlib import Path

from envs.render import Renderer, Unprocessable
from envs.types import ImageRef
from orchestrator.report.html.escape import visible

EDGE = 208
"""Pixels of a thumbnail's longer side."""
QUALITY = 72
MOST_BYTES = 6_000_000
"""Bytes of all thumbnails of a page, as they stand in it."""
CACHE = 64 << 20

_NUMBER = r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?"
_KEY = re.compile(rf"(.*?)(?:@({_NUMBER}),({_NUMBER}),({_NUMBER}),({_NUMBER}))?(#grey)?(?:\^(\d{{1,6}}))?", re.DOTALL)


def reference(key: str) -> ImageRef:
    """The picture that a stored name means (``ImageRef.key`` read backwards)."""
    found = _KEY.fullmatch(key)
    assert found is not None  # the first group takes whatever the others do not
    path, *crop, grey, edge = found.groups()
    box = None if crop[0] is None else (float(crop[0]), float(crop[1]), float(crop[2]), float(crop[3]))
    return ImageRef(path, box, None if edge is None else int(edge), grey is not None)


class Thumbnails:
    """Pictures of one page: ``place`` gives each its number, ``uris`` is what the page holds."""

    def __init__(self, data: Path | None, most: int, most_bytes: int = MOST_BYTES) -> None:
        """``data`` is the benchmark folder, None where it is not at hand; ``most`` counts pictures."""
        self.renderer = None if data is None else Renderer(data, CACHE)
        self.most, self.most_bytes = most, most_bytes
        self.uris: list[str] = []
        self.bytes = 0
        self.left_out = 0
        """Pictures that the bounds kept out."""
        self._known: dict[str, int | str] = {}

    def place(self, key: str) -> int | str:
        """The picture's number, or the reason why it is not there."""
        if self.renderer is None:
            return "the data folder is not at hand"
        if not key:
            return "none was shown"
        ref = reference(key)
        seen = ImageRef(ref.path, ref.crop, grey=ref.grey)
        if seen.key not in self._known:
            self._known[seen.key] = self._drawn(self.renderer, seen)
        return self._known[seen.key]

    def _drawn(self, renderer: Renderer, ref: ImageRef) -> int | str:
        if len(self.uris) >= self.most or self.bytes >= self.most_bytes:
            self.left_out += 1
            return "left out: the page holds a bounded number of pictures"
        try:
            uri = _uri(renderer, ref)
        except Unprocessable as problem:
            return visible(problem)
        self.uris.append(uri)
        self.bytes += len(uri)
        return len(self.uris) - 1


def _uri(renderer: Renderer, ref: ImageRef) -> str:
    picture = renderer.picture(ref)
    scale = min(1.0, EDGE / max(picture.size))
    small = picture.resize((max(1, round(picture.width * scale)), max(1, round(picture.height * scale))))
    held = io.BytesIO()
    small.save(held, "WEBP", quality=QUALITY, method=4)
    return "data:image/webp;base64," + b64encode(held.getvalue()).decode()
