"""ImageNet-C: a corrupted picture at level 5; only a request for the right repair lowers the level by one."""

from envs import stimulus
from envs.scenario import LastImageSettles, suggestions
from envs.types import Move, Sample, State


class ImageQuality(LastImageSettles):
    """Name the flaw until the picture is clear enough, then name its object."""

    name = "IN-C"
    stem = "ImageNet-C"
    hint = stimulus.INC_HINT
    cue = {
        "brightness": Move.BRIGHTNESS,
        "contrast": Move.CONTRAST,
        "saturation": Move.SATURATION,
        "deblur": Move.DEBLUR,
        "denoise": Move.DENOISE,
        "compression": Move.DECOMPRESS,
        "resolution": Move.RESOLUTION,
        "artifacts": Move.ARTIFACTS,
    }
    placeholders = ("level",)

    def path(self, sample: Sample, state: State) -> str:
        return sample.image.format(level=state.frame)

    def askable(self, sample: Sample, state: State) -> tuple[str, ...]:
        """Return the repair that the entry names; if it is not among the options (random-proactive), every suggestion."""
        if state.turn + 1 >= sample.frames:
            return ()
        repair = sample.extra["quality_answer"]
        return (repair,) if repair in sample.options else suggestions(sample.options)

    def advance(self, sample: Sample, state: State, move: Move) -> State:
        return state._replace(frame=state.frame - 1)

    def problems(self, sample: Sample) -> list[str]:
        repair = sample.extra.get("quality_answer")
        return [] if repair in sample.options else [f"quality_answer {repair!r} is not among the options"]
