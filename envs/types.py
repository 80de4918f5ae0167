"""The types of the game: frozen values that pickle; equal states and replies give equal episodes.

Vocabulary: ProactiveBench (arXiv 2603.19466) and the package ``proactivebench`` 0.1.1.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

Crop = tuple[float, float, float, float]
"""left, top, right, bottom in pixels of the original picture, before rounding."""


class Verdict(StrEnum):
    """The reading of a reply against one side, suggestions or categories (package: ``_evaluate``)."""

    CORRECT = "correct"
    WRONG = "wrong"
    """The reply names an option of this side that is incorrect at this state."""
    MISMATCH = "mismatch"
    """The reply names no option of this side."""


class Action(StrEnum):
    """The action of a reply, right or wrong (paper: action distributions)."""

    SUGGESTION = "suggestion"
    ABSTENTION = "abstention"
    CATEGORY = "category"
    UNPARSABLE = "unparsable"
    """The reply names no option of the view."""


class Ending(StrEnum):
    """How an episode ended."""

    CORRECT = "correct"
    """The reply named the right category at a turn where categories count."""
    WRONG = "wrong"
    """An abstention, a wrong category, an unreadable reply, or a random move that left the video."""
    LIMIT = "limit"
    """The reply of the last turn that the sample allows was a suggestion, valid or not."""
    OVERFLOW = "overflow"
    """The next prompt would exceed the model's context or number of pictures; scored as wrong."""
    TRUNCATED = "truncated"
    """The last reply is empty because it used up its tokens (for example on hidden reasoning); scored as wrong."""
    THOUGHTS_CUT = "thoughts_cut"
    """The last reply has thoughts and no answer: they used up their tokens, or were never closed; scored as wrong."""
    UNPROCESSABLE = "unprocessable"
    """A picture is unreadable, or the model's processor refused it."""
    ANSWERED = "answered"
    """Free text (open-ended generation), which a judge scores."""
    MAPPED = "mapped"
    """The model was asked about every picture (condition every-frame), which has no score; no rule gives this ending."""
    REFUSED = "refused"
    """The provider declined to answer (content filter)."""
    FAILED = "failed"
    """The harness gave up the episode (it kills its workers, or its model never loads); never scored."""


ERRORS = (Ending.UNPROCESSABLE, Ending.REFUSED, Ending.FAILED)
"""Endings without an answer, in the order of their columns in every table; no rule of the game gives them."""
CUT_SHORT = (Ending.OVERFLOW, Ending.TRUNCATED, Ending.THOUGHTS_CUT)
"""Endings at a limit of the model: scored as wrong, reported with the highest accuracy that the cell could have without them;
no rule of the game gives them."""
UNSCORED = (*ERRORS, Ending.ANSWERED, Ending.MAPPED)
"""Endings that multiple choice does not score: a judge scores free text, and a decision map has no single answer."""


class Mode(StrEnum):
    """The package's three games."""

    PLAY = "play"
    REFERENCE = "reference"
    """The clear image, categories only, one turn."""
    RANDOM = "random-proactive"
    """The view offers suggestions of other scenarios; choosing one makes a random admissible move."""


class Move(StrEnum):
    """The environment's response to a suggestion (package: ``action_map``)."""

    LEFT = "left"
    RIGHT = "right"
    REWIND = "rewind"
    WAIT = "wait"
    ROTATE = "rotate"
    BRIGHTNESS = "brightness"
    CONTRAST = "contrast"
    SATURATION = "saturation"
    DEBLUR = "deblur"
    DENOISE = "denoise"
    DECOMPRESS = "decompress"
    RESOLUTION = "resolution"
    ARTIFACTS = "artifacts"
    DETAIL = "detail"
    UP = "up"
    DOWN = "down"
    ZOOM = "zoom"


@dataclass(frozen=True, slots=True)
class ImageRef:
    """A reference to the pixels a model sees."""

    path: str
    """Relative to the data folder."""
    crop: Crop | None = None
    short_edge: int | None = None
    """Resize so that the shorter side has this many pixels; None keeps the size."""
    grey: bool = False
    """True makes every pixel the same gray; file, crop and edge only determine the size."""

    @property
    def key(self) -> str:
        """Return a text that identifies the pixels; empty for ``NO_PICTURE``."""
        crop = "" if self.crop is None else "@" + ",".join(map(repr, self.crop))
        edge = "" if self.short_edge is None else f"^{self.short_edge}"
        return f"{self.path}{crop}{'#grey' if self.grey else ''}{edge}"


NO_PICTURE = ImageRef("")
"""The reference of a view without a picture."""


class Swapped(NamedTuple):
    """The first picture of another sample."""

    id: int
    """Id of the other sample."""
    digest: str
    """``Sample.digest`` of the other sample."""
    image: ImageRef


@dataclass(frozen=True, slots=True)
class Sample:
    """One validated line of a ``*_preprocessed.jsonl``; ``extra`` holds the other fields."""

    scenario: str
    id: int
    prompt: str
    options: tuple[str, ...]
    """Suggestions and one abstention, in the order in which they are shown."""
    categories: tuple[str, ...]
    answer: str
    image: str
    """Path template relative to the data folder."""
    first_frame: int
    frames: int
    reference_frame: int
    extra: Mapping[str, Any] = field(default_factory=dict)
    digest: str = ""
    """Hash of the line's content, 16 hex digits: part of an episode's key."""
    suggestion_pool: Mapping[str, tuple[str, ...]] | None = field(default=None, compare=False, repr=False)
    """Scenario -> every suggestion in the sample's data folder, sorted; None for a sample without a folder."""
    swapped: Swapped | None = field(default=None, compare=False, repr=False)
    """The picture that replaces the sample's own under the condition ``swapped``."""


class View(NamedTuple):
    """The model's input at one turn."""

    image: ImageRef
    """``NO_PICTURE`` for a question without a picture."""
    prompt: str
    """Question with its preface and hint."""
    options: tuple[str, ...]
    """Suggestions and abstention; empty in reference mode."""
    categories: tuple[str, ...]


class State(NamedTuple):
    """The state of an episode. It counts moves instead of adding up distances, so that rounding errors cannot grow."""

    frame: int
    turn: int = 0
    """Answers given so far."""
    last: Move | None = None
    across: int = 0
    """Horizontal moves so far (COCO)."""
    along: int = 0
    """Vertical moves so far (COCO)."""
    mode: Mode = Mode.PLAY
    seed: int = 0
    ending: Ending | None = None


class Turn(NamedTuple):
    """One answered question."""

    frame: int
    reply: str
    """The model's text, or its calls (``envs.tool_calls.encode_calls``)."""
    option: Verdict
    category: Verdict
    action: Action
    move: Move | None
    """The move of a right suggestion, even if the turn limit prevented it; None for any other reply."""
    read_as: str | None = None
    """The option that a judge or a function call maps the reply to, empty if none; None if the game reads the reply itself."""
    judged: str | None = None
    """The judge's reply about one answer of several."""


class OpenAnswer(NamedTuple):
    """One open-ended answer, its reasoning included; no rule of the game reads it."""

    frame: int
    reply: str
