"""Objects of a run folder in a bucket, through fsspec. An object exists complete or not at all.

Credentials come from the environment, as each service documents it (``AWS_*``, ``GOOGLE_APPLICATION_CREDENTIALS``), never
from an address, a sweep file or an option. A missing response never counts as success; fsspec's file systems repeat requests.
"""

import contextlib
import errno
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from actors.text.printable import error_text
from envs.errors import RunFolderError

CACHE = "PROACTIVE_SWEEP_CACHE"
"""Environment variable with the folder of local copies; default ``~/.cache/proactive-sweep``."""
CONFLICT = "ConditionalRequestConflict"
"""S3's code (409) for two conditional writes at the same moment."""


class BucketError(RunFolderError):
    """A failure to read or write a bucket; its text is the full message."""


def cache_root(configured: str = "") -> Path:
    """Return the folder of local copies: the configured one, else that of ``CACHE``, else one in the user's cache."""
    default = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "proactive-sweep"
    return Path(configured or os.environ.get(CACHE) or default).expanduser()


def is_address(output: str) -> bool:
    """Return True if a run folder is given as an address (``s3://bucket/run``), not a path."""
    return "://" in output


class Bucket:
    """The objects under one address, by relative name. Every method raises BucketError."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self.fs, self.root = _open_file_system(self.url)

    def list_objects(self, under: str = "") -> dict[str, int]:
        """Return the size of every object, or of those in a folder, by relative name."""
        root = f"{self.root}/{under}" if under else self.root
        with self._errors("listed"), contextlib.suppress(FileNotFoundError):
            self.fs.invalidate_cache()
            objects: Mapping[str, Mapping[str, Any]] = self.fs.find(root, detail=True)
            return {name.removeprefix(f"{root}/"): int(details["size"] or 0) for name, details in objects.items()}
        return {}

    def read(self, name: str) -> bytes | None:
        """Return an object's bytes; None if it does not exist."""
        with self._errors("read"), contextlib.suppress(FileNotFoundError):
            return self.fs.cat_file(f"{self.root}/{name}")  # type: ignore[no-any-return]
        return None

    def write(self, name: str, content: bytes) -> None:
        """Write or replace an object."""
        with self._errors("written"):
            self.fs.pipe_file(f"{self.root}/{name}", content)

    def create(self, name: str, content: bytes) -> bool:
        """Write an object unless its name exists (``If-None-Match``); return False if the name exists.

        Without support for the condition the name is checked first, so two writers may race.
        """
        with self._errors("written"):
            try:
                self.fs.pipe_file(f"{self.root}/{name}", content, mode="create")
            except FileExistsError:
                return False
            except OSError as problem:
                response = getattr(problem.__cause__, "response", None) or {}
                if response.get("Error", {}).get("Code") == CONFLICT:
                    return False
                if problem.errno != errno.ENOSYS:
                    raise
                if self.read(name) is not None:
                    return False
                self.write(name, content)
        return True

    def delete(self, names: Iterable[str]) -> None:
        """Remove objects in this order; missing ones are ignored."""
        with self._errors("written"):
            for name in names:
                with contextlib.suppress(FileNotFoundError):
                    self.fs.rm_file(f"{self.root}/{name}")

    @contextlib.contextmanager
    def _errors(self, verb: str) -> Iterator[None]:
        try:
            yield
        except BucketError:
            raise
        except Exception as problem:  # each service raises a tree of its own: OSError, botocore's, aiohttp's, google's
            raise BucketError(f"{self.url} cannot be {verb} ({error_text(problem)})") from None


def _open_file_system(url: str) -> tuple[Any, str]:
    try:
        from fsspec.core import url_to_fs

        parts = urlsplit(url)
        if "@" in parts.netloc or parts.query:
            raise RunFolderError(
                f"the address of {parts.hostname}{parts.path} holds more than a bucket and a folder; "
                "keys belong in the environment (AWS_ACCESS_KEY_ID, GOOGLE_APPLICATION_CREDENTIALS)"
            )
        if not parts.netloc and parts.scheme not in ("file", "memory"):
            raise RunFolderError(f"{url} names no bucket; write {parts.scheme or 's3'}://BUCKET/FOLDER")
        fs, root = url_to_fs(url, use_listings_cache=False)
    except (ImportError, ValueError) as problem:
        raise RunFolderError(
            f"{url} cannot be opened ({error_text(problem)}); write s3://BUCKET/FOLDER or gs://BUCKET/FOLDER, which need "
            "pip install 'proactive-sweep[cloud]'"
        ) from None
    return fs, str(root).rstrip("/")
