"""Data addresses: folders of the Hub, a web server or a bucket, each as a ``RemoteFolder``.

An address names one state of the data: the Hub's is pinned to a commit; data at other addresses must not change.
"""

import contextlib
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from envs import SCENARIOS
from envs.samples import lines_file
from orchestrator.datasets.hub import Repository, make_client
from orchestrator.datasets.remote_files import (
    CHUNK,
    FetchError,
    RemoteFile,
    RemoteFolder,
    fetch_errors,
    file_version,
    web_file_system,
)
from orchestrator.object_store.bucket import MARKS

HUB = re.compile(r"hf://(?:datasets/)?([^/@]+/[^/@]+)(?:@([^/]+))?(?:/(.*))?")


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a sweep's remote data."""

    scheme: str
    location: str
    """The Hub's data set, or the whole address without a slash at its end."""
    revision: str = ""
    folder: str = ""
    """The benchmark's folder in the data set; empty for the top folder."""

    def __str__(self) -> str:
        if self.scheme != "hf":
            return self.location
        return f"hf://{self.location}@{self.revision or 'main'}" + (f"/{self.folder}" if self.folder else "")

    @property
    def fixed(self) -> bool:
        """Return True if the address already names one state of the data."""
        return self.scheme != "hf" or re.fullmatch("[0-9a-f]{40}", self.revision) is not None


def parse_address(data: str) -> Address | None:
    """Parse a sweep's ``data``; return None for a local folder. Raises FetchError for an invalid address."""
    if "://" not in data:
        return None
    scheme = data.partition("://")[0]
    if scheme != "hf":
        return Address(scheme, data.rstrip("/"))
    match = HUB.fullmatch(data.rstrip("/"))
    if match is None:
        raise FetchError(f"data = {data!r} must look like hf://OWNER/NAME[@REVISION][/FOLDER]")
    return Address("hf", match[1], match[2] or "", match[3] or "")


def pin(address: Address) -> Address:
    """Return the address pinned to its current commit. Raises FetchError."""
    if address.fixed:
        return address
    return replace(address, revision=Repository(address.location, address.revision or "main").commit)


def open_source(address: Address, progress: Callable[[int], None]) -> RemoteFolder:
    """Open an address; ``progress`` is called with the size of every chunk that arrives. Raises FetchError."""
    if address.scheme == "hf":
        return Repository(address.location, address.revision or "main", progress=progress)
    if address.scheme in ("http", "https"):
        return WebFolder(address.location, progress)
    return BucketFolder(address.location, progress)


class WebFolder(RemoteFolder):
    """A folder of a web server: JSONL files by known names, archives by the links of its page."""

    def __init__(self, url: str, progress: Callable[[int], None]) -> None:
        self.name, self.root, self.progress = url, url, progress
        with fetch_errors(url, self.who):
            self.fs, self.client = web_file_system(), make_client()

    def files(self, folder: str | None = None) -> list[RemoteFile]:
        """Return the existing JSONL files and the linked archives."""
        lines = [lines_file(Path(), name).name for name in SCENARIOS]
        with fetch_errors(self.name, self.who):
            return [file for name in (*lines, *self._archives()) if (file := self._file(name)) is not None]

    def session(self) -> Any:
        """Return this folder's own client."""
        return self.client

    def locate(self, file: RemoteFile) -> tuple[str, dict[str, str]]:
        """Return the file's address, without headers."""
        return f"{self.root}/{quote(file.path)}", {}

    def open(self, file: RemoteFile) -> Any:
        """Open a file that requests ranges as they are read."""
        return self.fs.open(self.locate(file)[0], block_size=CHUNK, size=file.size)

    def _archives(self) -> list[str]:
        """Return the names of archives; none if the server has no index page."""
        with contextlib.suppress(FileNotFoundError):
            links = self.fs.ls(f"{self.root}/", detail=False)
            names = {unquote(urlsplit(unescape(link)).path.rpartition("/")[2]) for link in links}
            return sorted(name for name in names if name.endswith(".zip") and "/" not in name)
        return []

    def _file(self, name: str) -> RemoteFile | None:
        try:
            details = self.fs.info(f"{self.root}/{quote(name)}")
        except FileNotFoundError as problem:  # fsspec raises it for every failed request
            if getattr(problem.__cause__, "status", None) in (403, 404):
                return None
            raise problem.__cause__ or problem from None
        if details["size"] is None:
            raise FetchError(f"{self.name}/{name}: the server sends no size")
        return RemoteFile(name, details["size"], version=file_version(details))


class BucketFolder(RemoteFolder):
    """A folder of a bucket; unpacked pictures are downloaded one by one."""

    who = "the bucket"

    def __init__(self, url: str, progress: Callable[[int], None]) -> None:
        self.name, self.progress = url, progress
        try:
            from fsspec.core import url_to_fs

            self.fs, root = url_to_fs(url)
        except (ImportError, ValueError) as problem:
            raise FetchError(
                f"{url} needs the extra `cloud`: pip install 'proactive-sweep[cloud]' ({problem})"
            ) from None
        self.root = str(root).rstrip("/")

    def files(self, folder: str | None = None) -> list[RemoteFile]:
        """Return every file below the address."""
        with fetch_errors(self.name, self.who):
            self.fs.invalidate_cache()
            details_by_path = self.fs.find(self.root, detail=True)
        start = f"{self.root}/"
        return [
            RemoteFile(
                path.removeprefix(start),
                int(details["size"]),
                version=next((str(details[k]) for k in MARKS if k in details), ""),
            )
            for path, details in sorted(details_by_path.items())
        ]

    def _append(self, file: RemoteFile, part: Path) -> None:
        """Append the missing bytes of the listed object; s3fs requests them with If-Match."""
        with self.open(file) as stream, part.open("ab") as out:
            stream.seek(part.stat().st_size if file.version else out.truncate(0))
            while chunk := stream.read(CHUNK):
                out.write(chunk)
                self.progress(len(chunk))
