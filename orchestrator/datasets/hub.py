"""The Hugging Face Hub, as far as this program needs it: what a repository holds at a commit, and its files.

The one door to huggingface_hub. A repository is asked at one commit, so no two of its files are of different versions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from orchestrator.datasets.remote_files import FetchError, RemoteFile, RemoteFolder, sentence

__all__ = ["FetchError", "RemoteFile", "Repository", "Snapshot", "cached"]


class Repository(RemoteFolder):
    """A data set or model at one commit. Every method raises FetchError when the Hub cannot be asked or says no."""

    who = "the Hub"

    def __init__(
        self,
        name: str,
        revision: str = "main",
        kind: str = "dataset",
        progress: Callable[[int], None] = lambda size: None,
    ) -> None:
        self.name, self.kind, self.progress = name, kind, progress
        with sentence(f"{name} at {revision}"):
            from huggingface_hub import HfApi, HfFileSystem

            self.info: Any = HfApi().repo_info(name, revision=revision, repo_type=kind)
            self.fs = HfFileSystem()
        self.commit = self.info.sha or revision
        self.root = f"{'datasets/' if kind == 'dataset' else ''}{name}@{self.commit}"

    def files(self, folder: str | None = None) -> list[RemoteFile]:
        """Every file below a folder, with its size; a large one with its SHA-256."""
        with sentence(f"{self.name} at {self.commit}"):
            found = self.fs.find(f"{self.root}/{folder}" if folder else self.root, detail=True)
            return [
                RemoteFile(path.removeprefix(f"{self.root}/"), info["size"], info["lfs"].sha256 if info["lfs"] else "")
                for path, info in sorted(found.items())
            ]

    def session(self) -> Any:
        """The client that huggingface_hub asks with."""
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


@dataclass(frozen=True, slots=True)
class SnapshotFile:
    """A file of a model, as the Hub lists it."""

    name: str
    size: int
    """Bytes."""
    there: bool
    """Whether the cache of this machine has it."""


class Snapshot:
    """A model's files in the Hub's cache on this disk. Its methods raise what huggingface_hub raises."""

    def __init__(self, name: str, revision: str, cache: str | None = None) -> None:
        """``cache``: its folder; None is the one that HF_HOME or HF_HUB_CACHE name."""
        try:
            from huggingface_hub import constants
        except ModuleNotFoundError:
            raise FetchError("models fetch needs the extra `hub`: pip install 'proactive-sweep[hub]'") from None
        self.name, self.revision = name, revision
        self.folder = Path(cache or constants.HF_HUB_CACHE)

    def listed(self, patterns: Sequence[str], without: Sequence[str]) -> list[SnapshotFile]:
        """Files that match one of ``patterns`` and none of ``without``."""
        from huggingface_hub import snapshot_download

        found: Any = snapshot_download(
            self.name, revision=self.revision, cache_dir=self.folder, allow_patterns=list(patterns),
            ignore_patterns=list(without), dry_run=True,
        )  # fmt: skip
        return [SnapshotFile(file.filename, file.file_size, not file.will_download) for file in found]

    def download(self, names: Sequence[str]) -> None:
        """Fetch these files."""
        from huggingface_hub import snapshot_download

        snapshot_download(self.name, revision=self.revision, cache_dir=self.folder, allow_patterns=list(names))


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
