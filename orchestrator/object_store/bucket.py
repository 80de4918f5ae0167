"""The one door to fsspec: a run folder in a bucket is names and bytes; an object is there whole or not at all.

Keys come from the environment, as each service documents it (``AWS_*``, ``GOOGLE_APPLICATION_CREDENTIALS``); none is
taken from an address, a sweep file or an option.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from orchestrator.storage.lock import RunFolderError

MARKS = ("ETag", "etag", "md5Hash", "mtime", "created")
"""Where services tell an object's content apart; the first that is there counts."""
TIMES = ("LastModified", "mtime", "updated", "created")


class BucketError(RunFolderError):
    """A bucket that cannot be read or written now; its text is the whole message."""


@dataclass(frozen=True, slots=True)
class Stored:
    """An object as a listing shows it."""

    size: int
    mark: str
    """Differs when the content does."""
    modified: float | None
    """Seconds since 1970, by the service's clock."""


def is_address(output: str) -> bool:
    """Whether a run folder is named by an address (``s3://bucket/run``) instead of a path."""
    return "://" in output


class Bucket:
    """The objects under one address, by their names relative to it; every method raises BucketError."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self.fs, self.root = _opened(self.url)

    def listed(self) -> dict[str, Stored]:
        """Every object, by name, in the order of the service: by name where it is S3."""
        with self._told("listed"):
            self.fs.invalidate_cache()
            try:
                found: Mapping[str, Mapping[str, Any]] = self.fs.find(self.root, detail=True)
            except FileNotFoundError:
                return {}
        return {name.removeprefix(f"{self.root}/"): _stored(info) for name, info in found.items()}

    def read(self, name: str) -> bytes | None:
        """An object's bytes; None when it is not there."""
        with self._told("read"):
            try:
                content: bytes = self.fs.cat_file(f"{self.root}/{name}")
            except FileNotFoundError:
                return None
        return content

    def write(self, name: str, content: bytes) -> None:
        """Replace a whole object."""
        with self._told("written"):
            self.fs.pipe_file(f"{self.root}/{name}", content)

    def create(self, name: str, content: bytes) -> bool:
        """Write an object unless the name is taken (``If-None-Match``); False when it is, or was in the meantime.

        A service that ignores the condition overwrites; the lock is read back for that reason.
        """
        with self._told("written"):
            try:
                self.fs.pipe_file(f"{self.root}/{name}", content, mode="create")
            except FileExistsError:
                return False
        return True

    def delete(self, names: Iterable[str]) -> None:
        """Remove objects, in this order; one that is gone already is no mistake."""
        with self._told("written"):
            for name in names:
                with contextlib.suppress(FileNotFoundError):
                    self.fs.rm_file(f"{self.root}/{name}")

    @contextlib.contextmanager
    def _told(self, verb: str) -> Iterator[None]:
        try:
            yield
        except Exception as problem:  # each service raises a tree of its own: OSError, botocore's, aiohttp's, google's
            raise BucketError(f"{self.url} cannot be {verb} ({plain(problem)})") from None


def plain(problem: BaseException) -> str:
    """One line of an error, short enough for a sentence."""
    return (" ".join(str(problem).split()) or type(problem).__name__)[:300]


def _opened(url: str) -> tuple[Any, str]:
    parts = urlsplit(url)
    if "@" in parts.netloc or parts.query:
        raise RunFolderError(
            f"the address of {parts.hostname}{parts.path} holds more than a bucket and a folder; "
            "keys belong in the environment (AWS_ACCESS_KEY_ID, GOOGLE_APPLICATION_CREDENTIALS)"
        )
    if not parts.netloc and parts.scheme not in ("file", "memory"):
        raise RunFolderError(f"{url} names no bucket; write {parts.scheme}://BUCKET/FOLDER")
    try:
        from fsspec.core import url_to_fs

        fs, root = url_to_fs(url, use_listings_cache=False)
    except (ImportError, ValueError) as problem:
        raise RunFolderError(
            f"{url} cannot be opened ({plain(problem)}); pip install 'proactive-sweep[cloud]' reads s3:// and gs://"
        ) from None
    return fs, str(root).rstrip("/")


def _stored(info: Mapping[str, Any]) -> Stored:
    mark = next((str(info[name]) for name in MARKS if info.get(name)), "")
    when = next((info[name] for name in TIMES if isinstance(info.get(name), datetime)), None)
    return Stored(int(info["size"] or 0), mark, when.timestamp() if when else None)
