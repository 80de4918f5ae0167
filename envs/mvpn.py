"""MVP-N: an object seen from uninformative sides; each rotation shows the next view, and the last one is informative."""

from envs import stimulus
from envs.scenario import LastImageSettles
from envs.types import Mode, Move, Sample, State

LARGEST_VIEW = 1_000_000
"""Largest number of a view; a larger one is a mistake in the file."""


class MultiView(LastImageSettles):
    """Rotate until the informative view, then name the object."""

    name = "MVP-N"
    stem = "MVP-N"
    hint = stimulus.MVPN_HINT
    reasoning = stimulus.MVPN_REASONING
    example_edge = 112
    cue = dict.fromkeys(("rotate", "view", "angle", "orientation", "different"), Move.ROTATE)
    placeholders = ("informative", "image")

    def path(self, sample: Sample, state: State) -> str:
        informative = int(state.mode is Mode.REFERENCE or state.turn + 1 == sample.frames)
        return sample.image.format(informative=informative, image=f"{state.frame:04}")

    def advance(self, sample: Sample, state: State, move: Move) -> State:
        return state._replace(frame=self._views(sample)[state.turn])

    def problems(self, sample: Sample) -> list[str]:
        views = sample.extra.get("valid_images")
        if not isinstance(views, list) or not all(type(view) is int and 0 <= view <= LARGEST_VIEW for view in views):
            return [f"valid_images must be a list of whole numbers from 0 to {LARGEST_VIEW:,}"]
        if len(self._views(sample)) < sample.frames:
            return [f"valid_images names {len(views)} views, but num_images is {sample.frames}"]
        return []

    def _views(self, sample: Sample) -> list[int]:
        """Return the numbers of the views in order; an empty list in the file means all frames, as in the package."""
        views: list[int] = sample.extra["valid_images"]
        return views or list(range(sample.frames))
