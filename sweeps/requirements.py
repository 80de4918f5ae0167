"""Packages that a model needs in versions of its own: the ``requirements`` of its entry."""

from collections.abc import Sequence

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

SHARED = frozenset({"ray", "proactive-sweep"})
"""Packages that workers must have in the driver's version, because the driver sends them objects of these packages."""


def wrong_requirement(requirements: Sequence[str], unsafe: bool) -> str:
    """Return why a model cannot have these requirements; empty if it can. ``unsafe`` admits direct addresses."""
    for text in requirements:
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            return (
                f'{text!r} is no requirement such as "transformers==5.18.0"; options, files and paths are not read'
                " (PIP_INDEX_URL and PIP_FIND_LINKS name other indexes)"
            )
        if requirement.url and not unsafe:
            return f"{text!r} is installed from an address that nobody checked; name a release, or write unsafe_options = true"
        if canonicalize_name(requirement.name) in SHARED:
            return f"{text!r} must have the same version on driver and workers; leave it out"
    return ""


def requirement_names(requirements: Sequence[str]) -> tuple[str, ...]:
    """Return the names of valid requirements."""
    return tuple(canonicalize_name(Requirement(text).name) for text in requirements)
