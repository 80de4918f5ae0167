"""Render the picture of a reference, or raise ``UnreadablePicture``; no file can crash the process or fill its memory.

The one module of the game that needs pillow. The steps follow the package: open, convert to RGB, crop (``load_image``,
``_get_transform``), then resize by the shorter edge. For Qwen the file is resized first (``Fit``), but the crop's pixels stay
those of the original. Pictures carry no metadata: vLLM would rotate them by EXIF orientation and paint transparent colors,
and the package does neither.
"""

import math
import os
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from io import BytesIO
from pathlib import Path
from threading import Lock
from typing import BinaryIO, NamedTuple

from PIL import Image, UnidentifiedImageError

from envs import regular
from envs.types import Crop, ImageRef

LARGEST_FILE = 64 << 20
"""Most bytes of a picture file; published ones have at most a few million."""
LARGEST_PICTURE = 64_000_000
"""Most pixels of a picture, before and after the crop."""
FARTHEST = 1e6
"""Most pixels between the picture's corner and an edge of a crop; excludes infinity and nan."""
GREY = (128, 128, 128)
"""Color of a blank picture: half of full brightness."""
FORMATS = ("JPEG", "PNG", "BMP", "GIF", "WEBP", "TIFF", "AVIF", "JPEG2000")


class Fit(NamedTuple):
    """The bounds to which a file is resized before it is cropped (Qwen's ``qwen_vl_utils.fetch_image``)."""

    multiple: int = 28
    """Each edge becomes the nearest multiple of this number of pixels."""
    fewest: int = 4 * 28 * 28
    """Fewest pixels."""
    most: int = 16_384 * 28 * 28
    """Most pixels."""


MOST_RATIO = 200
"""Largest ratio of the long to the short edge for ``Fit``."""


class UnreadablePicture(Exception):
    """A picture that cannot be shown; the message has its file and the reason."""


class DecodedFile(NamedTuple):
    """A picture file in memory."""

    pixels: Image.Image
    """RGB, without metadata."""
    digest: str
    """Hash of the file's bytes."""


class Renderer:
    """The pictures of one data folder, with a bounded cache of decoded files; thread-safe.

    With ``fit`` every opened file is resized, and transparent pixels become white; crops are not scaled.
    """

    def __init__(self, folder: Path, cache_bytes: int = 256 << 20, fit: Fit | None = None) -> None:
        self.fit = fit
        self.folder = Path(os.path.realpath(folder))
        self.cache_bytes = cache_bytes
        self._cache: OrderedDict[str, DecodedFile] = OrderedDict()
        self._lock = Lock()

    @property
    def cached_bytes(self) -> int:
        """Return the bytes of the decoded pictures in the cache."""
        return sum(_memory(decoded.pixels) for decoded in self._cache.values())

    def picture(self, ref: ImageRef) -> Image.Image:
        """Return the RGB picture that a model sees; shared, so copy it before drawing. Raises UnreadablePicture."""
        return self.keyed_picture(ref)[0]

    def keyed_picture(self, ref: ImageRef) -> tuple[Image.Image, str]:
        """Return the picture and a key that only equal pixels share: the file's content, crop and size."""
        pixels, digest = self.decode(ref.path)
        if ref.crop is not None:
            pixels = pixels.crop(crop_bounds(ref.crop, ref.path))  # black where it lies outside the picture
        if ref.grey:
            pixels = Image.new("RGB", pixels.size, GREY)
        if ref.short_edge is not None:
            width, height = resized(pixels.size, ref.short_edge)
            if width < 1 or height < 1 or width * height > LARGEST_PICTURE:
                raise UnreadablePicture(f"{ref.path}: cannot be resized to a short edge of {ref.short_edge}")
            pixels = pixels.resize((width, height))
        return pixels, digest + ref.key.removeprefix(ref.path)

    def decode(self, path: str) -> DecodedFile:
        """Return the whole file as RGB, decoded once while it stays in the cache; raises UnreadablePicture."""
        with self._lock:
            if path in self._cache:
                self._cache.move_to_end(path)
                return self._cache[path]
        with self._open(path, whole=True) as (content, picture):
            pixels = picture.convert("RGB") if self.fit is None else _fit(picture, self.fit)
            pixels.info = {}
            content.seek(0)
            decoded = DecodedFile(pixels, blake2b(content.read(), digest_size=16).hexdigest())
        if _memory(pixels) <= self.cache_bytes:
            with self._lock:
                self._cache[path] = decoded
                excess = self.cached_bytes - self.cache_bytes
                while excess > 0:
                    excess -= _memory(self._cache.popitem(last=False)[1].pixels)
        return decoded

    def size(self, ref: ImageRef) -> tuple[int, int]:
        """Return width and height of the picture that a model sees, from the file's header; raises UnreadablePicture."""
        with self._open(ref.path) as (_, picture):
            size = picture.size if self.fit is None else fitted_size(picture.size, self.fit)
        if ref.crop is not None:
            left, top, right, bottom = crop_bounds(ref.crop, ref.path)
            size = (right - left, bottom - top)
        return resized(size, ref.short_edge) if ref.short_edge else size

    def verify(self, path: str, deep: bool = False) -> None:
        """Check that a file looks like a picture, or that it decodes if ``deep``; raises UnreadablePicture."""
        with self._open(path) as (_, picture):
            picture.verify()
        if deep:
            self.decode(path)

    @contextmanager
    def _open(self, path: str, whole: bool = False) -> Iterator[tuple[BinaryIO, Image.Image]]:
        """Open a picture of the folder without decoding it, of a known format and bounded size.

        ``whole``: read the file once, so that later reads give the bytes that are decoded.
        Any error, in the block, too, becomes UnreadablePicture: pillow's plugins raise anything on a broken file.
        """
        try:
            if not Path(os.path.realpath(self.folder / path)).is_relative_to(self.folder):
                raise UnreadablePicture(f"{path}: lies outside the data folder")
            with regular.open_file(self.folder / path) as file:
                if os.fstat(file.fileno()).st_size > LARGEST_FILE:
                    raise UnreadablePicture(f"{path}: is larger than {LARGEST_FILE} bytes")
                source = BytesIO(file.read()) if whole else file
                with Image.open(source, formats=FORMATS) as picture:
                    if picture.width * picture.height > LARGEST_PICTURE:
                        raise UnreadablePicture(f"{path}: has more than {LARGEST_PICTURE} pixels")
                    yield source, picture
        except UnreadablePicture:
            raise
        except Exception as problem:
            raise UnreadablePicture(f"{path}: {_reason(problem)}") from None


def crop_bounds(crop: Crop, path: str) -> tuple[int, int, int, int]:
    """Return the crop in whole pixels, rounded like pillow; raises UnreadablePicture if no picture can have it."""
    if all(abs(edge) < FARTHEST for edge in crop):
        left, top, right, bottom = (round(edge) for edge in crop)
        if right > left and bottom > top and (right - left) * (bottom - top) <= LARGEST_PICTURE:
            return left, top, right, bottom
    raise UnreadablePicture(f"{path}: the crop {crop} has no area, or more than {LARGEST_PICTURE} pixels")


def fitted_size(size: tuple[int, int], fit: Fit) -> tuple[int, int]:
    """Return the size of a picture after fitting (``qwen_vl_utils.smart_resize``); raises ValueError if it is too narrow."""
    if max(size) / min(size) > MOST_RATIO:
        raise ValueError(f"one edge is more than {MOST_RATIO} times the other")
    step, area = fit.multiple, size[0] * size[1]
    width, height = (max(step, round(edge / step) * step) for edge in size)
    if width * height > fit.most:
        scale = math.sqrt(area / fit.most)
        width, height = (math.floor(edge / scale / step) * step for edge in size)
    elif width * height < fit.fewest:
        scale = math.sqrt(fit.fewest / area)
        width, height = (math.ceil(edge * scale / step) * step for edge in size)
    return width, height


def _fit(picture: Image.Image, fit: Fit) -> Image.Image:
    size = fitted_size(picture.size, fit)
    if picture.mode == "RGBA":
        white = Image.new("RGB", picture.size, (255, 255, 255))
        white.paste(picture, mask=picture.getchannel("A"))
        return white.resize(size)
    return picture.convert("RGB").resize(size)


def resized(size: tuple[int, int], short_edge: int) -> tuple[int, int]:
    """Return a size scaled to this shorter edge (package: ``int(size * scale)``)."""
    scale = short_edge / min(size)
    return int(size[0] * scale), int(size[1] * scale)


def _memory(picture: Image.Image) -> int:
    """Return the bytes in memory: pillow keeps RGB in four bytes per pixel."""
    return picture.width * picture.height * 4


def _reason(problem: Exception) -> str:
    """Return the reason without the machine's paths."""
    if isinstance(problem, FileNotFoundError):
        return "is not there"
    if isinstance(problem, UnidentifiedImageError):
        return "is no picture"
    if isinstance(problem, OSError) and problem.strerror:
        return f"cannot be read ({problem.strerror})"
    return f"cannot be decoded ({type(problem).__name__}: {' '.join(str(problem).split())[:120]})"
