"""The tiny model that ships with the tree; its checkpoint is in this folder."""

from pathlib import Path

from actors.embedded_135m import is_packaged, packaged_folder
from sweeps.spec import ModelSpec

EMBEDDED = "builtin:embedded"
"""Source of the tiny model that ships with the tree."""


def resolve_embedded(model: ModelSpec) -> ModelSpec:
    """Return the entry with the folder of a built-in checkpoint on this machine as its source."""
    if model.source == EMBEDDED:
        folder = Path(__file__).parent
    elif is_packaged(model.source):
        folder = packaged_folder(model.source)
    else:
        return model
    return model.model_copy(update={"source": str(folder), "revision": ""})
