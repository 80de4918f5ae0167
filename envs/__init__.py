"""The game: pure rules of the seven scenarios. ``SCENARIOS`` is the only registry; it also finds scenarios that packages add.

The rules are loaded when a name is first used, so that importing ``envs.errors`` alone takes no time.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from envs.registry import SCENARIOS, STEMS, in_paper_order, installed_scenarios, is_scenario
    from envs.scenario import Scenario

__all__ = ["SCENARIOS", "STEMS", "Scenario", "in_paper_order", "installed_scenarios", "is_scenario"]


def __getattr__(name: str) -> Any:
    """Return a name of ``envs.registry``."""
    if name not in __all__:
        raise AttributeError(f"module 'envs' has no attribute {name!r}")
    from envs import registry

    return getattr(registry, name)
