"""ChangeIt: a video that shows its object later or earlier; a move changes the frame by ``step_size``.

A move that would leave the video is not offered. Random-proactive offers every option, and leaving the video ends the episode.
"""

from envs import stimulus
from envs.scenario import Scenario
from envs.types import Ending, Mode, Move, Sample, State

REWIND = "Rewind the video."
WAIT = "Wait for the"


class VideoChange(Scenario):
    """Rewind or wait until the object appears, then name it."""

    name = "CIT"
    stem = "ChangeIt"
    hint = stimulus.CIT_HINT
    preface = stimulus.VIDEO_PREFACE
    cue = {"rewind the video.": Move.REWIND, "wait for the": Move.WAIT}

    def limit(self, sample: Sample) -> int:
        limit: int = sample.extra["max_steps"]
        return limit

    def offered(self, sample: Sample, state: State) -> tuple[str, ...]:
        """Leave out the move that would leave the video; if both would, only rewinding, as in the package."""
        if state.mode is Mode.RANDOM:
            return sample.options
        options, step = list(sample.options), sample.extra["step_size"]
        if state.frame - step < 0:
            unavailable = REWIND
        elif state.frame + step >= sample.frames:
            unavailable = next((option for option in options if WAIT in option), "")
        else:
            return sample.options
        if unavailable in options:
            options.remove(unavailable)
        return tuple(options)

    def advance(self, sample: Sample, state: State, move: Move) -> State:
        step = sample.extra["step_size"]
        frame = state.frame - step if move is Move.REWIND else state.frame + step
        if not 0 <= frame < sample.frames:
            return state._replace(ending=Ending.WRONG)
        return state._replace(frame=frame)

    def telling(self, sample: Sample, state: State) -> bool:
        """Return True if one more step would lead away from the reference frame."""
        distance = abs(state.frame - sample.reference_frame)
        return super().telling(sample, state) or 2 * distance <= sample.extra["step_size"]

    def towards(self, sample: Sample, state: State, asks: tuple[str, ...]) -> str:
        wanted = Move.REWIND if sample.reference_frame < state.frame else Move.WAIT
        return next((ask for ask in asks if self.move(ask) is wanted), asks[0])

    def problems(self, sample: Sample) -> list[str]:
        reasons = [
            f"{name} must be a whole number above 0"
            for name in ("step_size", "max_steps")
            if type(value := sample.extra.get(name)) is not int or value < 1
        ]
        if REWIND not in sample.options or not any(WAIT in option for option in sample.options):
            reasons.append(f"options must hold {REWIND!r} and one that says {WAIT!r}")
        return reasons
