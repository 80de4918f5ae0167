"""An entry holds every published field of its scenario, worded so that each suggestion means exactly one move."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from PIL import Image

from envs.chance import chance
from envs.demo.categories import choices

STEMS = {
    "ROD": "Realistic-Occlusion-Dataset",
    "VSOD": "OcclusionDataSet-MM20",
    "MVP-N": "MVP-N",
    "IN-C": "ImageNet-C",
    "QD": "QuickDraw",
    "CIT": "ChangeIt",
    "COCO": "coco2014",
}
"""Scenario -> name of its published file and folder (package: ``get_environment``)."""
ABSTENTIONS = (
    "I cannot answer this question.",
    "I cannot tell.",
    "I do not know.",
    "I cannot say what it is.",
    "I do not know the answer.",
)

Box = tuple[float, float, float, float]
"""left, top, right, bottom in pixels."""
Seen = TypeVar("Seen")


class Lazily(Mapping[str, Seen]):
    """A mapping whose values are made anew at each look-up, so that a sample costs nothing until it is looked at."""

    def __init__(self, keys: Mapping[str, Any], make: Callable[[Any], Seen]) -> None:
        self._keys, self._make = keys, make

    def __getitem__(self, path: str) -> Seen:
        return self._make(self._keys[path])

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)


@dataclass(frozen=True, slots=True)
class DemoSample:
    """One sample in memory."""

    scenario: str
    entry: dict[str, Any]
    """The JSONL line."""
    frames: Mapping[str, Image.Image]
    """Path relative to the data folder -> RGB picture, painted when looked up."""
    visibility: Mapping[str, float]
    """The same paths -> how telling the whole picture is: 0 shows nothing of the object, 1 all of it."""
    object_box: Box | None = None
    """Where the object lies, in pixels, for the scenario whose views are crops (COCO)."""

    def view_visibility(self, path: str, crop: Box | None = None) -> float:
        """Return how informative a view is, 0 to 1: for a crop, the share of the object's box inside it."""
        if crop is None or self.object_box is None:
            return self.visibility[path]
        left, top, right, bottom = self.object_box
        wide = max(0.0, min(right, crop[2]) - max(left, crop[0]))
        high = max(0.0, min(bottom, crop[3]) - max(top, crop[1]))
        return wide * high / ((right - left) * (bottom - top))


def purpose_rng(scenario: str, index: int, seed: int, what: str) -> Random:
    """The generator for one purpose of one demo sample."""
    return chance(seed, f"demo/{scenario}", index, what)


def published_id(scenario: str, index: int) -> int:
    """The id of the ``index``-th sample that the published filter keeps; past the last they begin again."""
    ids = published_ids()[scenario]
    return ids[index % len(ids)]


@cache
def published_ids() -> dict[str, list[int]]:
    """Scenario -> ids of the published filter (package: ``data_utils.FILTER``)."""
    listed = json.loads((Path(__file__).parents[1] / "kept_ids.json").read_text("utf-8"))
    return {scenario: listed[scenario] for scenario in STEMS}


@dataclass(frozen=True, slots=True)
class DemoQuestion:
    """The question about the pictures, and the possible replies."""

    prompt: str
    suggestions: tuple[str, ...]
    answer: str
    """A category's name, without the dot."""
    categories: tuple[str, ...] | None = None
    """The four options; drawn among the category names when None."""


def entry(
    number: int,
    template: str,
    first: int,
    images: int,
    reference: int,
    question: DemoQuestion,
    rng: Random,
    **more: Any,
) -> dict[str, Any]:
    """The line of one sample; ``more`` holds the fields that only this scenario has."""
    options = [*question.suggestions, rng.choice(ABSTENTIONS)]
    rng.shuffle(options)
    listed = choices(question.answer, rng) if question.categories is None else list(question.categories)
    return {
        "id": number,
        "image_template": template,
        "first_image": first,
        "num_images": images,
        "prompt": question.prompt,
        "options": options,
        "categories": listed,
        "answer": f"{question.answer}.",
        "reference_image": reference,
        **more,
    }
