"""Reads data folders and facts of checkpoints from the Hub and from buckets, through their fsspec file systems.

An address names one state of the data: the Hub's is pinned to a commit; data at other addresses must not change. Whatever a
network library raises becomes one sentence.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from actors.text.proxies import describe_proxy
from envs.regular import parse_fields
from envs.samples import BadData
from sweeps.checkpoint import MAX_FILE_BYTES, Checkpoint, sum_weights

HUB = re.compile(r"hf://(?:datasets/)?([^/@]+/[^/@]+)(?:@([^/]+))?(?:/(.*))?")
ARRIVING = ".arriving"
"""Subfolder of downloads that are not in place yet."""


class FetchError(BadData):
    """A remote file that could not be fetched, perhaps because it ``is_missing`` there; its text is the full message."""

    def __init__(self, message: str, is_missing: bool = False) -> None:
        super().__init__(message)
        self.is_missing = is_missing


@contextmanager
def fetch_errors(subject: str) -> Iterator[None]:
    """Turn errors of network libraries into FetchError; ``subject`` names what is fetched, and from where."""
    try:
        yield
    except ImportError as problem:
        raise FetchError(f"{subject}: {problem}; pip install 'proactive-sweep[hub,cloud]'") from None
    except BadData:
        raise
    except Exception as problem:  # from five packages; each means a failed request
        proxy = describe_proxy("https://huggingface.co")
        is_missing = getattr(getattr(problem, "response", None), "status_code", 0) == 404
        raise FetchError(f"cannot fetch {subject}{proxy}: {short_message(problem)}", is_missing) from None


def short_message(problem: Exception) -> str:
    """Return the first line of a message, without the query strings of addresses, which may hold signatures."""
    text = (str(problem).strip() or type(problem).__name__).split("\n")[0]
    return re.sub(r"\?\S+", "", text)[:200]


def read_hub(source: str, revision: str = "") -> Checkpoint:
    """Return the facts of a checkpoint on the Hub, read from its listing and ``config.json``; raises FetchError."""
    with fetch_errors(f"{source} from the Hub"):
        from huggingface_hub import HfApi, HfFileSystem

        info = HfApi().model_info(source, revision=revision or None, files_metadata=True)
        sizes = {file.rfilename: file.size or 0 for file in info.siblings or ()}
        if "config.json" not in sizes:
            raise FetchError(f"{source} has no config.json on the Hub", is_missing=True)
        config: dict[str, Any] = {}
        if sizes["config.json"] <= MAX_FILE_BYTES:
            # not into the cache, where a configuration alone would look like a model
            with HfFileSystem().open(f"{source}@{info.sha}/config.json", "rb") as remote:
                config = parse_fields(remote.read()) or {}
    terms = next((tag.removeprefix("license:") for tag in info.tags or () if tag.startswith("license:")), "not stated")
    gate = "; gated: request access on its page" if getattr(info, "gated", False) else ""
    return Checkpoint(config, None, sum_weights(sizes.items()), info.sha or "", f"ok: {terms}{gate}")


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
    with fetch_errors(f"{address.location} at {address.revision or 'main'} from the Hub"):
        from huggingface_hub import HfApi

        info = HfApi().dataset_info(address.location, revision=address.revision or None)
    return replace(address, revision=info.sha or address.revision)


class RemoteFolder:
    """The files of one pinned address, for a local folder ``home``; methods raise FetchError if a request fails."""

    def __init__(self, address: Address, home: Path) -> None:
        self.address, self.home, self.arriving = address, home, home / ARRIVING
        if address.scheme in ("http", "https"):
            raise FetchError(f"{address}: 0.2.0 was the last that read web folders; download it, and name its folder")
        with fetch_errors(str(address)):
            from fsspec.core import url_to_fs

            self.fs, root = url_to_fs(str(address).replace("hf://", "hf://datasets/"))
        self.root = str(root).rstrip("/")

    @cached_property
    def files(self) -> dict[str, int]:
        """The size in bytes of every file by its path in the folder."""
        with fetch_errors(str(self.address)):
            self.fs.invalidate_cache()
            details = self.fs.find(self.root, detail=True)
            return {path.removeprefix(f"{self.root}/"): int(details[path]["size"]) for path in sorted(details)}

    def download(self, name: str, target: Path) -> Path:
        """Download a file to ``target``, which gets its name only when it is complete; a broken download of the Hub resumes."""
        size = self.files[name]
        if target.is_file() and target.stat().st_size == size:
            return target
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(f".{target.name}.part")
        try:
            if self.address.scheme == "hf":
                part = self._resume(name)
            else:
                self.fs.get_file(f"{self.root}/{name}", str(part))
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
