"""Access to the Hugging Face Hub: the files of a repository at one commit.

The only module that imports huggingface_hub. All files of a repository come from one commit.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from orchestrator.datasets.remote_files import FetchError, RemoteFile, RemoteFolder, fetch_errors


class Repository(RemoteFolder):
    """A data set or model at one commit. Every method raises FetchError if the Hub does not answer or refuses."""

    who = "the Hub"

    def __init__(
        self,
        name: str,
        revision: str = "main",
        kind: str = "dataset",
        progress: Callable[[int], None] = lambda size: None,
    ) -> None:
        self.name, self.kind, self.progress = name, kind, progress
        with fetch_errors(f"{name} at {revision}"):
            from huggingface_hub import HfApi, HfFileSystem

            self.info: Any = HfApi().repo_info(name, revision=revision, repo_type=kind)
            self.fs = HfFileSystem()
        self.commit = self.info.sha or revision
        self.root = f"{'datasets/' if kind == 'dataset' else ''}{name}@{self.commit}"

    def files(self, folder: str | None = None) -> list[RemoteFile]:
        """Return every file below a folder with its size, and with its SHA-256 if it is large."""
        with fetch_errors(f"{self.name} at {self.commit}"):
            details_by_path = self.fs.find(f"{self.root}/{folder}" if folder else self.root, detail=True)
            return [
                RemoteFile(
                    path.removeprefix(f"{self.root}/"), details["size"], details["lfs"].sha256 if details["lfs"] else ""
                )
                for path, details in sorted(details_by_path.items())
            ]

    def session(self) -> Any:
        """Return the HTTP client of huggingface_hub."""
        from huggingface_hub.utils import get_session  # type: ignore[attr-defined]

        return get_session()

    def locate(self, file: RemoteFile) -> tuple[str, dict[str, str]]:
        """Return the file's address and the request headers, which have the token only if the Hub itself is the host."""
        from huggingface_hub import get_hf_file_metadata, hf_hub_url
        from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]

        hub_url = hf_hub_url(self.name, file.path, repo_type=self.kind, revision=self.commit)
        url = get_hf_file_metadata(hub_url).location
        headers = build_hf_headers()
        if urlsplit(url).netloc != urlsplit(hub_url).netloc:
            headers.pop("authorization", None)
        return url, headers


@dataclass(frozen=True, slots=True)
class SnapshotFile:
    """A file of a model in the Hub's listing."""

    name: str
    size: int
    """Bytes."""
    is_cached: bool
    """True if it is in this machine's cache."""


class HubSnapshot:
    """A model's files in the Hub's local cache. Its methods raise the errors of huggingface_hub."""

    def __init__(self, name: str, revision: str, cache: str | None = None) -> None:
        """``cache`` is the folder of the cache; None for the default (HF_HUB_CACHE, HF_HOME)."""
        try:
            from huggingface_hub import constants
        except ModuleNotFoundError:
            raise FetchError("models fetch needs the extra `hub`: pip install 'proactive-sweep[hub]'") from None
        self.name, self.revision = name, revision
        self.folder = Path(cache or constants.HF_HUB_CACHE)

    def list_files(self, patterns: Sequence[str], without: Sequence[str]) -> list[SnapshotFile]:
        """Return the files that match one of ``patterns`` and none of ``without``."""
        from huggingface_hub import snapshot_download

        files: Any = snapshot_download(
            self.name, revision=self.revision, cache_dir=self.folder, allow_patterns=list(patterns),
            ignore_patterns=list(without), dry_run=True,
        )  # fmt: skip
        return [SnapshotFile(file.filename, file.file_size, not file.will_download) for file in files]

    def download(self, names: Sequence[str]) -> None:
        """Download these files."""
        from huggingface_hub import snapshot_download

        snapshot_download(self.name, revision=self.revision, cache_dir=self.folder, allow_patterns=list(names))


def make_client() -> Any:
    """Return an HTTP client for other servers; the Hub's own client refuses all requests if HF_HUB_OFFLINE is set."""
    from huggingface_hub.utils import get_session  # type: ignore[attr-defined]

    return type(get_session())(timeout=60)
