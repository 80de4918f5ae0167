"""Other wordings of the benchmark's message and hints, for replicates: how much does accuracy depend on them?

The sentences are ours; options, and the question that comes with a sample, stay unchanged. Published strings are in
``envs.stimulus``. Changing a sentence changes the keys of the episodes that use it.
"""

from collections.abc import Mapping
from typing import Annotated, NamedTuple

from pydantic import Field, field_validator

from envs import SCENARIOS, stimulus
from sweeps.values import Frozen

QUESTION, OPTIONS = "{question}", "{options}"
"""Placeholders of a template."""
Text = Annotated[str, Field(max_length=10_000)]
FIRST_OWN = 11
"""Number of a user's first own wording; lower numbers are ours."""


def check_template(value: str) -> str:
    """Return the template unchanged; raises ValueError unless it holds each placeholder once."""
    if not all(value.count(part) == 1 for part in (QUESTION, OPTIONS)):
        raise ValueError(f"must hold {QUESTION} and {OPTIONS} once each")
    return value


class Wording(Frozen):
    """A wording of the message and, for conditions with hints, of the hints."""

    template: Text
    """The message with ``{question}`` and ``{options}``."""
    hints: Mapping[str, Text] = {}
    """Scenario -> the sentence that replaces each of its hints; other scenarios keep the published hints."""

    @field_validator("template")
    @classmethod
    def _check_template(cls, value: str) -> str:
        return check_template(value)

    @field_validator("hints")
    @classmethod
    def _check_hints(cls, value: Mapping[str, str]) -> Mapping[str, str]:
        if unknown := sorted(value.keys() - SCENARIOS.keys()):
            raise ValueError(f"{unknown[0]} is no scenario; type {', '.join(SCENARIOS)}")
        return value

    def hint_wordings(self) -> dict[str, str]:
        """Return published hint -> its wording here."""
        return {hint: text for name, text in self.hints.items() for hint in _published_hints(name)}


class _Advice(NamedTuple):
    """The parts of a published hint."""

    condition: str
    """A clause that limits the advice, with its comma; empty if there is none."""
    verb: str
    gerund: str
    effect: str


_CLASSIFY = "help with classification"
_ADVICE = {
    stimulus.ROD_HINT: _Advice("", "move the occluding object", "moving the occluding object", "reveal what is behind it"),
    stimulus.VSOD_HINT: _Advice(
        "if there is an occlusion, ", "wait for it to disappear or rewind the video",
        "waiting for it to disappear or rewinding the video", "reveal what is behind it",
    ),
    stimulus.MVPN_HINT: _Advice("", "rotate the object", "rotating the object", "provide a more informative view"),
    stimulus.INC_HINT: _Advice("", "enhance the image quality", "enhancing the image quality", _CLASSIFY),
    stimulus.QD_HINT: _Advice("", "add more details to the quickdraw", "adding more details to the quickdraw", _CLASSIFY),
    stimulus.CIT_HINT: _Advice(
        "if you cannot answer the question, ", "wait for it to appear or rewind the video",
        "waiting for it to appear or rewinding the video", _CLASSIFY,
    ),
    stimulus.COCO_HINT: _Advice("", "move the camera", "moving the camera", _CLASSIFY),
    stimulus.COCO_ZOOM_HINT: _Advice("", "zoom out", "zooming out", _CLASSIFY),
}  # fmt: skip
"""Published hint -> its parts."""

_SHIPPED = (
    ("{question} Select one of these options.\n{options}Reply with one option only and no other words.",
     "Tip: {condition}{gerund} may {effect}."),
    ("Here is a question. {question}\nOptions:\n{options}Answer with exactly one of the options and nothing else.",
     "Hint: {condition}you may want to {verb}, which could {effect}."),
    ("{question} Which of the following is your answer?\n{options}Return just one option, without further text.",
     "Note that {condition}{gerund} could {effect}."),
    ("Question: {question}\nChoices:\n{options}Give only one of the choices as your answer.",
     "Hint: {condition}one could {verb} to {effect}."),
    ("{question}\nPick one of the options below:\n{options}Write one option and nothing more.",
     "Keep in mind: {condition}{gerund} might {effect}."),
    ("Please answer this question: {question} Here are your options:\n{options}Respond with a single option and no explanation.",
     "Hint: {condition}one way to {effect} is to {verb}."),
    ("{question} The possible answers are:\n{options}State only one of them, without any other words.",
     "Remember that {condition}{gerund} can {effect}."),
    ("Consider this question: {question} Decide between these options.\n{options}Output one of the options only.",
     "Advice: {condition}consider {gerund}; it may {effect}."),
)  # fmt: skip
"""Template, and frame of the hints, of each of our wordings."""
SHIPPED = len(_SHIPPED)


def shipped_wording(number: int) -> tuple[str, dict[str, str]]:
    """Return the template of our wording ``number`` (1 to ``SHIPPED``), and its hints by published hint."""
    template, frame = _SHIPPED[number - 1]
    return template, {hint: frame.format(**advice._asdict()) for hint, advice in _ADVICE.items()}


def _published_hints(scenario: str) -> tuple[str, ...]:
    if scenario == "COCO":
        return stimulus.COCO_HINT, stimulus.COCO_ZOOM_HINT
    return (SCENARIOS[scenario].hint,)
