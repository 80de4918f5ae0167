"""The game: pure rules of the seven scenarios. ``SCENARIOS`` is the only registry; it also finds scenarios that packages add."""

from envs.registry import SCENARIOS, STEMS, in_paper_order, installed_scenarios
from envs.scenario import Scenario

__all__ = ["SCENARIOS", "STEMS", "Scenario", "in_paper_order", "installed_scenarios"]
