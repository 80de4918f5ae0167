"""What the Hub says of a checkpoint before its weights are fetched: configuration, sizes, commit and license."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from orchestrator.datasets.remote_files import FetchError, fetch_errors
from sweeps.checkpoint import MAX_FILE_BYTES, Checkpoint, parse_config
from sweeps.own_model import WEIGHTS, Files
from sweeps.sweep_file import SweepError


class HubModel(NamedTuple):
    """A model repository at one commit."""

    info: Any
    """The Hub's own answer."""
    sizes: Mapping[str, int]
    """Bytes of every file."""
    config: Mapping[str, Any]
    """``config.json``; empty if there is none, or no readable one."""


def read_model(source: str, revision: str = "") -> HubModel:
    """Read a repository's listing and configuration; raises FetchError."""
    with fetch_errors(source):
        from huggingface_hub import HfApi, HfFileSystem

        info = HfApi().model_info(source, revision=revision or None, files_metadata=True)
        sizes = {file.rfilename: file.size or 0 for file in info.siblings or ()}
        if not 0 < sizes.get("config.json", 0) <= MAX_FILE_BYTES:
            return HubModel(info, sizes, {})
        # not into the cache, where a configuration alone would look like a model
        with HfFileSystem().open(f"{source}@{info.sha}/config.json", "rb") as remote:
            return HubModel(info, sizes, parse_config(remote.read()) or {})


def read_hub(source: str) -> Files:
    """Return the facts of a checkpoint on the Hub; raises SweepError if it cannot be read there."""
    try:
        info, sizes, config = read_model(source)
    except FetchError as problem:
        raise SweepError(f"--model {source} cannot be read from the Hub ({problem}); name a folder instead") from None
    return Files(Checkpoint(config), sum(sizes[name] for name in sizes if name.endswith(WEIGHTS)), info.sha or "")
