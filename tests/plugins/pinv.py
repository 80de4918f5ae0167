"""A benchmark of verification as a plugin: is this the user's own object? One may ask to turn it until its mark is seen."""

import json
from pathlib import Path

from PIL import Image, ImageDraw

from actors.engine.backend import Situation
from envs.openended import accepted_answers
from envs.scenario import Ring, suggestions
from envs.types import Move

SIDES = 4
YES, NO = "Yes, it is yours.", "No, it is another one."


class Verification(Ring):
    """Turn the object until the side with its mark is seen, then say whether it is the user's."""

    name = "PINV"
    stem = "PInVerify"
    hint = "Hint: turning the object could show its mark."
    back = Move.LEFT
    cue = {"left": Move.LEFT, "right": Move.RIGHT}


def look_around(now: Situation, seed: int) -> str:
    """Turn right until every side was seen, then say yes: it is right for half of the samples."""
    asks = suggestions(now.view.options)
    return asks[-1] if asks and now.state.turn + 1 < SIDES else YES


def literal_judge(now: Situation, seed: int) -> str:
    """Mark each accepted answer whose words the model's answer has."""
    said = now.answer.lower()
    return str([int(answer.lower() in said) for answer in accepted_answers(now.sample)])


def describe(now: Situation, seed: int) -> str:
    """Ask in a sentence about even samples, and say yes about the others."""
    return f"Please {suggestions(now.view.options)[0]}" if now.sample.id % 2 == 0 else YES


def draw(folder: Path, samples: int) -> None:
    """Draw a mark on the third side: a circle on the user's objects, a cross on the others."""
    lines = []
    for number in range(samples):
        (folder / f"PInVerify/{number}").mkdir(parents=True)
        for side in range(SIDES):
            picture = Image.new("RGB", (64, 64), (90, 90, 40 * side))
            if side == 2:
                pen = ImageDraw.Draw(picture)
                pen.line((20, 20, 44, 44), "white", 4) if number % 2 else pen.ellipse((20, 20, 44, 44), "white")
            picture.save(folder / f"PInVerify/{number}/{side}.png")
        lines.append(json.dumps({
            "id": number, "prompt": "Is this your mug?", "categories": [YES, NO], "answer": NO if number % 2 else YES,
            "options": ["Turn it to the left.", "Turn it to the right.", "I cannot answer this question."],
            "image_template": f"PInVerify/{number}/{{image}}.png", "first_image": 0, "num_images": SIDES, "reference_image": 2,
        }))  # fmt: skip
    (folder / "PInVerify_preprocessed.jsonl").write_text("\n".join(lines) + "\n")
