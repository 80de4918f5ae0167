"""Locates the folder of a model's LoRA adapter, which may be downloaded from the Hub."""

import os

from sweeps.spec import ModelSpec


def adapter_folder(model: ModelSpec) -> str:
    """Return the folder of the model's LoRA: a path, or a subfolder of the model, downloaded if absent."""
    if os.path.isdir(model.lora):
        return model.lora
    if os.path.isdir(model.source):
        return os.path.join(model.source, model.lora)
    from huggingface_hub import snapshot_download

    snapshot = snapshot_download(model.source, revision=model.revision or None, allow_patterns=f"{model.lora}/*")
    return os.path.join(snapshot, model.lora)
