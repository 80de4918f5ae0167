"""Export to a data set for the Hub: a Parquet file with one row per episode, turns included, and a card.

Pictures are named by their path in the benchmark, never copied, because their licenses are those of their sources.
"""

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

{episodes:,} episodes of {models} models over {scenarios}, played with proactive-sweep. One row per episode:

| column | content |
| --- | --- |
| key | model, scenario, condition, sample and a hash of everything that changes the answer |
| model, scenario, condition, protocol, sample_id, seed | what was played |
| ending, correct, error | how it ended; `correct` is null for open-ended answers, which a judge scores |
| turns | one entry per question: `frame`, `image`, `reply`; its parsing (`option`, `category`, `action`); the requested `move` |
| turns, open-ended | also `read_as`, the option that a judge assigned to the answer, and `judged`, its reply |
| question, options, categories, answer | of the sample, as in the benchmark{questions} |
| verdicts | a judge's three bits on an open-ended answer |
| seconds, prompt_tokens, reply_tokens, cost | what the episode took |

`image` is the path of a picture in the benchmark, with the crop or size that was shown. The pictures are not included.

## License

Replies are the output of the models in `model` and are subject to their terms. Questions belong to the benchmark (De Min et al.,
arXiv 2603.19466), pictures to its sources. State here the license under which you publish this folder.
"""


def write(run_data: RunData, folder: Path, evaluator: str = "") -> None:
    """Write ``data/episodes.parquet`` and the card, ``README.md``."""
    (folder / "data").mkdir()
    turns = run_data.turns.sort("key", "turn").group_by("key").agg(pl.struct(TURN).alias("turns")).collect()
    verdicts = run_data.verdicts.group_by("key").agg(
        pl.struct("judge", "category", "suggestion", "aggregate", "reason").alias("verdicts")
    )
    episodes = (
        run_data.episodes.drop("turns", "cell").join(turns, on="key", how="left").join(verdicts, on="key", how="left")
    )
    questions = question_rows(run_data)
    episodes = episodes.join(questions, on=["scenario", "sample_id"], how="left", maintain_order="left")
    episodes.write_parquet(folder / "data" / "episodes.parquet", compression="zstd")
    missing_note = "" if questions.height else "; null, because the data folder was missing"
    card = CARD.format(
        name=run_data.sweep.name, episodes=episodes.height, models=episodes["model"].n_unique(),
        scenarios=", ".join(episodes["scenario"].unique().sort()), questions=missing_note,
    )  # fmt: skip
    (folder / "README.md").write_text(card, encoding="utf-8")


def question_rows(run_data: RunData) -> pl.DataFrame:
    """Return question, options, categories and answer of every sample; no rows without the benchmark's folder."""
    rows = [
        (scenario, number, sample.prompt, list(sample.options), list(sample.categories), sample.answer)
        for scenario, samples in run_data.samples.items()
        for number, sample in samples.items()
    ]
    schema: dict[str, pl.DataType] = {"scenario": pl.String(), "sample_id": pl.Int64(), "question": pl.String()}
    schema |= {"options": pl.List(pl.String), "categories": pl.List(pl.String), "answer": pl.String()}
    return pl.DataFrame(rows, schema=schema, orient="row")
