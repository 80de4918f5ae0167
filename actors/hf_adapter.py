"""Where the LoRA adapter of a model lies on this disk; what the Hub has of it is fetched first."""

from __future__ import annotations

import os

from sweeps.spec import ModelSpec


def adapter(model: ModelSpec) -> str:
    """The folder of the model's LoRA: a path as it stands, or a folder inside the model's own (fetched if need be)."""
    if os.path.isdir(model.lora):
        return model.lora
    if os.path.isdir(model.source):
        return os.path.join(model.source, model.lora)
    from huggingface_hub import snapshot_download

    fetched = snapshot_download(model.source, revision=model.revision or None, allow_patterns=f"{model.lora}/*")
    return os.path.join(fetched, model.lora)
