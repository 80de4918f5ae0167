"""Data by address: a folder of the Hub, of a web server or of a bucket, each as a ``RemoteFolder``.

An address names one state of the data: the Hub's is pinned to a commit, what others have under an address must not change.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from envs import SCENARIOS
from orchestrator.datasets.hub import Repository, client
from orchestrator.datasets.remote_files import (
    CHUNK,
    FetchError,
    RemoteFile,
    RemoteFolder,
    sentence,
    version,
    web,
)
from orchestrator.object_store.bucket import MARKS

HUB = re.compile(r"hf://(?:datasets/)?([^/@]+/[^/@]+)(?:@([^/]+))?(?:/(.*))?")


@dataclass(frozen=True, slots=True)
class Address:
    """Where a sweep's data are, if not in a folder of this machine."""

    scheme: str
    place: str
    """The Hub's data set, or the whole address without a slash at its end."""
    revision: str = ""
    folder: str = ""
    """The folder of the data set that is the benchmark; empty for its top."""

    def __str__(self) -> str:
        if self.scheme != "hf":
            return self.place
        return f"hf://{self.place}@{self.revision or 'main'}" + (f"/{self.folder}" if self.folder else "")

    @property
    def fixed(self) -> bool:
        """Whether nothing has to be asked to know which state of the data is meant."""
        return self.scheme != "hf" or re.fullmatch("[0-9a-f]{40}", self.revision) is not None


def address(data: str) -> Address | None:
    """The address that a sweep's ``data`` is, or None where it is a folder; raises FetchError for one that cannot be."""
    if "://" not in data:
        return None
    scheme = data.partition("://")[0]
    if scheme != "hf":
        return Address(scheme, data.rstrip("/"))
    found = HUB.fullmatch(data.rstrip("/"))
    if found is None:
        raise FetchError(f"data = {data!r} must look like hf://OWNER/NAME[@REVISION][/FOLDER]")
    return Address("hf", found[1], found[2] or "", found[3] or "")


def pinned(place: Address) -> Address:
    """The same data at the commit that they have now; raises FetchError."""
    if place.fixed:
        return place
    return replace(place, revision=Repository(place.place, place.revision or "main").commit)


def source(place: Address, progress: Callable[[int], None]) -> RemoteFolder:
    """What is behind an address; ``progress`` is called with the size of every piece that arrives. Raises FetchError."""
    if place.scheme == "hf":
        return Repository(place.place, place.revision or "main", progress=progress)
    if place.scheme in ("http", "https"):
        return Web(place.place, progress)
    return Bucket(place.place, progress)


class Web(RemoteFolder):
    """A folder of a web server: the JSONL files by their names, archives as the folder's page lists them."""

    def __init__(self, url: str, progress: Callable[[int], None]) -> None:
        self.name, self.root, self.progress = url, url, progress
        with sentence(url, self.who):
            self.fs, self.client = web(), client()

    def files(self, folder: str | None = None) -> list[RemoteFile]:
        """JSONL files that are there, and archives that the page links to."""
        lines = [f"{game.stem}_preprocessed.jsonl" for game in SCENARIOS.values()]
        with sentence(self.name, self.who):
            return [file for name in (*lines, *self._archives()) if (file := self._file(name)) is not None]

    def session(self) -> Any:
        """A client of its own."""
        return self.client

    def located(self, file: RemoteFile) -> tuple[str, dict[str, str]]:
        """Its own address."""
        return f"{self.root}/{quote(file.path)}", {}

    def opened(self, file: RemoteFile) -> Any:
        """Ranges of it, as they are read."""
        return self.fs.open(self.located(file)[0], block_size=CHUNK, size=file.size)

    def _archives(self) -> list[str]:
        """Names of archives; none where the server shows no page of the folder."""
        with contextlib.suppress(FileNotFoundError):
            links = self.fs.ls(f"{self.root}/", detail=False)
            names = {unquote(urlsplit(unescape(link)).path.rpartition("/")[2]) for link in links}
            return sorted(name for name in names if name.endswith(".zip") and "/" not in name)
        return []

    def _file(self, name: str) -> RemoteFile | None:
        try:
            info = self.fs.info(f"{self.root}/{quote(name)}")
        except FileNotFoundError as problem:  # of every refusal and every failure alike
            if getattr(problem.__cause__, "status", None) in (403, 404):
                return None
            raise problem.__cause__ or problem from None
        if info["size"] is None:
            raise FetchError(f"{self.name}/{name}: the server tells no size")
        return RemoteFile(name, info["size"], version=version(info))


class Bucket(RemoteFolder):
    """A folder of a bucket; what is unpacked there is fetched picture by picture."""

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
        """Everything below the address."""
        with sentence(self.name, self.who):
            self.fs.invalidate_cache()
            found = self.fs.find(self.root, detail=True)
        start = f"{self.root}/"
        return [
            RemoteFile(
                path.removeprefix(start),
                int(info["size"]),
                version=next((str(info[k]) for k in MARKS if k in info), ""),
            )
            for path, info in sorted(found.items())
        ]

    def _append(self, file: RemoteFile, part: Path) -> None:
        """What is missing, of the object that was listed: s3fs asks with If-Match."""
        with self.opened(file) as stream, part.open("ab") as out:
            stream.seek(part.stat().st_size if file.version else out.truncate(0))
            while chunk := stream.read(CHUNK):
                out.write(chunk)
                self.progress(len(chunk))
