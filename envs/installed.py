"""Scenarios, policies and measures that installed packages offer through entry points, by name.

What is offered is told from metadata alone; a package's code is imported only when something of it is used.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from pathlib import Path
from typing import Any

from envs import regular
from envs.errors import UserError

GROUPS = {
    "scenario": "proactive_sweep.scenarios",
    "policy": "proactive_sweep.policies",
    "measure": "proactive_sweep.measures",
}
"""Kind -> the group of its entry points."""
SHAPES = {
    "policy": "a function of (Situation, seed) that gives the reply",
    "measure": "a function of (episodes, turns) that gives a frame of key and value",
}
"""Kind -> what its entry points must name."""
LARGEST = 1 << 26
"""Bytes of one file of a package that are read for its digest."""
COMPILED = ("__pycache__", ".pyc", ".pyo")


class PackageError(UserError, ValueError):
    """An installed package that cannot be used."""


@dataclass(frozen=True)
class Offer:
    """One entry point of an installed package."""

    kind: str
    name: str
    package: str
    """Name of the distribution, as pip lists it."""
    version: str
    entry: EntryPoint

    def __str__(self) -> str:
        return f"the {self.kind} {self.name!r} of the installed package {self.package} {self.version}"

    def load(self) -> Any:
        """Import what the entry point names; raises PackageError if that fails."""
        try:
            return self.entry.load()
        except Exception as problem:  # whatever a foreign module raises when it is imported
            told = f"{type(problem).__name__}: {problem}".partition("\n")[0]
            raise PackageError(f"{self} cannot be imported from {self.entry.value} ({told})") from problem

    @property
    def identity(self) -> str:
        """``package@digest``: what goes into keys. The digest is of every file of the top-level module, 16 hex digits."""
        return f"{self.package}@{_digest(self)}"


def offers(kind: str, taken: Collection[str] = ()) -> dict[str, Offer]:
    """Name -> what installed packages offer of a kind, sorted.

    Raises PackageError for a name that is ``taken``, or that two packages offer.
    """
    found: dict[str, Offer] = {}
    for entry in _entries(GROUPS[kind], tuple(sys.path)):
        package, version = (entry.dist.name, entry.dist.version) if entry.dist else ("without a name", "")
        offer = Offer(kind, entry.name, package, version, entry)
        if entry.name in taken:
            raise PackageError(f"{offer} has a name that is taken here; rename it in that package, or uninstall it")
        if entry.name in found:
            raise PackageError(f"{offer} has the name of one of {found[entry.name].package}; uninstall one of the two")
        found[entry.name] = offer
    return dict(sorted(found.items()))


@lru_cache(maxsize=16)
def _entries(group: str, path: tuple[str, ...]) -> EntryPoints:
    """The entry points of a group, of the packages on this path: reading them takes tens of milliseconds."""
    return entry_points(group=group)


def find_offer(kind: str, name: str) -> Offer:
    """Return what an installed package offers under a name; raises PackageError if none does."""
    found = offers(kind)
    if name not in found:
        raise PackageError(
            f"there is no {kind} {name!r} here: the package that offers it is not installed on this machine"
        )
    return found[name]


def load_function(kind: str, name: str, identity: str = "") -> Any:
    """An installed policy or measure, ready to be called.

    Raises PackageError where it is no function, or where ``identity`` is given and the package on this machine is another.
    """
    offer = find_offer(kind, name)
    found = offer.load()
    if not callable(found) or isinstance(found, type):
        raise PackageError(f"{offer} is {describe_kind(found)}; a {kind} is {SHAPES[kind]}")
    require_identity(offer, identity)
    return found


def require_identity(offer: Offer, identity: str) -> None:
    """Raise PackageError where ``identity`` is given, and the package on this machine has other files."""
    if identity and identity != offer.identity:
        raise PackageError(
            f"{offer} is {offer.identity} on this machine, and the sweep is played with {identity}; "
            "install the same package on every node"
        )


def describe_kind(found: object) -> str:
    """``the class Thing`` or ``of the type str``, as a sentence says it."""
    return f"the class {found.__name__}" if isinstance(found, type) else f"of the type {type(found).__name__}"


def _digest(offer: Offer) -> str:
    found = blake2b(digest_size=8)
    for name, path in _files(offer):
        found.update(f"{name}\0{path.stat().st_size}\0".encode())
        found.update(regular.read_bytes(path, LARGEST))
    return found.hexdigest()


def _files(offer: Offer) -> Iterator[tuple[str, Path]]:
    """The files of the entry point's top-level module, by name and sorted; compiled ones are left out."""
    offer.load()
    spec = importlib.util.find_spec(offer.entry.module.partition(".")[0])
    places = list(spec.submodule_search_locations or ()) if spec else []
    if not places and spec and spec.origin:
        yield Path(spec.origin).name, Path(spec.origin)
    for place in map(Path, places):
        for path in sorted(place.rglob("*")):
            if path.is_file() and not any(mark in path.as_posix() for mark in COMPILED):
                yield path.relative_to(place).as_posix(), path
