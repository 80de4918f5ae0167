"""Which door opens for which backend name; a heavy package is imported only when its door is used."""

from __future__ import annotations

from pathlib import Path

from actors.backend import Backend
from actors.baselines import Baseline
from sweeps.spec import ModelSpec


def engine(model: ModelSpec, data: Path) -> Backend:
    """The backend of a model entry, loaded and ready; ``data`` is the benchmark folder its pictures lie in.

    Raises what the engine raises when it cannot load: the worker reports it as the model's failure to start.
    """
    match model.backend:
        case "builtin":
            return Baseline(model.source.removeprefix("builtin:"))
        case other:
            raise ValueError(f"{model.name}: this build has no backend named {other!r}")
