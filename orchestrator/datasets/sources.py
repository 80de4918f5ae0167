"""Data addresses: folders of the Hub, a web server or a bucket, read through their fsspec file systems.

An address names one state of the data: the Hub's is pinned to a commit; data at other addresses must not change.
"""

import contextlib
import re
from dataclasses import dataclass, replace
from functools import cache
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from envs import SCENARIOS
from envs.samples import lines_file
from orchestrator.datasets.remote_files import FetchError, fetch_errors, short_message

HUB = re.compile(r"hf://(?:datasets/)?([^/@]+/[^/@]+)(?:@([^/]+))?(?:/(.*))?")
READ_TIMEOUT_S = 60
"""Seconds of silence after which a web server counts as failed."""
CHUNK = 1 << 20
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
    with fetch_errors(f"{address.location} at {address.revision or 'main'}"):
        from huggingface_hub import HfApi

        info = HfApi().dataset_info(address.location, revision=address.revision or None)
    return replace(address, revision=info.sha or address.revision)


class RemoteFolder:
    """The files of one pinned address, for a local folder ``home``; methods raise FetchError if a request fails."""

    def __init__(self, address: Address, home: Path) -> None:
        self.address, self.arriving = address, home / ARRIVING
        with fetch_errors(str(address), address.who):
            self.fs, self.root = _open(address)

    def files(self) -> dict[str, int]:
        """Return the size in bytes of every file by its path in the folder."""
        with fetch_errors(str(self.address), self.address.who):
            if self.address.scheme in ("http", "https"):
                return self._linked_files()
            self.fs.invalidate_cache()
            details = self.fs.find(self.root, detail=True)
            return {path.removeprefix(f"{self.root}/"): int(details[path]["size"]) for path in sorted(details)}

    def open(self, name: str) -> Any:
        """Open a file for random access, without downloading it."""
        return self.fs.open(f"{self.root}/{self._path(name)}", "rb", block_size=CHUNK)

    def download(self, name: str, size: int, target: Path) -> Path:
        """Download a file to ``target``, which gets its name only when it is complete; a broken download of the Hub resumes."""
        if target.is_file() and target.stat().st_size == size:
            return target
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            part = self._download(name, target)
        except Exception as problem:  # whatever the network stack raises
            raise FetchError(f"{name} broke off ({short_message(problem)}); rerun the same command to resume") from None
        if (arrived := part.stat().st_size) != size:
            part.unlink()
            raise FetchError(f"{name} broke off at {arrived:,} of {size:,} bytes; rerun the same command to resume")
        part.replace(target)
        return target

    def _download(self, name: str, target: Path) -> Path:
        if self.address.scheme == "hf":
            from huggingface_hub import hf_hub_download

            address = self.address
            path = f"{address.folder}/{name}" if address.folder else name
            request: Any = {"repo_type": "dataset", "revision": address.revision, "local_dir": self.arriving}
            return Path(hf_hub_download(address.location, path, **request))
        part = target.with_name(f".{target.name}.part")
        self.fs.get_file(f"{self.root}/{self._path(name)}", str(part))
        return part

    def _path(self, name: str) -> str:
        return quote(name) if self.address.scheme in ("http", "https") else name

    def _linked_files(self) -> dict[str, int]:
        """Return the sizes of the JSONL files, by their known names, and of the archives that the server's page links to."""
        names = [lines_file(Path(), name).name for name in SCENARIOS]
        with contextlib.suppress(FileNotFoundError):
            links = (unescape(link) for link in self.fs.ls(f"{self.root}/", detail=False))
            archives = {unquote(urlsplit(link).path.rpartition("/")[2]) for link in links}
            names += sorted(name for name in archives if name.endswith(".zip") and "/" not in name)
        sizes = {}
        for name in names:
            try:
                sizes[name] = self.fs.info(f"{self.root}/{quote(name)}")["size"]
            except FileNotFoundError as problem:  # fsspec raises it for every failed request
                if getattr(problem.__cause__, "status", None) not in (403, 404):
                    raise problem.__cause__ or problem from None
            if sizes.get(name, 0) is None:
                raise FetchError(f"{self.root}/{name}: the server sends no size")
        return sizes


def _open(address: Address) -> tuple[Any, str]:
    """Return the file system of an address and the path of its folder there."""
    if address.scheme == "hf":
        from huggingface_hub import HfFileSystem

        return HfFileSystem(), f"datasets/{address.location}@{address.revision}/{address.folder}".rstrip("/")
    if address.scheme in ("http", "https"):
        return _web_file_system(), address.location
    from fsspec.core import url_to_fs

    fs, root = url_to_fs(address.location)
    return fs, str(root).rstrip("/")


@cache
def _web_file_system() -> Any:
    """Return fsspec's file system of web servers, with proxies from the environment and a timeout on silence only."""
    import aiohttp
    from fsspec.implementations.http import HTTPFileSystem

    timeout = aiohttp.ClientTimeout(total=None, sock_connect=READ_TIMEOUT_S, sock_read=READ_TIMEOUT_S)
    return HTTPFileSystem(encoded=True, client_kwargs={"trust_env": True, "timeout": timeout})
