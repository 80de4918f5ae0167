"""Entries and samples of the demo benchmark, with every published field of their scenario."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any

from PIL import Image

from envs import SCENARIOS
from envs.chance import chance
from envs.samples import paper_ids
from proactive_demo.drawing.categories import choices

STEMS = {name: scenario.stem for name, scenario in SCENARIOS.items()}
"""Scenario -> name of its published file and folder (package: ``get_environment``)."""
ABSTENTIONS = (
    "I cannot answer this question.", "I cannot tell.", "I do not know.", "I cannot say what it is.",
    "I do not know the answer.",
)  # fmt: skip

Box = tuple[float, float, float, float]
"""left, top, right, bottom in pixels."""


@dataclass(frozen=True, slots=True)
class DemoSample:
    """One sample in memory."""

    scenario: str
    entry: dict[str, Any]
    """The JSONL line."""
    views: Mapping[str, Any]
    """Path relative to the data folder -> what ``paint`` and ``share`` take."""
    paint: Callable[[Any], Image.Image]
    """Returns the RGB picture of a view; nothing is painted before it is asked for."""
    share: Callable[[Any], float]
    """Returns the share of the object that the uncropped picture shows, 0 to 1."""
    object_box: Box | None = None
    """The object's position in the scenario whose views are crops (COCO)."""

    def picture(self, path: str) -> Image.Image:
        """Paint the picture of a path."""
        return self.paint(self.views[path])

    def view_visibility(self, path: str, crop: Box | None = None) -> float:
        """Return how informative a view is, 0 to 1: for a crop, the share of the object's box inside it."""
        if crop is None or self.object_box is None:
            return self.share(self.views[path])
        left, top, right, bottom = self.object_box
        width = max(0.0, min(right, crop[2]) - max(left, crop[0]))
        height = max(0.0, min(bottom, crop[3]) - max(top, crop[1]))
        return width * height / ((right - left) * (bottom - top))


def purpose_rng(scenario: str, index: int, seed: int, purpose: str) -> Random:
    """Return the generator for one purpose of one demo sample."""
    return chance(seed, f"demo/{scenario}", index, purpose)


def published_id(scenario: str, index: int) -> int:
    """Return the id of the ``index``-th sample that the published filter keeps; past the last, ids repeat."""
    ids = published_ids()[scenario]
    return ids[index % len(ids)]


@cache
def published_ids() -> dict[str, list[int]]:
    """Return the ids of the published filter by scenario, sorted."""
    return {scenario: sorted(ids) for scenario, ids in paper_ids().items()}


def slug(category: str) -> str:
    """Return the category's name as a part of a path."""
    return category.lower().replace(" ", "_")


@dataclass(frozen=True, slots=True)
class DemoQuestion:
    """The question about the pictures, and the possible replies."""

    prompt: str
    suggestions: tuple[str, ...]
    answer: str
    """A category's name, without the final dot."""
    categories: tuple[str, ...] | None = None
    """The four options; None draws them among the category names."""


def entry(
    number: int, template: str, first: int, images: int, reference: int, question: DemoQuestion, rng: Random, **extra: Any
) -> dict[str, Any]:  # fmt: skip
    """Return the line of one sample; ``extra`` holds the fields that only this scenario has."""
    options = [*question.suggestions, rng.choice(ABSTENTIONS)]
    rng.shuffle(options)
    categories = choices(question.answer, rng) if question.categories is None else list(question.categories)
    return {
        "id": number,
        "image_template": template,
        "first_image": first,
        "num_images": images,
        "prompt": question.prompt,
        "options": options,
        "categories": categories,
        "answer": f"{question.answer}.",
        "reference_image": reference,
        **extra,
    }
