"""What installed packages offer through entry points: parts of the game, and extras of this program.

Names come from metadata; a package is imported only when one of its offers is used.
"""

import importlib.util
import sys
import tomllib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from envs import regular
from envs.errors import UserError

OFFERED_BY_EXTRAS: dict[str, list[str]] = tomllib.loads(Path(__file__).with_name("extras.toml").read_text("utf-8"))
LARGEST = 1 << 26
"""Most bytes of one file in a package's digest."""


class PackageError(UserError, ValueError):
    """An installed package that cannot be used."""


@dataclass(frozen=True)
class Offer:
    """One entry point of an installed package."""

    kind: str
    """scenario, policy, measure, condition, model, sweep, command, table, result, export or bridge"""
    name: str
    package: str
    """The name of the distribution, as pip lists it."""
    version: str
    entry: EntryPoint

    def __str__(self) -> str:
        return f"the {self.kind} {self.name!r} of the installed package {self.package} {self.version}"

    def load(self) -> Any:
        """Import the object of the entry point; raises PackageError if that fails."""
        try:
            return self.entry.load()
        except Exception as problem:  # a foreign module may raise anything
            reason = f"{type(problem).__name__}: {problem}".partition("\n")[0]
            raise PackageError(f"{self} cannot be imported from {self.entry.value} ({reason})") from problem

    @property
    def identity(self) -> str:
        """Return ``package@digest`` for keys. The digest covers every file of the top-level module, 16 hex digits."""
        digest = blake2b(digest_size=8)
        for name, path in _package_files(self):
            digest.update(f"{name}\0{path.stat().st_size}\0".encode())
            digest.update(regular.read_bytes(path, LARGEST))
        return f"{self.package}@{digest.hexdigest()}"


def install_line(extra: str) -> str:
    """Return what to type to install a package of extras/, from a clone or an index."""
    return f"`pip install -e extras/{extra}` in a clone, or `pip install 'proactive-sweep[{extra}]'`"


def missing_extra(name: str) -> str:
    """Return a sentence about the extra that offers a model, sweep, condition or table; empty if none does."""
    extra = next((extra for extra, names in OFFERED_BY_EXTRAS.items() if name in names), "")
    return f"{name} comes with the extra {extra}, which is not installed: {install_line(extra)}" if extra else ""


def offers(kind: str, taken: Collection[str] = ()) -> dict[str, Offer]:
    """Return the offers of a kind by name, sorted; raises PackageError for a name that is ``taken`` or offered twice."""
    by_name: dict[str, Offer] = {}
    for offer in _find_offers(kind, tuple(sys.path)):
        if offer.name in taken:
            raise PackageError(f"{offer} has a name that is taken here; rename it in that package, or uninstall it")
        if other := by_name.get(offer.name):
            raise PackageError(f"{offer} has the name of one of {other.package}; uninstall one of the two packages")
        by_name[offer.name] = offer
    return dict(sorted(by_name.items()))


@lru_cache(maxsize=16)
def _find_offers(kind: str, path: tuple[str, ...]) -> tuple[Offer, ...]:
    """Return the offers on this path; cached because reading them takes tens of milliseconds."""
    plural = {"policy": "policies"}.get(kind, f"{kind}s")
    entries = ((entry, entry.dist) for entry in entry_points(group=f"proactive_sweep.{plural}"))
    return tuple(Offer(kind, entry.name, package.name, package.version, entry) for entry, package in entries if package)


def find_offer(kind: str, name: str, identity: str = "") -> Offer:
    """Return the offer of this name; raises PackageError if no installed package has it.

    Also if the package on this machine has another identity than ``identity``; empty allows any.
    """
    by_name = offers(kind)
    if name not in by_name:
        missing = f"there is no {kind} {name!r} here: its package is not installed on this machine"
        raise PackageError(missing_extra(name) or missing)
    offer = by_name[name]
    if identity and identity != offer.identity:
        remedy = "install the same package on every node"
        raise PackageError(f"{offer} is {offer.identity} here, and the sweep is played with {identity}; {remedy}")
    return offer


def load_function(kind: str, name: str, identity: str = "") -> Any:
    """Import an installed policy or measure; raises PackageError if it is not a function, and as ``find_offer`` does."""
    offer = find_offer(kind, name, identity)
    function = offer.load()
    if not callable(function) or isinstance(function, type):
        raise PackageError(f"{offer} is {describe_kind(function)}; a {kind} is a function (docs/own-package.md)")
    return function


def describe_kind(value: object) -> str:
    """Describe a value for messages: ``the class Game`` or ``of the type str``."""
    return f"the class {value.__name__}" if isinstance(value, type) else f"of the type {type(value).__name__}"


def _package_files(offer: Offer) -> Iterator[tuple[str, Path]]:
    """Yield the source files of the entry point's top-level module, sorted, with their relative names."""
    offer.load()
    spec = importlib.util.find_spec(offer.entry.module.partition(".")[0])
    folders = list(spec.submodule_search_locations or ()) if spec else []
    if not folders and spec and spec.origin:
        yield Path(spec.origin).name, Path(spec.origin)
    for folder in map(Path, folders):
        for path in sorted(folder.rglob("*")):
            name = path.relative_to(folder).as_posix()
            if path.is_file() and not any(mark in name for mark in ("__pycache__", ".pyc", ".pyo")):
                yield name, path
