"""The game: pure rules of the seven scenarios. ``SCENARIOS`` is the only registry."""

from envs.changeit import VideoChange
from envs.coco import CameraMoves
from envs.imagenetc import ImageQuality
from envs.mvpn import MultiView
from envs.quickdraw import QuickDraw
from envs.rod import RealisticOcclusion
from envs.scenario import Scenario
from envs.vsod import VideoOcclusion

SCENARIOS: dict[str, Scenario] = {
    scenario.name: scenario
    for scenario in (
        RealisticOcclusion(),
        VideoOcclusion(),
        MultiView(),
        ImageQuality(),
        QuickDraw(),
        VideoChange(),
        CameraMoves(),
    )
}
"""Short name -> rules, in the paper's order."""

STEMS: dict[str, str] = {scenario.stem: name for name, scenario in SCENARIOS.items()}
"""Long name (file stem) -> short name."""
