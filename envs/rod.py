"""Realistic-Occlusion-Dataset: coloured blocks hide an object; they slide left or right round a ring of frames.

Frame 0 is clear, the first frame is the most hidden. On the first turn no category counts, not even the right one.
"""

from __future__ import annotations

from envs.scenario import Ring
from envs.types import ImageRef, Mode, Move, Sample, State

BROKEN, LEFT_OF_IT, RIGHT_OF_IT = "s6", "s5", "s7"
BROKEN_FILE = f"natural_bluebl_greenr-banana-{BROKEN}"
"""The one unreadable picture of the published set; a neighbour stands in for it (package: ``_fix_corruptions``)."""


class RealisticOcclusion(Ring):
    """Ask for the blocks to be moved, then name what is behind."""

    name = "ROD"
    stem = "Realistic-Occlusion-Dataset"
    hint = "Hint: moving the occluding object might reveal what is behind it."
    reference_prompt = "What type of object is in the image?"
    cue = {"to the left": Move.LEFT, "to the right": Move.RIGHT}
    back = Move.LEFT

    def answerable(self, sample: Sample, state: State) -> bool:
        return state.turn > 0 or state.mode is Mode.REFERENCE

    def image(self, sample: Sample, state: State) -> ImageRef:
        path = self.path(sample, state)
        if BROKEN_FILE in path:
            path = path.replace(BROKEN, LEFT_OF_IT if state.last is Move.LEFT else RIGHT_OF_IT)
        return ImageRef(path)
