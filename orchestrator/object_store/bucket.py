"""Objects of a run folder in a bucket, through fsspec. An object exists complete or not at all.

Credentials come from the environment, as each service documents it (``AWS_*``, ``GOOGLE_APPLICATION_CREDENTIALS``), never
from an address, a sweep file or an option. Conditional writes replace or delete an object only if its version is unchanged; a
failed condition changes nothing and returns False, and a missing response never counts as success.
"""

import contextlib
import errno
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from actors.text.printable import error_text
from envs.errors import RunFolderError

PROBE = "lock.probe"
"""Name of an object that never exists; if a service accepts a conditional write of it, that service ignores conditions."""
CACHE = "PROACTIVE_SWEEP_CACHE"
"""Environment variable with the folder of local copies; default ``~/.cache/proactive-sweep``."""
MARKS = ("generation", "ETag", "etag", "md5Hash", "mtime", "created")
"""Fields by which services identify an object's content; the first one present counts (Google: ``generation``)."""
TIMES = ("LastModified", "mtime", "updated", "created")
NO_VERSION = "1" * 16
"""A version that no object has: no valid ETag of S3, and a generation of Google's from before its service began."""
CONFLICT = "ConditionalRequestConflict"
"""S3's code (409) for two conditional writes at the same moment."""
FAILED_CONDITION_CODES = ("PreconditionFailed", CONFLICT, "NoSuchKey", "404", "409", "412")
"""S3's error codes for an object that has another version or is gone.

https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html
"""


class BucketError(RunFolderError):
    """A failure to read or write a bucket; its text is the full message."""


class Unsupported(Exception):
    """A service or fsspec file system without conditional writes."""


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object's listing."""

    size: int
    version: str
    """Differs when the content does; conditional writes name it."""
    modified: float | None = None
    """Seconds since 1970, by the service's clock."""


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

    def list_objects(self, under: str = "") -> dict[str, StoredObject]:
        """Return every object, or those in a folder, by relative name, in the order of the service (S3: by name)."""
        root = f"{self.root}/{under}" if under else self.root
        with self._errors("listed"):
            self.fs.invalidate_cache()
            try:
                found: Mapping[str, Mapping[str, Any]] = self.fs.find(root, detail=True)
            except FileNotFoundError:
                return {}
        return {name.removeprefix(f"{root}/"): _to_stored_object(details) for name, details in found.items()}

    def read(self, name: str) -> bytes | None:
        """Return an object's bytes; None if it does not exist."""
        with self._errors("read"), contextlib.suppress(FileNotFoundError):
            return self.fs.cat_file(f"{self.root}/{name}")  # type: ignore[no-any-return]
        return None

    def stat(self, name: str) -> StoredObject | None:
        """Return one object by name, None if it does not exist; unlike a listing, the result is never stale."""
        with self._errors("read"), contextlib.suppress(FileNotFoundError):
            details: dict[str, Any] = self.fs.info(f"{self.root}/{name}", refresh=True)
            return _to_stored_object(details) if details.get("type") == "file" else None
        return None

    def version(self, name: str) -> str:
        """Return the version of an object; empty if it does not exist."""
        stored = self.stat(name)
        return stored.version if stored else ""

    def write(self, name: str, content: bytes) -> None:
        """Replace an object and verify that it is stored."""
        with self._errors("written"):
            response = self.fs.pipe_file(f"{self.root}/{name}", content)
        self._check_stored(name, content, response)

    def create(self, name: str, content: bytes) -> bool:
        """Write an object unless its name exists (``If-None-Match``), and verify it; return False if the name exists.

        Without support for the condition the name is checked first, so two writers may race.
        """
        with self._errors("written"):
            try:
                response = self.fs.pipe_file(f"{self.root}/{name}", content, mode="create")
            except FileExistsError:
                return False
            except OSError as problem:
                if _code(problem) == CONFLICT:
                    return False
                if problem.errno != errno.ENOSYS:
                    raise
                if self.stat(name) is not None:
                    return False
                response = self.fs.pipe_file(f"{self.root}/{name}", content)
        self._check_stored(name, content, response)
        return True

    def _check_stored(self, name: str, content: bytes, response: Any) -> None:
        """Raise BucketError if the service does not hold the object that it accepted, in the version of its response."""
        stored = self.stat(name)
        expected = _version_of(response) if isinstance(response, dict) else ""
        if stored is None or stored.size != len(content) or expected not in ("", stored.version):
            raise BucketError(f"{self.url}/{name} was accepted by the service and is not there")

    def supports_conditions(self) -> bool:
        """Return True if the service checks conditions of writes; this tries a write whose condition must fail."""
        try:
            ignored = self.replace(PROBE, b"", NO_VERSION)
        except Unsupported:
            return False
        if ignored:
            self.delete([PROBE])
        return not ignored

    def replace(self, name: str, content: bytes | None, version: str) -> bool:
        """Write an object, or delete it (None), if it still has that version; else return False. Raises Unsupported.

        ``If-Match`` of S3, and https://cloud.google.com/storage/docs/request-preconditions.
        """
        protocols = {self.fs.protocol} if isinstance(self.fs.protocol, str) else set(self.fs.protocol)
        if not protocols & {"s3", "gs"}:
            raise Unsupported
        bucket, key, _ = self.fs.split_path(f"{self.root}/{name}")
        with self._errors("written"):
            try:
                if "s3" in protocols:
                    call, body = ("delete_object", {}) if content is None else ("put_object", {"Body": content})
                    self.fs.call_s3(call, Bucket=bucket, Key=key, IfMatch=version, **body)
                elif content is None:
                    self.fs.call("DELETE", "b/{}/o/{}", bucket, key, ifGenerationMatch=version)
                else:
                    upload: dict[str, Any] = {"uploadType": "media", "name": key, "data": content}
                    address = f"{self.fs._location}/upload/storage/v1/b/{{}}/o"
                    self.fs.call("POST", address, bucket, ifGenerationMatch=version, **upload)
            except (FileExistsError, FileNotFoundError):  # gcsfs raises these for 412 and 404
                return False
            except OSError as problem:  # s3fs wraps botocore's errors
                if problem.errno == errno.ENOSYS:  # "not implemented" (501), as older MinIO and Ceph answer
                    raise Unsupported from None
                if _code(problem) not in FAILED_CONDITION_CODES:
                    raise
                return False
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
        except (BucketError, Unsupported):
            raise
        except Exception as problem:  # each service raises a tree of its own: OSError, botocore's, aiohttp's, google's
            raise BucketError(f"{self.url} cannot be {verb} ({error_text(problem)})") from None


def _open_file_system(url: str) -> tuple[Any, str]:
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
            f"{url} cannot be opened ({error_text(problem)}); pip install 'proactive-sweep[cloud]' reads s3:// and gs://"
        ) from None
    return fs, str(root).rstrip("/")


def _to_stored_object(details: Mapping[str, Any]) -> StoredObject:
    modified = next((details[name] for name in TIMES if isinstance(details.get(name), datetime)), None)
    return StoredObject(int(details["size"] or 0), _version_of(details), modified.timestamp() if modified else None)


def _version_of(details: Mapping[str, Any]) -> str:
    return next((str(details[name]) for name in MARKS if details.get(name)), "")


def _code(problem: OSError) -> str:
    """Return S3's code of an error; empty for any other error."""
    response = getattr(problem.__cause__, "response", None) or {}
    return str(response.get("Error", {}).get("Code", ""))
