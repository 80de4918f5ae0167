"""Models with weights that installed packages offer through entry points of the kind ``model`` (``envs.installed``)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envs.installed import PackageError, missing_extra, offers

if TYPE_CHECKING:
    from sweeps.spec import ModelSpec

BUILTIN = "builtin:"
"""Prefix of the source of a policy or model that needs no repository or folder."""


@dataclass(frozen=True, slots=True)
class PackageModel:
    """What an entry point of the kind ``model`` names; the name of the entry point is the model's name."""

    table: Mapping[str, Any]
    """Its entry, with the keys of ``models.toml``; the source is ``builtin:`` and a name."""
    folder: Callable[[], Path]
    """Returns the folder of its checkpoint on this machine, which exists once it is downloaded."""
    license: str = "MIT"
    download: str = ""
    """Size and origin of what has to be downloaded; empty if the package brings the folder."""


def package_models(taken: Collection[str] = ()) -> dict[str, PackageModel]:
    """Return the models of installed packages by name; raises PackageError for one that cannot be used or is ``taken``."""
    models = {}
    for name, offer in offers("model", taken).items():
        model = models[name] = offer.load()
        if not isinstance(model, PackageModel) or not str(model.table.get("source")).startswith(BUILTIN):
            raise PackageError(f"{offer} is no PackageModel whose source begins with {BUILTIN}")
    return models


def find_package_model(model: ModelSpec) -> PackageModel | None:
    """Return the offer that holds a model's weights; None if the model is a policy, or its weights are elsewhere."""
    if not model.source.startswith(BUILTIN) or model.backend == "builtin":
        return None
    return next((offer for offer in package_models().values() if offer.table["source"] == model.source), None)


def resolve_source(model: ModelSpec) -> ModelSpec:
    """Return the entry with the folder on this machine as its source if a package holds its weights, else as it is."""
    offer = find_package_model(model)
    return model if offer is None else model.model_copy(update={"source": str(offer.folder()), "revision": ""})


def missing_package(model: ModelSpec) -> str:
    """Return why a model's built-in weights cannot be loaded here; empty if a package holds them or none is needed."""
    if model.backend == "builtin" or not model.source.startswith(BUILTIN) or find_package_model(model):
        return ""
    name = model.source.removeprefix(BUILTIN)
    return missing_extra(name) or f"no installed package offers the weights of {model.source}"
