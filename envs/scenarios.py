"""Six of the seven scenarios, each as what differs from ``Scenario``; COCO, whose pictures are crops, is in ``envs.coco``."""

from envs.chance import chance
from envs.scenario import LastImageSettles, Ring, Scenario
from envs.stimulus import PROMPTS
from envs.types import Ending, ImageRef, Mode, Move, Sample, State

BROKEN, LEFT_OF_IT, RIGHT_OF_IT = "s6", "s5", "s7"
BROKEN_FILE = f"natural_bluebl_greenr-banana-{BROKEN}"
"""The one unreadable picture of ROD's published set; a neighbor replaces it (package: ``_fix_corruptions``)."""
LARGEST_VIEW = 1_000_000
"""Largest number of a view of MVP-N; a larger one is a mistake in the file."""
REWIND = "Rewind the video."
WAIT = "Wait for the"
VIDEO_CUE = {"rewind the video.": Move.REWIND, "wait for the": Move.WAIT}


class RealisticOcclusion(Ring):
    """Ask to move the colored blocks, which slide left or right around a ring of frames, then name the object behind them.

    Frame 0 is clear, and an episode starts at the frame that hides most. On the first turn no category counts, not even the
    right one.
    """

    name = "ROD"
    stem = "Realistic-Occlusion-Dataset"
    hint = PROMPTS["ROD_HINT"]
    reference_prompt = PROMPTS["ROD_REFERENCE"]
    reasoning = PROMPTS["ROD_REASONING"]
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


class VideoOcclusion(Ring):
    """Rewind or wait until nobody walks in front of the objects of the question, then answer; frames form a ring."""

    name = "VSOD"
    stem = "OcclusionDataSet-MM20"
    hint = PROMPTS["VSOD_HINT"]
    preface = PROMPTS["VIDEO_PREFACE"]
    cue = VIDEO_CUE
    back = Move.REWIND
    frame_digits = 4


class MultiView(LastImageSettles):
    """Rotate an object, seen from uninformative sides, until the last view, which is informative, then name it."""

    name = "MVP-N"
    stem = "MVP-N"
    hint = PROMPTS["MVPN_HINT"]
    reasoning = PROMPTS["MVPN_REASONING"]
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


class ImageQuality(LastImageSettles):
    """Name the flaw of a picture, corrupted at level 5, until it is clear enough, then name its object.

    Only a request for the right repair lowers the level by one.
    """

    name = "IN-C"
    stem = "ImageNet-C"
    hint = PROMPTS["INC_HINT"]
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
        asks, repair = super().askable(sample, state), sample.extra["quality_answer"]
        return (repair,) if asks and repair in sample.options else asks

    def advance(self, sample: Sample, state: State, move: Move) -> State:
        return state._replace(frame=state.frame - 1)

    def problems(self, sample: Sample) -> list[str]:
        repair = sample.extra.get("quality_answer")
        return [] if repair in sample.options else [f"quality_answer {repair!r} is not among the options"]


class QuickDraw(LastImageSettles):
    """Ask for more strokes, one per request, until the sketch is recognizable, then name it."""

    name = "QD"
    stem = "QuickDraw"
    hint = PROMPTS["QD_HINT"]
    frame_digits = 4
    cue = dict.fromkeys(("details", "quickdraw", "drawing", "sketch"), Move.DETAIL)

    def advance(self, sample: Sample, state: State, move: Move) -> State:
        return state._replace(frame=state.frame + 1)


class VideoChange(Scenario):
    """Rewind or wait, by ``step_size`` frames, until the object appears in the video, then name it.

    A move that would leave the video is not offered. Random-proactive offers every option, and leaving the video ends the
    episode.
    """

    name = "CIT"
    stem = "ChangeIt"
    hint = PROMPTS["CIT_HINT"]
    preface = PROMPTS["VIDEO_PREFACE"]
    cue = VIDEO_CUE

    def limit(self, sample: Sample) -> int:
        return int(sample.extra["max_steps"])

    def offered(self, sample: Sample, state: State) -> tuple[str, ...]:
        """Leave out the move that would leave the video; if both would, only rewinding, as in the package."""
        step = sample.extra["step_size"]
        if state.mode is Mode.RANDOM or step <= state.frame < sample.frames - step:
            return sample.options
        unavailable = REWIND if state.frame < step else next(option for option in sample.options if WAIT in option)
        options = list(sample.options)
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
