"""A run as a data set folder of the Hub: Parquet with one row an episode, its turns in it, and a card.

Pictures are named by their path in the benchmark, never copied: their licences are their sources'.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

from orchestrator.report.run_data import RunData

TURN = ("turn", "frame", "image", "reply", "option", "category", "action", "move", "read_as", "judged")
CARD = """---
license: other
license_name: see-the-card
task_categories:
- visual-question-answering
pretty_name: {name}
tags:
- proactivebench
- trajectories
configs:
- config_name: default
  data_files: data/episodes.parquet
---

# Trajectories of {name} on ProactiveBench

{episodes:,} episodes of {models} models over {scenarios}, played with proactive-sweep. One row an episode:

| column | what |
| --- | --- |
| key | model, scenario, condition, sample and a hash of all that changes the answer |
| model, scenario, condition, protocol, sample_id, seed | what was played |
| ending, correct, error | how it ended; `correct` is null for open-ended answers, which a judge reads |
| turns | one entry a question: `frame`, `image`, `reply`; how it was read (`option`, `category`, `action`); `move` asked for |
| turns, open-ended | beside these `read_as`, the option that a judge made of the answer, and `judged`, its reply |
| question, options, categories, answer | of the sample as the benchmark has it{questions} |
| verdicts | a judge's three bits on an open-ended answer |
| seconds, prompt_tokens, reply_tokens, cost | what it took |

`image` is the path of a picture in the benchmark, with the crop or size that was shown. The pictures are not here.

## Licence

Replies are the output of the models that `model` names, and stand under those models' terms. Questions are the benchmark's
(De Min et al., arXiv 2603.19466), pictures its sources'. Say here under which licence you publish this folder.
"""


def write(run_data: RunData, into: Path, by: str = "") -> None:
    """``data/episodes.parquet`` and ``README.md``, the card."""
    (into / "data").mkdir()
    turns = run_data.turns.sort("key", "turn").group_by("key").agg(pl.struct(TURN).alias("turns")).collect()
    read = run_data.verdicts.group_by("key").agg(
        pl.struct("judge", "category", "suggestion", "aggregate", "reason").alias("verdicts")
    )
    episodes = (
        run_data.episodes.drop("turns", "cell").join(turns, on="key", how="left").join(read, on="key", how="left")
    )
    questions = _questions(run_data)
    episodes = episodes.join(questions, on=["scenario", "sample_id"], how="left", maintain_order="left")
    episodes.write_parquet(into / "data" / "episodes.parquet", compression="zstd")
    missing_note = "" if questions.height else "; null, for the data folder was not at hand"
    card = CARD.format(
        name=run_data.sweep.name, episodes=episodes.height, models=episodes["model"].n_unique(),
        scenarios=", ".join(episodes["scenario"].unique().sort()), questions=missing_note,
    )  # fmt: skip
    (into / "README.md").write_text(card, encoding="utf-8")


def _questions(run_data: RunData) -> pl.DataFrame:
    """One row a sample at hand."""
    rows = [
        (scenario, number, sample.prompt, list(sample.options), list(sample.categories), sample.answer)
        for scenario, samples in run_data.samples.items()
        for number, sample in samples.items()
    ]
    kinds: dict[str, pl.DataType] = {"scenario": pl.String(), "sample_id": pl.Int64(), "question": pl.String()}
    kinds |= {"options": pl.List(pl.String), "categories": pl.List(pl.String), "answer": pl.String()}
    return pl.DataFrame(rows, schema=kinds, orient="row")
