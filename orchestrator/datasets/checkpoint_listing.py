"""What the Hub says of a checkpoint before its weights are fetched: configuration, sizes, commit and license."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from orchestrator.datasets.remote_files import FetchError, fetch_errors
from sweeps.checkpoint import MAX_FILE_BYTES, Checkpoint, parse_config
from sweeps.own_model import WEIGHTS, Files
from sweeps.sweep_file import SweepError


@dataclass(frozen=True, slots=True)
class HubModel:
    """A model repository at one commit."""

    info: Any
    """The Hub's own answer."""
    sizes: Mapping[str, int]
    """Bytes of every file."""
    config: Mapping[str, Any] | None
    """``config.json``; None if there is none, or no readable one."""


def read_model(source: str, revision: str = "") -> HubModel:
    """Read a repository's listing and configuration; raises FetchError."""
    with fetch_errors(source):
        from huggingface_hub import HfApi, HfFileSystem

        info = HfApi().model_info(source, revision=revision or None, files_metadata=True)
        sizes = {file.rfilename: file.size or 0 for file in info.siblings or ()}
        if not 0 < sizes.get("config.json", 0) <= MAX_FILE_BYTES:
            return HubModel(info, sizes, None)
        # not into the cache, where a configuration alone would look like a model
        with HfFileSystem().open(f"{source}@{info.sha}/config.json", "rb") as remote:
            return HubModel(info, sizes, parse_config(remote.read()))


def read_hub(source: str) -> Files:
    """Return the facts of a checkpoint on the Hub; raises SweepError if it cannot be read there."""
    try:
        model = read_model(source)
    except FetchError as problem:
        raise SweepError(f"--model {source} cannot be read from the Hub ({problem}); name a folder instead") from None
    size = sum(size for name, size in model.sizes.items() if name.endswith(WEIGHTS))
    return Files(Checkpoint(model.config or {}), size, model.info.sha or "")
