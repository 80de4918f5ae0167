"""Scenarios, policies and measures of installed packages in a sweep (``envs.installed``).

The files of a package are part of the keys of cells that use it.
"""

import re
from collections.abc import Collection, Mapping, Sequence

from envs import SCENARIOS, STEMS
from envs import installed_scenarios as scenarios
from envs.installed import Offer, PackageError, load_function, offers
from sweeps.package_models import BUILTIN
from sweeps.spec import ModelSpec
from sweeps.validation import find_name
from sweeps.values import NAME, read_table

SHAPING = ("scenario", "policy", "measure")
"""Kinds of offers whose packages' versions a run records."""
RESULT_COLUMNS = read_table("result_columns.toml")
"""Column of the results -> its meaning; also with ``_low`` and ``_high``, no measure may have it as its name."""


def policies(taken: Collection[str] = ()) -> dict[str, Offer]:
    """Return the policies that installed packages offer by name; raises PackageError for a name that is ``taken``."""
    return offers("policy", taken)


def measures() -> dict[str, Offer]:
    """Return the measures that installed packages offer by name; raises PackageError for the name of a result column."""
    return offers("measure", {f"{name}{end}" for name in RESULT_COLUMNS for end in ("", "_low", "_high")})


def check_packages(taken: Collection[str]) -> None:
    """Raise PackageError if a package offers an invalid name, or one that is ``taken`` by a model or policy that ships."""
    for offer in (*scenarios().values(), *policies(taken).values(), *measures().values()):
        if not re.match(NAME, offer.name):
            raise PackageError(f"{offer} needs a name of letters, digits, dots, dashes, plus and underscores")


def find_scenarios(value: str | Sequence[str], where: str) -> list[str]:
    """Return the distinct short names of scenarios given by short or long names, a text by commas; raises SweepError."""
    names = value.split(",") if isinstance(value, str) else list(value)
    if names == ["all"]:
        return list(SCENARIOS)
    short_names = {**{name: name for name in (*SCENARIOS, *scenarios())}, **STEMS}
    return list(dict.fromkeys(short_names[find_name(name, short_names, "scenario", where)] for name in names))


def identities(names: Sequence[str]) -> dict[str, str]:
    """Return ``package@digest`` of those scenarios that packages offer; raises PackageError if one cannot be played."""
    return {name: offer.identity for name, offer in scenarios().items() if name in names and SCENARIOS[name]}


def pin_policy(model: ModelSpec) -> ModelSpec:
    """Return the entry with its policy's package identity as revision; raises PackageError."""
    name = model.source.removeprefix(BUILTIN)
    offer = policies().get(name)
    if offer is None or not model.source.startswith(BUILTIN):
        return model
    load_function("policy", name)
    return model.model_copy(update={"revision": offer.identity})


def versions() -> Mapping[str, str]:
    """Return the versions of the packages that offer something."""
    return {offer.package: offer.version for kind in SHAPING for offer in offers(kind).values()}
