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

from orchestrator.object_store import conditional
from orchestrator.storage.lock import RunFolderError

PROBE = "lock.probe"
"""An object that exists nowhere: a service that replaces it on a condition looks at no conditions."""
CACHE = "PROACTIVE_SWEEP_CACHE"
"""Environment variable: where the local side of a bucket is kept; default ``~/.cache/proactive-sweep``."""
MARKS = ("ETag", "etag", "md5Hash", "mtime", "created")
"""Where services tell an object's content apart; the first that is there counts."""
TIMES = ("LastModified", "mtime", "updated", "created")
NO_VERSION = "1" * 16
"""A version that no object has: no ETag of S3, a generation of Google's before its service began."""


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
        self.conditions = conditional.conditions(self.fs)

    def listed(self, under: str = "") -> dict[str, Stored]:
        """Every object, or those in a folder, by name there, in the order of the service: by name where it is S3."""
        root = f"{self.root}/{under}" if under else self.root
        with self._errors("listed"):
            self.fs.invalidate_cache()
            try:
                found: Mapping[str, Mapping[str, Any]] = self.fs.find(root, detail=True)
            except FileNotFoundError:
                return {}
        return {name.removeprefix(f"{root}/"): _stored(info) for name, info in found.items()}

    def read(self, name: str) -> bytes | None:
        """An object's bytes; None when it is not there."""
        with self._errors("read"):
            try:
                content: bytes = self.fs.cat_file(f"{self.root}/{name}")
            except FileNotFoundError:
                return None
        return content

    def write(self, name: str, content: bytes) -> None:
        """Replace a whole object, and look that it is there."""
        with self._errors("written"):
            self._kept(name, content, self.fs.pipe_file(f"{self.root}/{name}", content))

    def create(self, name: str, content: bytes) -> bool:
        """Write an object unless the name is taken (``If-None-Match``), and look that it is there; False when it is taken.

        A service without the condition is asked for the name first, which two writers may do at the same moment.
        """
        with self._errors("written"):
            try:
                answer = self.fs.pipe_file(f"{self.root}/{name}", content, mode="create")
            except FileExistsError:
                return False
            except OSError as problem:
                if conditional.lost_race(problem):
                    return False
                if not conditional.unsupported(problem):
                    raise
                if self.stat(name) is not None:
                    return False
                answer = self.fs.pipe_file(f"{self.root}/{name}", content)
            self._kept(name, content, answer)
        return True

    def stat(self, name: str) -> Stored | None:
        """One object asked for by its name, which is up to date where a listing may not be; None when it is not there."""
        with self._errors("read"):
            info = self._info(name)
        return _stored(info) if info is not None else None

    def version(self, name: str) -> str:
        """The version of an object, for a conditional write; empty when it is not there."""
        with self._errors("read"):
            return self.conditions.version_of(self._info(name) or {})

    def has_conditions(self) -> bool:
        """Whether the service looks at the conditions of a write: one that must fail is tried."""
        with self._errors("written"):
            try:
                if not self.conditions.replace(f"{self.root}/{PROBE}", b"", NO_VERSION):
                    return True
            except conditional.Unsupported:
                return False
        self.delete([PROBE])
        return False

    def replace(self, name: str, content: bytes, version: str) -> bool:
        """Write an object if it is still of that version (``If-Match``); False when it is not. Needs ``has_conditions``."""
        with self._errors("written"):
            return self.conditions.replace(f"{self.root}/{name}", content, version)

    def delete_version(self, name: str, version: str) -> bool:
        """Delete an object if it is still of that version; False when it is not, Unsupported where nobody can tell."""
        with self._errors("written"):
            return self.conditions.delete(f"{self.root}/{name}", version)

    def delete(self, names: Iterable[str]) -> None:
        """Remove objects, in this order; one that is gone already is no mistake."""
        with self._errors("written"):
            for name in names:
                with contextlib.suppress(FileNotFoundError):
                    self.fs.rm_file(f"{self.root}/{name}")

    def _info(self, name: str) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = self.fs.info(f"{self.root}/{name}", refresh=True)
        except FileNotFoundError:
            return None
        return found if found.get("type") == "file" else None

    def _kept(self, name: str, content: bytes, answer: Any) -> None:
        """Raises BucketError where a service that took an object does not have it: of this version, if the answer names one."""
        info = self._info(name)
        wanted = self.conditions.version_of(answer) if isinstance(answer, dict) else ""
        if info is None or info["size"] != len(content) or (wanted and self.conditions.version_of(info) != wanted):
            raise BucketError(f"{self.url}/{name} was accepted by the service and is not there")

    @contextlib.contextmanager
    def _errors(self, verb: str) -> Iterator[None]:
        try:
            yield
        except (BucketError, conditional.Unsupported):
            raise
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
