"""The suggestions of random-proactive: each is replaced by one of another scenario that this one cannot carry out.

Drawn by (seed, sample) from the suggestions that the data folder holds, so it is the same for every model. The package leaves
open how invalid suggestions are drawn; the paper's example is "rewind the video" for a sketch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

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
"""For samples that come from no data folder (tests, the training of our own model): suggestions in the published style."""

Known = Mapping[str, tuple[str, ...]]
"""Scenario -> suggestions that it can carry out."""


def invalid_suggestions(scenario: str, known: Known, source: str | None = None) -> Known:
    """Other scenario (or ``source`` alone) -> its suggestions that mean nothing in this one; those without any are missing."""
    return _invalid(scenario, tuple(known.items()), source)


@lru_cache(maxsize=256)
def _invalid(scenario: str, known: tuple[tuple[str, tuple[str, ...]], ...], source: str | None) -> Known:
    """Every sample of a scenario has the same."""
    others = {name: texts for name, texts in known if name != scenario and source in (None, name)}
    cues = SCENARIOS[scenario].cue
    kept = {
        name: tuple(t for t in texts if not any(cue in t.lower() for cue in cues)) for name, texts in others.items()
    }
    return {name: kept[name] for name in SCENARIOS if kept.get(name)}


def replace_suggestions(sample: Sample, seed: int, source: str | None = None) -> Sample:
    """The sample with every suggestion replaced; abstention and order of places stay.

    A scenario is drawn first and then one of its suggestions, so that one with many wordings does not crowd out the others.
    Raises ValueError when there are too few suggestions that are invalid here.
    """
    asks = suggestions(sample.options)
    pool = invalid_suggestions(
        sample.scenario, FOREIGN if sample.suggestion_pool is None else sample.suggestion_pool, source
    )
    left = {name: list(texts) for name, texts in pool.items()}
    if (number := len({text for texts in pool.values() for text in texts})) < len(asks):
        raise ValueError(
            f"{source or 'the rest'} has {number} suggestions that mean nothing in {sample.scenario}, "
            f"but its sample {sample.id} needs {len(asks)}; random-proactive takes them from the other scenarios' files"
        )
    draw = chance(seed, sample.scenario, sample.id, "disguise")
    drawn: list[str] = []
    while len(drawn) < len(asks):
        name = draw.choice(sorted(left))
        text = left[name].pop(draw.randrange(len(left[name])))
        drawn += [text] if text not in drawn else []
        left = {other: texts for other, texts in left.items() if texts}
    stand_ins = iter(drawn)
    return replace(sample, options=tuple(next(stand_ins) if option in asks else option for option in sample.options))
