"""Realistic-Occlusion-Dataset: colored blocks hide an object and slide left or right around a ring of frames.

Frame 0 is clear, and an episode starts at the frame that hides most. On the first turn no category counts, not even the right
one.
"""

from envs import stimulus
from envs.chance import chance
from envs.scenario import Ring
from envs.types import ImageRef, Mode, Move, Sample, State

BROKEN, LEFT_OF_IT, RIGHT_OF_IT = "s6", "s5", "s7"
BROKEN_FILE = f"natural_bluebl_greenr-banana-{BROKEN}"
"""The one unreadable picture of the published set; a neighbor replaces it (package: ``_fix_corruptions``)."""


class RealisticOcclusion(Ring):
    """Ask to move the blocks, then name the object behind them."""

    name = "ROD"
    stem = "Realistic-Occlusion-Dataset"
    hint = stimulus.ROD_HINT
    reference_prompt = stimulus.ROD_REFERENCE
    reasoning = stimulus.ROD_REASONING
    example_edge = 512
    cue = {"to the left": Move.LEFT, "to the right": Move.RIGHT}
    back = Move.LEFT

    def answerable(self, sample: Sample, state: State) -> bool:
        return state.turn > 0 or state.mode is Mode.REFERENCE

    def image(self, sample: Sample, state: State) -> ImageRef:
        path = self.path(sample, state)
        if BROKEN_FILE in path:
            path = path.replace(BROKEN, LEFT_OF_IT if state.last is Move.LEFT else RIGHT_OF_IT)
        return ImageRef(path)

    def lesson(self, sample: Sample, state: State, seed: int) -> str:
        """Return a suggestion, drawn by seed, on the first turn; then the category, even if the frame is not clear yet."""
        if self.answerable(sample, state):
            return sample.answer
        return chance(seed, self.name, sample.id, "lesson").choice(self.askable(sample, state))
