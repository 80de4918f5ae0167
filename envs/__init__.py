"""The game: pure rules of the seven scenarios. ``SCENARIOS`` is the only registry; it finds those of installed packages too."""

from collections.abc import Iterable
from pathlib import Path

from envs.changeit import VideoChange
from envs.coco import CameraMoves
from envs.imagenetc import ImageQuality
from envs.installed import Offer, PackageError, describe_kind, find_offer, offers
from envs.mvpn import MultiView
from envs.quickdraw import QuickDraw
from envs.rod import RealisticOcclusion
from envs.scenario import Scenario
from envs.vsod import VideoOcclusion


class Scenarios(dict[str, Scenario]):
    """Short name -> rules. It holds the paper's seven; asked for another name, it looks among installed packages."""

    def __missing__(self, name: str) -> Scenario:
        """The rules that an installed package offers under this name; raises PackageError where there are none."""
        if name not in _installed:
            _installed[name] = _made(find_offer("scenario", name))
        return _installed[name]


SCENARIOS = Scenarios(
    (scenario.name, scenario)
    for scenario in (
        RealisticOcclusion(),
        VideoOcclusion(),
        MultiView(),
        ImageQuality(),
        QuickDraw(),
        VideoChange(),
        CameraMoves(),
    )
)
"""Short name -> rules, in the paper's order; ``in`` and iteration are of these seven alone."""

STEMS: dict[str, str] = {scenario.stem: name for name, scenario in SCENARIOS.items()}
"""Long name (file stem) -> short name."""

_installed: dict[str, Scenario] = {}


def installed_scenarios() -> dict[str, Offer]:
    """Short name -> the scenario that an installed package offers; raises PackageError where a name is taken."""
    return offers("scenario", {*SCENARIOS, *STEMS})


def is_scenario(name: object) -> bool:
    """Return True if a scenario has this short name, here or in an installed package."""
    return name in SCENARIOS or name in _installed or name in installed_scenarios()


def in_paper_order(names: Iterable[str]) -> list[str]:
    """The names that occur, each once: the paper's in its order, then the others by name."""
    found = set(names)
    return [name for name in SCENARIOS if name in found] + sorted(found - SCENARIOS.keys())


def _made(offer: Offer) -> Scenario:
    """The rules of an entry point; raises PackageError where it names something else, or a file of another scenario."""
    found = offer.load()
    if not isinstance(found, type) or not issubclass(found, Scenario):
        raise PackageError(f"{offer} is {describe_kind(found)}; a scenario is a subclass of envs.Scenario")
    lacks = [name for name in ("name", "stem", "hint", "cue") if not hasattr(found, name)]
    if lacks:
        raise PackageError(f"{offer} says no {lacks[0]}; the class {found.__name__} must")
    if found.name != offer.name:
        raise PackageError(f"{offer} calls itself {found.name!r} in its class {found.__name__}; make the two names one")
    if found.stem in STEMS or Path(found.stem).name != found.stem:
        raise PackageError(f"{offer} reads {found.stem}_preprocessed.jsonl; its stem must be a file name of its own")
    return found()
