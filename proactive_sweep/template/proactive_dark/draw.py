"""Draws the data: ``python -m proactive_dark.draw FOLDER`` writes pictures and one line a sample, in the published format."""

import json
import sys
from pathlib import Path

from PIL import Image, ImageDraw

SHAPES = {"Circle.": "ellipse", "Square.": "rectangle"}
STEPS, SIZE = 4, 96


def draw(folder: Path, samples: int = 12) -> None:
    """Write ``DarkRoom_preprocessed.jsonl`` and ``STEPS`` pictures a sample, from black to bright."""
    lines = []
    for number in range(samples):
        answer = list(SHAPES)[number % len(SHAPES)]
        place = folder / "DarkRoom" / f"{number:04d}"
        place.mkdir(parents=True, exist_ok=True)
        for step in range(STEPS):
            _picture(answer, number, step).save(place / f"{step}.png")
        lines.append(json.dumps(_line(number, answer)))
    (folder / "DarkRoom_preprocessed.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _line(number: int, answer: str) -> dict[str, object]:
    return {
        "id": number,
        "prompt": "What stands in the room?",
        "options": ["Turn up the light.", "I cannot answer this question."],
        "categories": list(SHAPES),
        "answer": answer,
        "image_template": f"DarkRoom/{number:04d}/{{image}}.png",
        "first_image": 0,
        "num_images": STEPS,
        "reference_image": STEPS - 1,
    }


def _picture(answer: str, number: int, step: int) -> Image.Image:
    light = 255 * step // (STEPS - 1)
    picture = Image.new("RGB", (SIZE, SIZE))
    left = 16 + number * 3 % 24
    getattr(ImageDraw.Draw(picture), SHAPES[answer])((left, 24, left + 40, 64), fill=(light, light, light // 2))
    return picture


if __name__ == "__main__":
    draw(Path(sys.argv[1]))
