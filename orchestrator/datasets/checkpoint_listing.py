"""What the Hub says of a checkpoint before its weights are fetched: configuration, size, commit and license."""

from orchestrator.datasets.sources import FetchError, fetch_errors
from sweeps.checkpoint import MAX_FILE_BYTES, Checkpoint, parse_config, sum_weights


def read_hub(source: str, revision: str = "") -> Checkpoint:
    """Return the facts of a checkpoint on the Hub, read from its listing and ``config.json``; raises FetchError."""
    with fetch_errors(source):
        from huggingface_hub import HfApi, HfFileSystem

        info = HfApi().model_info(source, revision=revision or None, files_metadata=True)
        sizes = {file.rfilename: file.size or 0 for file in info.siblings or ()}
        if "config.json" not in sizes:
            raise FetchError(f"{source} has no config.json on the Hub")
        config = b""
        if sizes["config.json"] <= MAX_FILE_BYTES:
            # not into the cache, where a configuration alone would look like a model
            with HfFileSystem().open(f"{source}@{info.sha}/config.json", "rb") as remote:
                config = remote.read()
    terms = next((tag.removeprefix("license:") for tag in info.tags or () if tag.startswith("license:")), "not stated")
    gate = "; gated: request access on its page" if getattr(info, "gated", False) else ""
    return Checkpoint(
        parse_config(config) or {}, None, sum_weights(sizes.items()), info.sha or "", f"ok: {terms}{gate}"
    )
