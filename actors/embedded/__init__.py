"""The tiny model that ships: its checkpoint lies in this folder."""

from pathlib import Path

from sweeps.spec import ModelSpec

EMBEDDED = "builtin:embedded"
"""Source of the tiny model that ships with the tree."""


def resolve_embedded(model: ModelSpec) -> ModelSpec:
    """Return the entry with the embedded model's folder on this machine as its source."""
    if model.source != EMBEDDED:
        return model
    return model.model_copy(update={"source": str(Path(__file__).parent), "revision": ""})
