"""IN-C: a picture spoiled at level 5 gains a level of quality per request, and level 1 is plain."""

from __future__ import annotations

from PIL import Image

from envs.demo.categories import cycle_category, drawing
from envs.demo.corruptions import CORRUPTIONS
from envs.demo.entries import STEMS, DemoQuestion, DemoSample, Lazily, entry, published_id, purpose_rng
from envs.demo.painting import paint, place_sprite
from envs.demo.scenes import backdrop

SIDE, LEVELS = 160, 5
VISIBILITY = (1.0, 0.85, 0.5, 0.2, 0.0)
"""How informative quality levels 1 to 5 are."""
PROMPTS = ("What is in the image?", "What type of object is in the image?", "Which object do you see in this image?")


def quality(index: int, seed: int) -> DemoSample:
    """One sample of five levels; the suggestions are three enhancements, of which one helps."""
    rng = purpose_rng("IN-C", index, seed, "picture")
    name, kinds = cycle_category("IN-C", index, seed), list(CORRUPTIONS)
    kind = kinds[(index + index // len(kinds)) % len(kinds)]
    size = rng.randint(84, 116)
    corner = (rng.randint(8, SIDE - size - 8), rng.randint(8, SIDE - size - 8))
    plain = place_sprite(backdrop(rng, (SIDE, SIDE)), paint(drawing(name, rng), size), corner)
    number, remedy = published_id("IN-C", index), CORRUPTIONS[kind].suggestion
    others = rng.sample([c.suggestion for c in CORRUPTIONS.values() if c.suggestion != remedy], 2)
    thing = name.lower().replace(" ", "_")
    template = f"{STEMS['IN-C']}/{kind}/{{level}}/{thing}/val_{number:08d}.JPEG"
    question = DemoQuestion(rng.choice(PROMPTS), (remedy, *others), name)
    line = entry(number, template, LEVELS, LEVELS, 1, question, rng, quality_answer=remedy)
    levels = {template.format(level=level): level for level in range(1, LEVELS + 1)}

    def frame(level: int) -> Image.Image:
        return CORRUPTIONS[kind].apply(plain, level, purpose_rng("IN-C", index, seed, f"level {level}"))

    return DemoSample("IN-C", line, Lazily(levels, frame), Lazily(levels, lambda level: VISIBILITY[level - 1]))
