"""Data addresses: folders of the Hub, a web server or a bucket, read through their fsspec file systems.

An address names one state of the data: the Hub's is pinned to a commit; data at other addresses must not change.
"""

import re
from dataclasses import dataclass, replace
from functools import cache
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from orchestrator.datasets.remote_files import FetchError, fetch_errors, short_message

HUB = re.compile(r"hf://(?:datasets/)?([^/@]+/[^/@]+)(?:@([^/]+))?(?:/(.*))?")
READ_TIMEOUT_S = 60
"""Seconds of silence after which a web server counts as failed."""
ARRIVING = ".arriving"
"""Subfolder of downloads that are not in place yet."""


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

    @property
    def who(self) -> str:
        """The service's name in messages."""
        return {"hf": "the Hub", "http": "the server", "https": "the server"}.get(self.scheme, "the bucket")


def parse_address(data: str) -> Address | None:
    """Parse a sweep's ``data``; return None for a local folder. Raises FetchError for an invalid address."""
    scheme, is_address, _ = data.partition("://")
    if not is_address:
        return None
    if scheme != "hf":
        return Address(scheme, data.rstrip("/"))
    if (match := HUB.fullmatch(data.rstrip("/"))) is None:
        raise FetchError(f"data = {data!r} must look like hf://OWNER/NAME[@REVISION][/FOLDER]")
    return Address("hf", match[1], match[2] or "", match[3] or "")


def pin(address: Address) -> Address:
    """Return the address pinned to its current commit. Raises FetchError."""
    if address.fixed:
        return address
    with fetch_errors(f"{address.location} at {address.revision or 'main'}"):
        from huggingface_hub import HfApi

        info = HfApi().dataset_info(address.location, revision=address.revision or None)
    return replace(address, revision=info.sha or address.revision)


class RemoteFolder:
    """The files of one pinned address, for a local folder ``home``; methods raise FetchError if a request fails."""

    def __init__(self, address: Address, home: Path) -> None:
        self.address, self.arriving, self.root = address, home / ARRIVING, address.location
        self.is_web = address.scheme in ("http", "https")
        with fetch_errors(str(address), address.who):
            if address.scheme == "hf":
                from huggingface_hub import HfFileSystem

                self.fs: Any = HfFileSystem()
                self.root = f"datasets/{address.location}@{address.revision}/{address.folder}".rstrip("/")
            elif self.is_web:
                self.fs = _web_file_system()
            else:
                from fsspec.core import url_to_fs

                self.fs, root = url_to_fs(address.location)
                self.root = str(root).rstrip("/")

    def files(self) -> dict[str, int]:
        """Return the size in bytes of every file by its path in the folder."""
        with fetch_errors(str(self.address), self.address.who):
            if self.is_web:
                return self._linked_files()
            self.fs.invalidate_cache()
            details = self.fs.find(self.root, detail=True)
            return {path.removeprefix(f"{self.root}/"): int(details[path]["size"]) for path in sorted(details)}

    def open(self, name: str) -> Any:
        """Open a file for random access, without downloading it."""
        return self.fs.open(self._path(name), "rb", block_size=1 << 20)

    def download(self, name: str, size: int, target: Path) -> Path:
        """Download a file to ``target``, which gets its name only when it is complete; a broken download of the Hub resumes."""
        if target.is_file() and target.stat().st_size == size:
            return target
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(f".{target.name}.part")
        try:
            if self.address.scheme == "hf":
                part = self._resume(name)
            else:
                self.fs.get_file(self._path(name), str(part))
        except Exception as problem:  # whatever the network stack raises
            raise FetchError(f"{name} broke off ({short_message(problem)}); rerun the same command to resume") from None
        if (arrived := part.stat().st_size) != size:
            part.unlink()
            raise FetchError(f"{name} broke off at {arrived:,} of {size:,} bytes; rerun the same command to resume")
        part.replace(target)
        return target

    def _resume(self, name: str) -> Path:
        from huggingface_hub import hf_hub_download

        path = f"{self.address.folder}/{name}".lstrip("/")
        request: Any = {"repo_type": "dataset", "revision": self.address.revision, "local_dir": self.arriving}
        return Path(hf_hub_download(self.address.location, path, **request))

    def _path(self, name: str) -> str:
        return f"{self.root}/{quote(name) if self.is_web else name}"

    def _linked_files(self) -> dict[str, int]:
        """Return the sizes of the JSONL files and archives that the server's page of the folder links to."""
        links = (unquote(urlsplit(unescape(link)).path) for link in self.fs.ls(f"{self.root}/", detail=False))
        names = sorted({link.rpartition("/")[2] for link in links if link.endswith((".jsonl", ".zip"))})
        sizes = {name: self.fs.info(self._path(name))["size"] for name in names}
        if unknown := [name for name, size in sizes.items() if size is None]:
            raise FetchError(f"{self.root}/{unknown[0]}: the server sends no size")
        return sizes


@cache
def _web_file_system() -> Any:
    """Return fsspec's file system of web servers, with proxies from the environment and a timeout on silence only."""
    import aiohttp
    from fsspec.implementations.http import HTTPFileSystem

    timeout = aiohttp.ClientTimeout(total=None, sock_connect=READ_TIMEOUT_S, sock_read=READ_TIMEOUT_S)
    return HTTPFileSystem(encoded=True, client_kwargs={"trust_env": True, "timeout": timeout})
