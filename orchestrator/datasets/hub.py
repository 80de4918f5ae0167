"""The Hugging Face Hub, as far as this program needs it: what a repository holds at a commit, and its files, whole or in part.

The one door to huggingface_hub. A broken download keeps what came; the same call goes on from there.
"""

from __future__ import annotations

import errno
import hashlib
import io
import re
import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from envs.samples import BadData

CHUNK = 1 << 20
ATTEMPTS = 4
"""Tries in a row that may bring nothing new. (huggingface_hub's own download throws away what a broken one brought.)"""
RETRY_PAUSE_S = 0.5
"""Seconds before the second of them; it doubles."""


class FetchError(BadData):
    """What the user should read."""


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file of a repository at a commit."""

    path: str
    size: int
    sha256: str
    """Empty where the Hub tells none (small text files)."""


class Repository:
    """A data set or model at one commit. Every method raises FetchError when the Hub cannot be asked or says no."""

    def __init__(
        self,
        name: str,
        revision: str = "main",
        kind: str = "dataset",
        progress: Callable[[int], None] = lambda size: None,
    ) -> None:
        """``progress`` is told the size of every piece that arrives."""
        self.name, self.kind, self.progress = name, kind, progress
        with said(f"{name} at {revision}"):
            from huggingface_hub import HfApi

            self.api = HfApi()
            self.info: Any = self.api.repo_info(name, revision=revision, repo_type=kind)
        self.commit: str = self.info.sha or revision

    def files(self, folder: str | None = None) -> list[RemoteFile]:
        """Every file below a folder, with its size."""
        with said(f"{self.name} at {self.commit}"):
            tree: Any = self.api.list_repo_tree(
                self.name, folder, recursive=True, revision=self.commit, repo_type=self.kind
            )
            return [
                RemoteFile(entry.path, entry.size, entry.lfs.sha256 if entry.lfs else "")
                for entry in tree
                if hasattr(entry, "size")
            ]

    def opened(self, file: RemoteFile) -> io.BufferedReader:
        """The file for reading here and there without fetching it whole."""
        return io.BufferedReader(_Ranges(self, file), CHUNK)

    def download(self, file: RemoteFile, target: Path) -> Path:
        """Fetch a file to ``target`` and check size and hash; what a broken download left is used."""
        if target.is_file() and target.stat().st_size == file.size:
            return target
        mark = (file.sha256 or self.commit)[:12]
        part = target.with_name(f".{target.name}.{mark}.part")
        part.parent.mkdir(parents=True, exist_ok=True)
        idle = 0
        while (had := _size(part)) != file.size and idle < ATTEMPTS:
            if had > file.size:
                part.unlink()
                had = 0
            time.sleep(RETRY_PAUSE_S * (2**idle - 1))
            problem = self._more(file, part)
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

    def _more(self, file: RemoteFile, part: Path) -> str:
        """Append what is missing as it comes; returns why it stopped, or an empty string."""
        had = _size(part)
        try:
            url, headers = self.located(file)
            asked = {**headers, "Range": f"bytes={had}-", "Accept-Encoding": "identity"}
            with (
                self.session().stream("GET", url, headers=asked, follow_redirects=True) as answer,
                part.open("ab") as out,
            ):
                if answer.status_code == 200:
                    out.truncate(0)  # a server that knows no ranges begins anew
                elif answer.status_code != 206:
                    return f"status {answer.status_code}"
                for chunk in answer.iter_raw():
                    out.write(chunk)
                    self.progress(len(chunk))
        except OSError as problem:
            if problem.errno in (errno.ENOSPC, errno.EDQUOT):
                raise FetchError(f"the disk is full at {_size(part):,} bytes of {file.path}") from None
            return _short(problem)
        except Exception as problem:  # whatever the network stack raises; the caller decides by the bytes that came
            return _short(problem)
        return "" if _size(part) == file.size else f"the server sent {_size(part):,} bytes"

    def session(self) -> Any:
        """The client that asks."""
        from huggingface_hub.utils import get_session  # type: ignore[attr-defined]

        return get_session()

    def located(self, file: RemoteFile) -> tuple[str, dict[str, str]]:
        """Where the bytes are now, and with which headers; a token never travels to another host."""
        from huggingface_hub import get_hf_file_metadata, hf_hub_url
        from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]

        asked = hf_hub_url(self.name, file.path, repo_type=self.kind, revision=self.commit)
        url = get_hf_file_metadata(asked).location
        headers = build_hf_headers()
        if urlsplit(url).netloc != urlsplit(asked).netloc:
            headers.pop("authorization", None)
        return url, headers


def cached(name: str, revision: str = "") -> Path | None:
    """The folder of a model that the Hub's cache on this disk holds, or None."""
    try:
        from huggingface_hub import try_to_load_from_cache
        from huggingface_hub.errors import HFValidationError
    except ModuleNotFoundError:
        return None
    try:
        found = try_to_load_from_cache(name, "config.json", revision=revision or None)
    except HFValidationError:
        return None
    return Path(found).parent if isinstance(found, str) else None


def client() -> Any:
    """A client for other servers, of the kind that huggingface_hub has: its own asks nobody where HF_HUB_OFFLINE is set."""
    from huggingface_hub.utils import get_session  # type: ignore[attr-defined]

    return type(get_session())(timeout=60)


class _Ranges(io.RawIOBase):
    """A remote file read by ranges."""

    def __init__(self, repository: Repository, file: RemoteFile) -> None:
        self.size, self.place, self.path, self.session = file.size, 0, file.path, repository.session
        with said(file.path):
            self.url, self.headers = repository.located(file)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        self.place = offset + (0, self.place, self.size)[whence]
        return self.place

    def readinto(self, buffer: Any) -> int:
        end = min(self.place + len(buffer), self.size)
        if end <= self.place:
            return 0
        with said(self.path):
            headers = {**self.headers, "Range": f"bytes={self.place}-{end - 1}"}
            answer = self.session().get(self.url, headers=headers, follow_redirects=True)
            if answer.status_code != 206 or len(answer.content) != end - self.place:
                raise OSError(f"the server does not send parts of files (status {answer.status_code})")
        buffer[: len(answer.content)] = answer.content
        self.place = end
        return len(answer.content)


@contextmanager
def said(what: str, who: str = "the Hub") -> Any:
    """Turn what huggingface_hub raises into one sentence."""
    try:
        yield
    except ModuleNotFoundError:
        raise FetchError("this needs the package huggingface_hub: pip install 'proactive-sweep[hub]'") from None
    except FetchError:
        raise
    except (
        Exception
    ) as problem:  # a library for the network raises from four packages; each means the Hub did not answer
        raise FetchError(f"{who} did not give {what}: {_short(problem)}") from None


def _short(problem: Exception) -> str:
    """The first line of a message without addresses that hold a signature."""
    text = (str(problem).strip() or type(problem).__name__).split("\n")[0]
    return re.sub(r"\?\S+", "", text)[:200]


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _sha256(path: Path, step: Callable[[], Any] = hashlib.sha256) -> str:
    whole = step()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            whole.update(chunk)
    return str(whole.hexdigest())
