"""ChangeIt: a video in which the object is not there yet, or no longer; the frame moves by ``step_size``.

A move that would leave the video is not offered. In random-proactive everything is offered, and leaving the video ends
the episode.
"""

from __future__ import annotations

from collections.abc import Callable

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
        """Without the move that would leave the video; at both ends only rewinding is missing, as in the package."""
        if state.mode is Mode.RANDOM:
            return sample.options
        step = sample.extra["step_size"]
        if state.frame - step < 0:
            return _without(sample.options, lambda option: option == REWIND)
        if state.frame + step >= sample.frames:
            return _without(sample.options, lambda option: WAIT in option)
        return sample.options

    def advance(self, sample: Sample, state: State, move: Move) -> State:
        step = sample.extra["step_size"]
        frame = state.frame - step if move is Move.REWIND else state.frame + step
        if not 0 <= frame < sample.frames:
            return state._replace(ending=Ending.WRONG)
        return state._replace(frame=frame)

    def telling(self, sample: Sample, state: State) -> bool:
        """Return True if one more step would lead away from the reference frame."""
        away = abs(state.frame - sample.reference_frame)
        return super().telling(sample, state) or 2 * away <= sample.extra["step_size"]

    def towards(self, sample: Sample, state: State, asks: tuple[str, ...]) -> str:
        wanted = Move.REWIND if sample.reference_frame < state.frame else Move.WAIT
        return next((ask for ask in asks if self.move(ask) is wanted), asks[0])

    def problems(self, sample: Sample) -> list[str]:
        found = [
            f"{name} must be a whole number above 0" for name in ("step_size", "max_steps") if not _counts(sample, name)
        ]
        if REWIND not in sample.options or not any(WAIT in option for option in sample.options):
            found.append(f"options must hold {REWIND!r} and one that says {WAIT!r}")
        return found


def _counts(sample: Sample, name: str) -> bool:
    value = sample.extra.get(name)
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _without(options: tuple[str, ...], unwanted: Callable[[str], bool]) -> tuple[str, ...]:
    """The options less the first unwanted one."""
    found = next((index for index, option in enumerate(options) if unwanted(option)), len(options))
    return options[:found] + options[found + 1 :]
