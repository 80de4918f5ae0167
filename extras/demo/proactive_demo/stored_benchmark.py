"""Rewrites the small benchmark that the core's tests play: ``python -m proactive_demo.stored_benchmark``.

Its pictures are compressed more than those of ``data demo``; lines and ids are the same.
"""

import shutil
from pathlib import Path

from PIL import Image

from proactive_demo.drawing import draw

FOLDER = Path(__file__).parents[3] / "tests" / "data" / "benchmark"
SAMPLES, QUALITY = 70, 50


def write_stored_benchmark(folder: Path) -> None:
    """Replace a folder by a newly drawn benchmark with small files."""
    shutil.rmtree(folder, ignore_errors=True)
    draw(folder, SAMPLES, seed=0)
    for path in folder.rglob("*.*"):
        if path.suffix == ".png":
            Image.open(path).save(path, "PNG", optimize=True)
        elif path.suffix != ".jsonl":
            Image.open(path).save(path, "JPEG", quality=QUALITY, optimize=True)


if __name__ == "__main__":
    write_stored_benchmark(FOLDER)
