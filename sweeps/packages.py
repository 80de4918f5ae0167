"""What installed packages offer a sweep (``envs.installed``): scenarios, policies, measures, and models with weights.

The files of a scenario's or policy's package are part of the keys of the cells that use it.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envs import SCENARIOS, STEMS
from envs import installed_scenarios as scenarios
from envs.installed import Offer, PackageError, load_function, missing_extra, offers
from sweeps.conditions import Condition
from sweeps.spec import ModelSpec
from sweeps.validation import find_name
from sweeps.values import NAME, read_table, split_names

BUILTIN = "builtin:"
"""Prefix of the source of a policy or model that needs no repository or folder."""
RESULT_COLUMNS = read_table("result_columns.toml")
"""Column of the results -> its meaning; also with ``_low`` and ``_high``, no measure may have it as its name."""


def with_bounds(columns: Iterable[str]) -> list[str]:
    """Return each column, and those with the ends of its interval."""
    return [f"{name}{end}" for name in columns for end in ("", "_low", "_high")]


def measures() -> dict[str, Offer]:
    """Return the measures that installed packages offer by name; raises PackageError for the name of a result column."""
    return offers("measure", set(with_bounds(RESULT_COLUMNS)))


def check_packages(taken: Collection[str]) -> None:
    """Raise PackageError if a package offers an invalid name, or one that is ``taken`` by a model or policy that ships."""
    for offer in (*scenarios().values(), *offers("policy", taken).values(), *measures().values()):
        if not re.match(NAME, offer.name):
            raise PackageError(f"{offer} needs a name of letters, digits, dots, dashes, plus and underscores")


def missing_rules(conditions: Iterable[Condition]) -> list[str]:
    """Return a sentence about each extra whose rules some conditions need and that is not installed."""
    names = dict.fromkeys(condition.rules for condition in conditions if condition.rules)
    return [missing_extra(name) for name in names if name not in offers("condition")]


def find_scenarios(value: str | Sequence[str], where: str) -> list[str]:
    """Return the distinct short names of scenarios, a list or joined by commas, each short or long; raises SweepError."""
    names = split_names(value)
    if list(names) == ["all"]:
        return list(SCENARIOS)
    short_names = {**{name: name for name in (*SCENARIOS, *scenarios())}, **STEMS}
    return list(dict.fromkeys(short_names[find_name(name, short_names, "scenario", where)] for name in names))


def identities(names: Sequence[str]) -> dict[str, str]:
    """Return ``package@digest`` of those scenarios that packages offer; raises PackageError if one cannot be played."""
    offered = {name: offer for name, offer in scenarios().items() if name in names}
    for name in offered:
        _ = SCENARIOS[name]  # loads it
    return {name: offer.identity for name, offer in offered.items()}


def pin_policy(model: ModelSpec) -> ModelSpec:
    """Return the entry with its policy's package identity as revision; raises PackageError."""
    name = model.source.removeprefix(BUILTIN)
    offer = offers("policy").get(name)
    if offer is None or not model.source.startswith(BUILTIN):
        return model
    load_function("policy", name)
    return model.model_copy(update={"revision": offer.identity})


def versions() -> Mapping[str, str]:
    """Return the versions of the packages that shape a run: those of scenarios, conditions, policies and measures."""
    kinds = ("scenario", "condition", "policy", "measure")
    offered = (offer for kind in kinds for offer in offers(kind).values())
    return {offer.package: offer.version for offer in offered}


# -- models with weights --------------------------------------------------------------------------------------------------
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
