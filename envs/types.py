"""The nouns of the game are frozen values: equal states replay to equal episodes, and every one of them pickles.

Vocabulary: ProactiveBench (arXiv 2603.19466) and the package ``proactivebench`` 0.1.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

Crop = tuple[float, float, float, float]
"""left, top, right, bottom in pixels of the original picture, not yet rounded."""


class Verdict(StrEnum):
    """The reading of a reply by one side, suggestions or categories (package: ``_evaluate``)."""

    CORRECT = "correct"
    WRONG = "wrong"
    """Names an option of this side, but none that is right now."""
    MISMATCH = "mismatch"
    """Names no option of this side."""


class Action(StrEnum):
    """The action of a reply, right or wrong (paper: action distributions)."""

    SUGGESTION = "suggestion"
    ABSTENTION = "abstention"
    CATEGORY = "category"
    UNPARSABLE = "unparsable"
    """Names nothing that was shown."""


class Ending(StrEnum):
    """The one word for how an episode ended."""

    CORRECT = "correct"
    """The right category was named when it could count."""
    WRONG = "wrong"
    """An abstention, a wrong category, an unreadable reply, or a random move that left the video."""
    LIMIT = "limit"
    """The last turn that the sample allows was spent on one more suggestion, whether it still counted or not."""
    OVERFLOW = "overflow"
    """The next prompt would outgrow the model (its context, or the pictures it takes): not answered rightly, and counted."""
    TRUNCATED = "truncated"
    """The last reply is empty because its tokens were spent (on hidden reasoning, say): not answered rightly, and counted."""
    UNPROCESSABLE = "unprocessable"
    """A picture could not be read, or the model's processor refused it."""
    ANSWERED = "answered"
    """Free text was given (open-ended generation); whether it is right is a judge's matter."""
    MAPPED = "mapped"
    """Every picture was asked about (condition every-frame): what it knew is no score, and the game gives no such ending."""
    REFUSED = "refused"
    """The provider declined to answer (content filter)."""
    FAILED = "failed"
    """The harness gave the episode up (a poison episode, a model that never loads); never a score."""


ERRORS = (Ending.UNPROCESSABLE, Ending.REFUSED, Ending.FAILED)
"""Endings that are no answer, in the order of their columns in every table; the game gives none of them."""
CUT_SHORT = (Ending.OVERFLOW, Ending.TRUNCATED)
"""Endings that a limit brought about: scored as not right, shown with the bound that they leave; the game gives none of them."""
UNSCORED = (*ERRORS, Ending.ANSWERED, Ending.MAPPED)
"""Endings that multiple choice does not score: free text is a judge's matter, a decision map has no single answer."""


class Mode(StrEnum):
    """The package's three games."""

    PLAY = "play"
    REFERENCE = "reference"
    """The clear image, categories only, one turn."""
    RANDOM = "random-proactive"
    """Suggestions of other scenarios are shown; choosing one makes a random admissible move."""


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
class Sample:
    """One validated line of a ``*_preprocessed.jsonl``; ``extra`` keeps every field not named here."""

    scenario: str
    id: int
    prompt: str
    options: tuple[str, ...]
    """Suggestions and one abstention, in the order to show."""
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
    """Scenario -> every suggestion that its file in the sample's data folder holds, sorted; None for a sample from no folder."""
    swapped: Swapped | None = field(default=None, compare=False, repr=False)
    """The picture that stands for its own under the condition ``swapped``; None where nothing is played under it."""


@dataclass(frozen=True, slots=True)
class ImageRef:
    """Names the pixels a model sees without holding them."""

    path: str
    """Relative to the data folder."""
    crop: Crop | None = None
    short_edge: int | None = None
    """Resize so that the shorter side has this many pixels; None keeps the size."""
    grey: bool = False
    """Every pixel is the same grey; file, crop and edge say the size alone."""

    @property
    def key(self) -> str:
        """A name that two references share only if they show the same pixels; empty for ``NO_PICTURE``."""
        crop = "" if self.crop is None else "@" + ",".join(map(repr, self.crop))
        edge = "" if self.short_edge is None else f"^{self.short_edge}"
        return f"{self.path}{crop}{'#grey' if self.grey else ''}{edge}"


NO_PICTURE = ImageRef("")
"""Stands where nothing is shown."""


class Swapped(NamedTuple):
    """The picture of another sample."""

    id: int
    """The other sample's, as ``digest`` is."""
    digest: str
    image: ImageRef


@dataclass(frozen=True, slots=True)
class View:
    """The model's input at one turn."""

    image: ImageRef
    """``NO_PICTURE`` where the question is asked without one."""
    prompt: str
    """Question with its pre-prompt and hint."""
    options: tuple[str, ...]
    """Suggestions and abstention offered now; empty in reference mode."""
    categories: tuple[str, ...]


class State(NamedTuple):
    """Where an episode stands; counts only, so that nothing drifts. A tuple, because one is made every turn."""

    frame: int
    turn: int = 0
    """Answers given so far."""
    last: Move | None = None
    across: int = 0
    """Horizontal moves made (COCO)."""
    along: int = 0
    """Vertical moves made (COCO)."""
    mode: Mode = Mode.PLAY
    seed: int = 0
    ending: Ending | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """One answered question."""

    frame: int
    reply: str
    option: Verdict
    category: Verdict
    action: Action
    move: Move | None
    """The move that a right suggestion stands for, also when the turn limit kept it from being made."""


@dataclass(frozen=True, slots=True)
class JudgedTurn:
    """One open-ended answer of several, and what a judge made of it."""

    turn: Turn
    """The game's reading of ``option``; its ``reply`` is the model's own text."""
    option: str
    """The option that the answer stands for (``envs.dialogue.option_from_marks``), empty where it names none."""
    judged: str
    """The judge's reply."""


@dataclass(frozen=True, slots=True)
class CalledTurn:
    """One reply that calls a function, and the option that the call stands for."""

    turn: Turn
    """The game's reading of ``option``; ``reply`` is the model's own text or calls (``envs.tool_calls.encode_calls``)."""
    option: str
    """Empty where the call is malformed (``envs.tool_calls.called_option``)."""


@dataclass(frozen=True, slots=True)
class OpenAnswer:
    """One open-ended answer, its reasoning included; no rule reads it."""

    frame: int
    reply: str
