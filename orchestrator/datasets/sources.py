"""Data by address: a folder of the Hub, of a web server or of a bucket answers the same three questions as a ``Repository``.

What is there (with sizes), a file read here and there, a file fetched whole and checked.
"""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote, unquote, urlsplit

from envs import SCENARIOS
from orchestrator.datasets.hub import FetchError, RemoteFile, Repository, client, said

HUB = re.compile(r"hf://(?:datasets/)?([^/@]+/[^/@]+)(?:@([^/]+))?(?:/(.*))?")


class Source(Protocol):
    """Where data come from, at one state of them."""

    name: str
    commit: str
    """Empty where the place keeps no versions."""

    def files(self, folder: str | None = None) -> list[RemoteFile]:
        """Every file below a folder."""

    def opened(self, file: RemoteFile) -> io.BufferedReader:
        """A file for reading here and there."""

    def download(self, file: RemoteFile, target: Path) -> Path:
        """A file, whole."""


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


def source(place: Address, progress: Callable[[int], None]) -> Source:
    """What is behind an address; ``progress`` is told the size of every piece that arrives. Raises FetchError."""
    if place.scheme == "hf":
        return Repository(place.place, place.revision or "main", progress=progress)
    if place.scheme in ("http", "https"):
        return Web(place.place, progress)
    return Bucket(place.place, progress)


class Web(Repository):
    """A folder of a web server: the JSONL files by their names, archives as the folder's page lists them."""

    def __init__(self, url: str, progress: Callable[[int], None]) -> None:
        self.name, self.commit, self.progress = url, "", progress
        with said(url, "the server"):
            self.client = client()

    def session(self) -> Any:
        """A client of its own."""
        return self.client

    def files(self, folder: str | None = None) -> list[RemoteFile]:
        """JSONL files that are there, and archives that the page links to."""
        with said(self.name, "the server"):
            page = self._asked("GET", f"{self.name}/")
            links = _Links()
            if page.status_code == 200:
                links.feed(page.text[: 1 << 22])
            lines = [f"{game.stem}_preprocessed.jsonl" for game in SCENARIOS.values()]
            archives = sorted({name for name in links.names if name.endswith(".zip") and "/" not in name})
            return [RemoteFile(name, size, "") for name in (*lines, *archives) if (size := self._size(name)) >= 0]

    def located(self, file: RemoteFile) -> tuple[str, dict[str, str]]:
        """Its own address."""
        return f"{self.name}/{quote(file.path)}", {}

    def _size(self, name: str) -> int:
        """Bytes of a file, -1 where there is none."""
        answer = self._asked("HEAD", f"{self.name}/{quote(name)}")
        if answer.status_code in (404, 403):
            return -1
        if answer.status_code != 200 or "content-length" not in answer.headers:
            raise FetchError(f"{self.name}/{name}: the server tells no size (status {answer.status_code})")
        return int(answer.headers["content-length"])

    def _asked(self, method: str, url: str) -> Any:
        return self.client.request(method, url, headers={"Accept-Encoding": "identity"}, follow_redirects=True)


class Bucket:
    """A folder of a bucket, through fsspec; what is unpacked there is fetched picture by picture."""

    def __init__(self, url: str, progress: Callable[[int], None]) -> None:
        self.name, self.commit, self.progress = url, "", progress
        try:
            from fsspec.core import url_to_fs

            self.system, self.root = url_to_fs(url)
        except (ImportError, ValueError) as problem:
            raise FetchError(
                f"{url} needs the extra `cloud`: pip install 'proactive-sweep[cloud]' ({problem})"
            ) from None

    def files(self, folder: str | None = None) -> list[RemoteFile]:
        """Everything below the address."""
        with said(self.name, "the bucket"):
            found = self.system.find(self.root, detail=True)
        start = f"{self.root.rstrip('/')}/"
        return [RemoteFile(path.removeprefix(start), int(info["size"]), "") for path, info in sorted(found.items())]

    def opened(self, file: RemoteFile) -> io.BufferedReader:
        """Ranges of it, as they are read."""
        with said(f"{self.name}/{file.path}", "the bucket"):
            stream: io.BufferedReader = self.system.open(f"{self.root}/{file.path}", "rb")
            return stream

    def download(self, file: RemoteFile, target: Path) -> Path:
        """The whole file under a temporary name first."""
        if target.is_file() and target.stat().st_size == file.size:
            return target
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(f".{target.name}.part")
        with said(f"{self.name}/{file.path}", "the bucket"):
            self.system.get_file(f"{self.root}/{file.path}", str(part))
            if part.stat().st_size != file.size:
                raise FetchError(f"{file.path} has {part.stat().st_size:,} bytes, not {file.size:,}")
            part.replace(target)
        self.progress(file.size)
        return target


class _Links(HTMLParser):
    """What a page links to, as names relative to it."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if tag == "a" and name == "href" and value:
                with contextlib.suppress(ValueError):
                    self.names.append(unquote(urlsplit(value).path).removeprefix("./"))
