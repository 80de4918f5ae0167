"""Remote files through fsspec: listed, read in part, or downloaded whole; the Hub, web servers and buckets share this.

A file gets its name only once it is whole, of one version and of the right SHA-256 where one is known; a broken download
keeps what came, and the same call goes on from there. Why not fsspec's own download: docs/decisions/0007.
"""

from __future__ import annotations

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
"""Seconds for which a server may send nothing."""
ATTEMPTS = 4
"""Tries in a row that may bring nothing new."""
RETRY_PAUSE_S = 0.5
"""Seconds before the second of them; it doubles."""


class FetchError(BadData):
    """Why a remote file is not here; its text is the whole message."""


class Changed(FetchError):
    """A file that is another one than when it was listed."""


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file as a listing shows it."""

    path: str
    size: int
    """Bytes."""
    sha256: str = ""
    """Empty where the place tells none."""
    version: str = ""
    """A strong ETag, a date of change or a generation: the same only for the same bytes; empty where the place tells none."""


class RemoteFolder:
    """The files below one place; ``fs`` is a file system of fsspec, ``root`` the place in it."""

    name: str
    """What the user typed."""
    commit = ""
    """Empty where the place keeps no versions."""
    who = "the server"
    """Whom a message names."""
    fs: Any
    root: str
    progress: Callable[[int], None]
    """Is called with the size in bytes of every piece that arrives."""

    def files(self, folder: str | None = None) -> list[RemoteFile]:
        """Every file below a folder, with its size; raises FetchError."""
        raise NotImplementedError

    def located(self, file: RemoteFile) -> tuple[str, dict[str, str]]:
        """The http address of a file and the headers to ask it with; raises FetchError."""
        raise NotImplementedError

    def session(self) -> Any:
        """The client of httpx that downloads."""
        raise NotImplementedError

    def opened(self, file: RemoteFile) -> Any:
        """A file for reading here and there, without having it whole."""
        return self.fs.open(f"{self.root}/{file.path}", "rb", block_size=CHUNK)

    def download(self, file: RemoteFile, target: Path) -> Path:
        """Fetch a file to ``target`` and check size and hash; what a broken download of the same version left is used."""
        if target.is_file() and target.stat().st_size == file.size:
            return target
        part = self._part(file, target)
        idle = 0
        while (had := _size(part)) != file.size and idle < ATTEMPTS:
            if had > file.size:
                part.unlink()
                had = 0
            time.sleep(RETRY_PAUSE_S * (2**idle - 1))
            problem = self._try(file, part)
            idle = idle + 1 if _size(part) <= had else 0
            if problem and idle == ATTEMPTS:
                raise FetchError(
                    f"{file.path} broke off at {_size(part):,} of {file.size:,} bytes ({problem}); the same command goes on "
                    "from there"
                )
        if file.sha256 and _sha256(part) != file.sha256:
            part.unlink()
            raise FetchError(f"{file.path} arrived damaged (its SHA-256 is another) and was removed; fetch it again")
        part.replace(target)
        return target

    def _part(self, file: RemoteFile, target: Path) -> Path:
        """Where a file arrives: a name of its version, so that no other version is appended to it; those of others go."""
        mark = hashlib.sha256((file.sha256 or file.version or self.commit).encode()).hexdigest()[:12]
        part = target.with_name(f".{target.name}.{mark}.part")
        part.parent.mkdir(parents=True, exist_ok=True)
        for left in part.parent.iterdir():
            if left.name.startswith(f".{target.name}.") and left.suffix == ".part" and left != part:
                left.unlink()
        return part

    def _try(self, file: RemoteFile, part: Path) -> str:
        """Append what is missing as it comes; returns why it stopped, or an empty string. Raises Changed."""
        try:
            self._append(file, part)
        except Changed:
            part.unlink(missing_ok=True)
            raise
        except OSError as problem:
            if problem.errno in (errno.ENOSPC, errno.EDQUOT):
                raise FetchError(f"the disk is full at {_size(part):,} bytes of {file.path}") from None
            return short(problem)
        except Exception as problem:  # whatever the network stack raises; the caller decides by the bytes that came
            return short(problem)
        return "" if _size(part) == file.size else f"the server sent {_size(part):,} bytes"

    def _append(self, file: RemoteFile, part: Path) -> None:
        """Ask for what is missing, on the condition that the file is still the one that was listed."""
        lasting = file.sha256 or self.commit or file.version
        had = _size(part) if lasting else 0
        url, headers = self.located(file)
        asked = {**headers, "Accept-Encoding": "identity", "Range": f"bytes={had}-"}
        if file.version and had:
            asked["If-Range"] = file.version
        with (
            self.session().stream("GET", url, headers=asked, follow_redirects=True) as answer,
            part.open("ab") as out,
        ):
            if answer.status_code not in (200, 206):
                raise OSError(f"status {answer.status_code}")
            if file.version and version(answer.headers) != file.version:
                raise Changed(f"{file.path} was changed on the server meanwhile; the same command fetches it anew")
            if answer.status_code == 206 and _start(answer.headers) != had:
                raise OSError("the server sent another part than the one asked for")
            if answer.status_code == 200:  # a server that knows no ranges begins anew
                had = 0
            out.truncate(had)
            for chunk in answer.iter_raw():
                out.write(chunk)
                self.progress(len(chunk))


def version(headers: Any) -> str:
    """What tells one version of a web file from another in If-Range (RFC 9110, 13.1.5): a strong ETag, else a date."""
    tag = str(headers.get("ETag") or "")
    return tag if tag.startswith('"') else str(headers.get("Last-Modified") or "")


def _start(headers: Any) -> int:
    """Where a part of a file begins that a server sends; -1 where it does not say so."""
    found = re.match(r"bytes (\d+)-", headers.get("Content-Range") or "")
    return int(found[1]) if found else -1


@cache
def web() -> Any:
    """fsspec's file system of web servers: proxies of the environment are used, and only silence is a timeout."""
    import aiohttp
    from fsspec.implementations.http import HTTPFileSystem

    timeout = aiohttp.ClientTimeout(total=None, sock_connect=READ_TIMEOUT_S, sock_read=READ_TIMEOUT_S)
    return HTTPFileSystem(encoded=True, client_kwargs={"trust_env": True, "timeout": timeout})


@contextmanager
def sentence(what: str, who: str = "the Hub") -> Iterator[None]:
    """Turn what a library for the network raises into one sentence."""
    try:
        yield
    except ModuleNotFoundError as problem:
        raise FetchError(f"this needs the package {problem.name}: pip install 'proactive-sweep[hub,cloud]'") from None
    except BadData:
        raise
    except Exception as problem:  # from five packages; each means that nobody answered
        raise FetchError(f"{who} did not give {what}: {short(problem)}") from None


def short(problem: Exception) -> str:
    """The first line of a message without addresses that hold a signature."""
    text = (str(problem).strip() or type(problem).__name__).split("\n")[0]
    return re.sub(r"\?\S+", "", text)[:200]


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
