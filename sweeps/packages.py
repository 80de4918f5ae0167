"""Names of installed packages in a sweep: scenarios, policies and measures (``envs.installed``).

The files of a package are part of the keys of what is played with them; every complaint is one sentence.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from envs import SCENARIOS, STEMS
from envs import installed_scenarios as scenarios
from envs.installed import GROUPS, Offer, PackageError, load_function, offers
from sweeps.spec import ModelSpec
from sweeps.values import NAME

BUILTIN = "builtin:"
"""Prefix of the source of a policy or model that needs no download."""
COLUMNS = frozenset((
    "model", "scenario", "condition", "protocol", "cell", "planned", "finished", "scored", "correct", "correct_first",
    "errors", "unprocessable", "refused", "failed", "overflow", "truncated", "acc", "acc_low", "acc_high", "acc_bound",
    "acc_first", "ps", "loops", "loops_bound", "turns", "share_suggestion", "share_abstention", "share_category",
    "share_unparsable", "prompt_tokens", "reply_tokens", "cost", "prompt_cached", "pictures_cached", "gpu_hours", "kwh",
    "answered", "judged", "unjudged", "judge", "category", "suggestion", "aggregate", "lacking",
))  # fmt: skip
"""Columns of the results, and so no name for a measure (a test holds the list to ``orchestrator.report.scores.metrics``)."""


def policies(taken: Collection[str] = ()) -> dict[str, Offer]:
    """Name -> the policy that an installed package offers; raises PackageError for a name that is ``taken``."""
    return offers("policy", taken)


def measures() -> dict[str, Offer]:
    """Name -> the measure that an installed package offers; raises PackageError for the name of a column of the results."""
    return offers("measure", COLUMNS)


def check_packages(taken: Collection[str]) -> None:
    """Raise PackageError where an installed package offers a name that is taken here, or that is no name; nothing is imported.

    ``taken`` are the names of models and policies that ship.
    """
    for offer in (*scenarios().values(), *policies(taken).values(), *measures().values()):
        if not re.match(NAME, offer.name):
            raise PackageError(f"{offer} needs a name of letters, digits, dots, dashes, plus and underscores")


def scenario_names() -> dict[str, str]:
    """Every name that a scenario may be given by -> its short name."""
    return {**{name: name for name in (*SCENARIOS, *scenarios())}, **STEMS}


def identities(names: Sequence[str]) -> dict[str, str]:
    """Scenario -> ``package@digest``, of those that a package offers; raises PackageError where one cannot be played."""
    found = {name: offer for name, offer in scenarios().items() if name in names}
    return {name: offer.identity for name, offer in found.items() if SCENARIOS[name]}


def pin_policy(model: ModelSpec) -> ModelSpec:
    """The entry with the identity of the package that offers its policy as revision; raises PackageError."""
    name = model.source.removeprefix(BUILTIN)
    offer = policies().get(name)
    if offer is None or not model.source.startswith(BUILTIN):
        return model
    load_function("policy", name)
    return model.model_copy(update={"revision": offer.identity})


def policy_model(name: str) -> ModelSpec | None:
    """The model entry that is an installed policy by its name; None where no package offers it."""
    if name not in policies():
        return None
    return pin_policy(ModelSpec(name=name, source=f"{BUILTIN}{name}", backend="builtin"))


def versions() -> Mapping[str, str]:
    """Installed package that offers something -> its version."""
    return {offer.package: offer.version for kind in GROUPS for offer in offers(kind).values()}
