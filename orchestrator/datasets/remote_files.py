"""Remote files of the Hub, web servers and buckets: listed, read in part, or downloaded, through fsspec.

A file gets its name only when it is complete, of one version, and has the right SHA-256 if one is known. A broken
download is resumed by the same call. docs/decisions/0007 says why fsspec's own download is not used.
"""

import errno
import hashlib
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from envs.samples import BadData

CHUNK = 1 << 20
"""Bytes that are read at once."""
READ_TIMEOUT_S = 60
"""Seconds of silence after which a server counts as failed."""
ATTEMPTS = 4
"""Consecutive attempts without new bytes after which a download fails."""
RETRY_PAUSE_S = 0.5
"""Seconds before the second attempt; doubled for each further one."""


class FetchError(BadData):
    """A remote file that could not be fetched; its text is the full message."""


class ChangedFile(FetchError):
    """A file that changed after it was listed."""


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file's listing."""

    path: str
    size: int
    """Bytes."""
    sha256: str = ""
    """Empty if unknown."""
    version: str = ""
    """A strong ETag, a modification date or a generation, equal only for equal bytes; empty if unknown."""


class RemoteFolder:
    """The files below ``root`` in the fsspec file system ``fs``."""

    name: str
    """The name that the user typed."""
    commit = ""
    """Empty if the service has no commits."""
    who = "the server"
    """The service's name in messages."""
    fs: Any
    root: str
    progress: Callable[[int], None]
    """Called with the size in bytes of every chunk that arrives."""

    def files(self, folder: str | None = None) -> list[RemoteFile]:
        """Return every file below a folder with its size. Raises FetchError."""
        raise NotImplementedError

    def locate(self, file: RemoteFile) -> tuple[str, dict[str, str]]:
        """Return the HTTP address of a file and the request headers. Raises FetchError."""
        raise NotImplementedError

    def session(self) -> Any:
        """Return the httpx client for downloads."""
        raise NotImplementedError

    def open(self, file: RemoteFile) -> Any:
        """Open a file for random access, without downloading it."""
        return self.fs.open(f"{self.root}/{file.path}", "rb", block_size=CHUNK)

    def download(self, file: RemoteFile, target: Path) -> Path:
        """Download a file to ``target`` and check size and hash, resuming a broken download of the same version."""
        if target.is_file() and target.stat().st_size == file.size:
            return target
        part = self._part(file, target)
        idle = 0
        while (size_before := _size(part)) != file.size and idle < ATTEMPTS:
            if size_before > file.size:
                part.unlink()
                size_before = 0
            time.sleep(RETRY_PAUSE_S * (2**idle - 1))
            problem = self._continue(file, part)
            idle = idle + 1 if _size(part) <= size_before else 0
            if problem and idle == ATTEMPTS:
                raise FetchError(
                    f"{file.path} broke off at {_size(part):,} of {file.size:,} bytes ({problem}); rerun the same "
                    "command to resume"
                )
        if file.sha256 and _sha256(part) != file.sha256:
            part.unlink()
            raise FetchError(f"{file.path} arrived damaged (its SHA-256 differs) and was removed; fetch it again")
        part.replace(target)
        return target

    def _part(self, file: RemoteFile, target: Path) -> Path:
        """Return the path of the partial file, named by version; partial files of other versions are deleted."""
        version = hashlib.sha256((file.sha256 or file.version or self.commit).encode()).hexdigest()[:12]
        part = target.with_name(f".{target.name}.{version}.part")
        part.parent.mkdir(parents=True, exist_ok=True)
        for old_part in part.parent.iterdir():
            if old_part.name.startswith(f".{target.name}.") and old_part.suffix == ".part" and old_part != part:
                old_part.unlink()
        return part

    def _continue(self, file: RemoteFile, part: Path) -> str:
        """Append the missing bytes; return why some are still missing, or an empty string. Raises ChangedFile."""
        try:
            self._append(file, part)
        except ChangedFile:
            part.unlink(missing_ok=True)
            raise
        except OSError as problem:
            if problem.errno in (errno.ENOSPC, errno.EDQUOT):
                raise FetchError(f"the disk is full at {_size(part):,} bytes of {file.path}") from None
            return short_message(problem)
        except Exception as problem:  # whatever the network stack raises; the caller counts the bytes that arrived
            return short_message(problem)
        return "" if _size(part) == file.size else f"the server sent {_size(part):,} bytes"

    def _append(self, file: RemoteFile, part: Path) -> None:
        """Request the missing bytes, on the condition that the file is still the one listed."""
        is_versioned = file.sha256 or self.commit or file.version
        offset = _size(part) if is_versioned else 0
        url, headers = self.locate(file)
        range_headers = {**headers, "Accept-Encoding": "identity", "Range": f"bytes={offset}-"}
        if file.version and offset:
            range_headers["If-Range"] = file.version
        with (
            self.session().stream("GET", url, headers=range_headers, follow_redirects=True) as response,
            part.open("ab") as out,
        ):
            if response.status_code not in (200, 206):
                raise OSError(f"status {response.status_code}")
            if file.version and file_version(response.headers) != file.version:
                raise ChangedFile(
                    f"{file.path} changed on the server during the download; rerun the same command to start over"
                )
            if response.status_code == 206 and _first_byte(response.headers) != offset:
                raise OSError("the server sent another range than the requested one")
            if response.status_code == 200:  # a server without ranges sends the whole file
                offset = 0
            out.truncate(offset)
            for chunk in response.iter_raw():
                out.write(chunk)
                self.progress(len(chunk))


def file_version(headers: Any) -> str:
    """Return the version of a web file for If-Range (RFC 9110, 13.1.5): a strong ETag, else a date."""
    tag = str(headers.get("ETag") or "")
    return tag if tag.startswith('"') else str(headers.get("Last-Modified") or "")


def _first_byte(headers: Any) -> int:
    """Return the offset of a partial response; -1 if its header is missing."""
    match = re.match(r"bytes (\d+)-", headers.get("Content-Range") or "")
    return int(match[1]) if match else -1


@cache
def web_file_system() -> Any:
    """Return fsspec's file system of web servers, with proxies from the environment and a timeout on silence only."""
    import aiohttp
    from fsspec.implementations.http import HTTPFileSystem

    timeout = aiohttp.ClientTimeout(total=None, sock_connect=READ_TIMEOUT_S, sock_read=READ_TIMEOUT_S)
    return HTTPFileSystem(encoded=True, client_kwargs={"trust_env": True, "timeout": timeout})


@contextmanager
def fetch_errors(subject: str, who: str = "the Hub") -> Iterator[None]:
    """Turn errors of network libraries into FetchError."""
    try:
        yield
    except ModuleNotFoundError as problem:
        raise FetchError(f"this needs the package {problem.name}: pip install 'proactive-sweep[hub,cloud]'") from None
    except BadData:
        raise
    except Exception as problem:  # from five packages; each means a failed request
        raise FetchError(f"{who} did not give {subject}: {short_message(problem)}") from None


def short_message(problem: Exception) -> str:
    """Return the first line of a message, without the query strings of addresses, which may hold signatures."""
    text = (str(problem).strip() or type(problem).__name__).split("\n")[0]
    return re.sub(r"\?\S+", "", text)[:200]


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
