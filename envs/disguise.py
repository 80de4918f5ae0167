"""The suggestions of random-proactive: each is replaced by one of another scenario that this one cannot carry out.

Drawn by (seed, sample), so it is the same for every model. The package leaves open how invalid suggestions are drawn; the
paper's example is "rewind the video" for a sketch.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from envs import SCENARIOS
from envs.chance import chance
from envs.scenario import suggestions
from envs.types import Sample

FOREIGN: dict[str, tuple[str, ...]] = {
    "ROD": ("Move the blocks to the left.", "Move the blocks to the right."),
    "VSOD": ("Rewind the video.", "Wait for the occlusion to disappear."),
    "MVP-N": ("Rotate the object.", "Change the viewpoint."),
    "IN-C": (
        "Adjust the brightness.",
        "Adjust the contrast.",
        "Adjust the saturation.",
        "Deblur the image.",
        "Denoise the image.",
        "Remove the compression.",
        "Increase the resolution.",
    ),
    "QD": ("Add more details to the image.",),
    "CIT": ("Rewind the video.", "Wait for the object to appear."),
    "COCO": (
        "Move the camera to the left.",
        "Move the camera to the right.",
        "Move the camera up.",
        "Move the camera down.",
        "Move farther from the object.",
    ),
}
"""Scenario -> suggestions in the published wording's style, each of which that scenario can carry out."""


@cache
def invalid(scenario: str, source: str | None = None) -> tuple[str, ...]:
    """Suggestions of other scenarios (or of ``source`` alone) that mean nothing in this one; KeyError if it is unknown."""
    others = [name for name in SCENARIOS if name != scenario] if source is None else [source]
    texts = dict.fromkeys(text for name in others for text in FOREIGN[name] if name != scenario)
    return tuple(text for text in texts if not any(cue in text.lower() for cue in SCENARIOS[scenario].cue))


def disguised(sample: Sample, seed: int, source: str | None = None) -> Sample:
    """The sample with every suggestion replaced; abstention and order of places stay.

    Raises ValueError when ``source`` has too few suggestions that are invalid here.
    """
    asks = suggestions(sample.options)
    pool = invalid(sample.scenario, source)
    if len(pool) < len(asks):
        raise ValueError(
            f"{source or 'the rest'} has {len(pool)} suggestions that mean nothing in {sample.scenario}, "
            f"but its sample {sample.id} needs {len(asks)}"
        )
    drawn = iter(chance(seed, sample.scenario, sample.id, "disguise").sample(pool, len(asks)))
    return replace(sample, options=tuple(next(drawn) if option in asks else option for option in sample.options))
