"""The game: pure rules of the seven scenarios. ``SCENARIOS`` is the only registry; it also finds scenarios that packages add."""

from collections.abc import Collection, Iterable
from functools import cache
from pathlib import Path

from envs.coco import CameraMoves
from envs.installed import Offer, PackageError, describe_kind, find_offer, offers
from envs.scenario import Scenario
from envs.scenarios import ImageQuality, MultiView, QuickDraw, RealisticOcclusion, VideoChange, VideoOcclusion

__all__ = ["SCENARIOS", "STEMS", "Scenario", "in_paper_order", "installed_scenarios"]


class Scenarios(dict[str, Scenario]):
    """Short name -> rules. It holds the paper's seven, and looks for any other name among installed packages."""

    def __missing__(self, name: str) -> Scenario:
        """Return the rules that an installed package offers under this name; raises PackageError if no package does."""
        return _load_scenario(name)


_PAPERS = (RealisticOcclusion, VideoOcclusion, MultiView, ImageQuality, QuickDraw, VideoChange, CameraMoves)
SCENARIOS = Scenarios((scenario.name, scenario()) for scenario in _PAPERS)
"""Short name -> rules, in the paper's order; ``in`` and iteration cover these seven only."""

STEMS: dict[str, str] = {scenario.stem: name for name, scenario in SCENARIOS.items()}
"""Long name (file stem) -> short name."""


def installed_scenarios() -> dict[str, Offer]:
    """Return the scenarios that installed packages offer by short name; raises PackageError if a name is taken."""
    return offers("scenario", {*SCENARIOS, *STEMS})


def in_paper_order(names: Iterable[str], order: Collection[str] = SCENARIOS) -> list[str]:
    """Return the distinct names: the paper's in its ``order``, then the others by name."""
    distinct = set(names)
    return [name for name in order if name in distinct] + sorted(distinct.difference(order))


@cache
def _load_scenario(name: str) -> Scenario:
    offer = find_offer("scenario", name)
    scenario = offer.load()
    if not isinstance(scenario, type) or not issubclass(scenario, Scenario):
        raise PackageError(f"{offer} is {describe_kind(scenario)}; a scenario is a subclass of envs.Scenario")
    is_complete = all(hasattr(scenario, name) for name in ("stem", "hint", "cue"))
    has_own_file = is_complete and scenario.stem not in STEMS and Path(scenario.stem).name == scenario.stem
    if not has_own_file or getattr(scenario, "name", "") != offer.name:
        parts = f"a hint, a cue, the name {offer.name!r} and a stem, which is a file name that no other scenario has"
        raise PackageError(f"{offer} cannot be played: its class {scenario.__name__} must have {parts}")
    return scenario()
