"""Seeded random entries of all seven scenarios and random replies: plain, awkward and hostile. Standard library only."""

from __future__ import annotations

from random import Random
from typing import Any

SCENARIOS = ("ROD", "VSOD", "MVP-N", "IN-C", "QD", "CIT", "COCO")

CATEGORIES = (
    "Banana.", "Baseball.", "Skillet.", "Screwdriver.", "20.", "1.", "14.", "A.", "b.", "U.S. flag.", "Salt, pepper.",
    "Café au lait.", "Señor K.", "Kelvin.", "ice cream.", "Ice Cream Cone.", "T.V. set.", "X-ray.", "Übung.", "猫.",
)  # fmt: skip
PROMPTS = (
    "What is it?",
    "Qu'est-ce que c'est ? ",
    "Given the context, what do you expect is behind the blue blocks?",
    "何ですか?",
)
ABSTENTIONS = ("I cannot answer this question.", "I do not know.", "I CANNOT tell.", "I do not know the answer. Sorry.")
SUGGESTIONS: dict[str, tuple[str, ...]] = {
    "ROD": ("Move the blue blocks to the left.", "Move the blue blocks to the right."),
    "VSOD": ("Rewind the video.", "Wait for the occlusion to disappear."),
    "MVP-N": ("Rotate the object.", "Change the view.", "Show a different angle.", "Change its orientation."),
    "IN-C": (
        "Reduce the brightness.", "Increase the contrast.", "Lower the saturation.", "Deblur the image.",
        "Denoise the image.", "Undo the compression.", "Raise the resolution.", "Remove the artifacts.",
    ),
    "QD": ("Add more details.", "Continue the drawing.", "Finish the sketch.", "Complete the QuickDraw."),
    "CIT": ("Rewind the video.", "Wait for the object to appear."),
    "COCO": (),
}  # fmt: skip
DIRECTIONS = ("left", "right", "up", "down", "up_left", "up_right", "down_left", "down_right", "zoom")
CAMERA = {
    "left": "Move the camera to the left.", "right": "Move the camera to the right.", "up": "Move the camera up.",
    "down": "Move the camera down.", "zoom": "Move farther from the object.",
}  # fmt: skip
ODD = (
    "", " ", "\n", ".", "..", "#", "A", "a.", "(A)", "**B**", "Answer: C", "B)", "D .", " c ", "Z", "AA", "[", "I",
    "\u212a", "\u0130.",
    "\uff21", "e\u0301", "A.\u00a0Banana.", "Sure! The answer is B. Banana.", "B. C. D. Banana", "x" * 3000, "Banana", "BANANA",
    "ba na na .", "A. \n\nBanana.", "\nA. Banana.", "Banana.\nBecause it is yellow.", "1", "0.", "\x00",
    "I cannot answer this question",
)  # fmt: skip


def entry(rng: Random, scenario: str, number: int) -> dict[str, Any]:
    """One entry that the package can play from its first state."""
    categories = rng.sample(CATEGORIES, 4)
    frames = rng.choice((1, 2, 3, 4, 5, 6, 8, 14, 24, 40))
    base = {
        "id": number,
        "image_template": f"{scenario}/x{number}/s{{image}}.jpg",
        "first_image": rng.randrange(frames),
        "num_images": frames,
        "reference_image": rng.randrange(frames),
        "prompt": rng.choice(PROMPTS),
        "options": _options(rng, SUGGESTIONS[scenario]),
        "categories": categories,
        "answer": rng.choice(categories),
    }
    return {**base, **_SPECIAL[scenario](rng, base)}


def _options(rng: Random, suggestions: tuple[str, ...]) -> list[str]:
    options = (
        [*rng.sample(suggestions, rng.randint(1, len(suggestions))), rng.choice(ABSTENTIONS)] if suggestions else []
    )
    rng.shuffle(options)
    return options


def _rod(rng: Random, base: dict[str, Any]) -> dict[str, Any]:
    if rng.random() < 0.3:
        frames = rng.choice((8, 14))
        path = "Realistic-Occlusion-Dataset/rod_3/banana/natural_bluebl_greenr-banana-s{image}.jpg"
        return {
            "image_template": path,
            "num_images": frames,
            "first_image": rng.choice((5, 6, 7)),
            "reference_image": 0,
        }
    return {"attribute": "brownc"}


def _vsod(rng: Random, base: dict[str, Any]) -> dict[str, Any]:
    return {"strong_occlusions": rng.random() < 0.8}


def _mvpn(rng: Random, base: dict[str, Any]) -> dict[str, Any]:
    views = [rng.randrange(200) for _ in range(base["num_images"] + rng.randrange(3))]
    return {
        "valid_images": views if rng.random() < 0.95 else [],
        "first_image": views[0],
        "image_template": f"MVP-N/{base['id']}/{{informative}}/{{image}}.png",
    }


def _inc(rng: Random, base: dict[str, Any]) -> dict[str, Any]:
    frames = rng.randint(1, 5)
    repairs = [option for option in base["options"] if option in SUGGESTIONS["IN-C"]]
    return {
        "num_images": frames,
        "first_image": rng.randint(frames, 5),
        "reference_image": 1,
        "image_template": f"ImageNet-C/{{level}}/{base['id']}.JPEG",
        "quality_answer": rng.choice(repairs),
    }


def _qd(rng: Random, base: dict[str, Any]) -> dict[str, Any]:
    return {"first_image": 0, "reference_image": base["num_images"] - 1}


def _cit(rng: Random, base: dict[str, Any]) -> dict[str, Any]:
    step = rng.choice((1, 2, 5, 9))
    frames = step * rng.randint(2, 9) + rng.randrange(step)
    options = [*SUGGESTIONS["CIT"], rng.choice(ABSTENTIONS)]
    rng.shuffle(options)
    ends = (0, frames - 1, rng.randrange(frames))
    return {
        "num_images": frames, "step_size": step, "max_steps": rng.randint(1, 20), "first_image": rng.choice(ends),
        "reference_image": rng.randrange(frames), "options": options,
    }  # fmt: skip


def _coco(rng: Random, base: dict[str, Any]) -> dict[str, Any]:
    direction = rng.choice(DIRECTIONS)
    options = [*(text for word, text in CAMERA.items() if word in direction), rng.choice(ABSTENTIONS)]
    rng.shuffle(options)

    def length(most: float) -> float:
        return rng.choice((rng.randint(1, int(most)), rng.uniform(0.1, most), most / 3, most / 7))

    left, top = length(300), length(300)
    zoom = direction == "zoom"
    return {
        "image_template": "coco2014/val2014/COCO_val2014_000000000042.jpg", "first_image": 0, "num_images": 1,
        "reference_image": 0, "options": options, "direction": direction, "granularity": rng.randint(1, 10),
        "horizontal_step": length(40), "vertical_step": length(40),
        "crop": {
            "top": top, "left": left, "height": length(200) + (0 if zoom else top), "width": length(200) + (0 if zoom else left),
        },
    }  # fmt: skip


_SPECIAL = {"ROD": _rod, "VSOD": _vsod, "MVP-N": _mvpn, "IN-C": _inc, "QD": _qd, "CIT": _cit, "COCO": _coco}


def reply(rng: Random, shown: list[str], answer: str, bold: float) -> str:
    """A reply to what is shown; with probability ``bold`` it is one of the suggestions, so that long episodes arise."""
    asks = [o for o in shown[:-4] if "cannot" not in o.lower() and "do not" not in o.lower()]
    roll = rng.random()
    if asks and roll < bold:
        meant = rng.choice(asks)
    elif roll < bold + (1 - bold) * 0.3:
        meant = answer
    elif roll < bold + (1 - bold) * 0.6:
        meant = rng.choice(shown)
    else:
        return rng.choice(ODD) if rng.random() < 0.6 else f"{chr(65 + rng.randrange(30))}. {rng.choice(shown)}"
    mark = chr(65 + shown.index(meant))
    forms = (
        meant,
        mark,
        f"{mark}.",
        f"{mark}. {meant}",
        meant.lower(),
        f"  {meant.upper()} ",
        mark.lower(),
        f"{mark}. ",
        f"{meant}\n",
    )
    return rng.choice(forms)
