"""Table 3 of the paper from a run: each model before and after training, and the paired changes, for ``report``.

A model counts as trained if its weights lie in the folder of a training; scores and intervals are those of the report.
"""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import polars as pl

from orchestrator.report.measures.clustering import outcomes
from orchestrator.report.run_data import RunData
from orchestrator.report.statistics.clustered import average_means, estimate_mean, t_interval
from orchestrator.report.tables.parts import ACC_AND_PS, scenario_table
from orchestrator.report.tables.table import Table, TableCell, columns, format_signed, line
from proactive_learn.run_files import RESOLVED, read_train_table
from sweeps.protocol import ZERO_SHOT
from sweeps.spec import ModelSpec

PUBLISHED = Path(__file__).with_name("published_learning.csv")
"""Table 3 of arXiv:2603.19466, re-typed; ``psr`` is the mean number of suggestions."""
BEFORE, REFERENCE = "before", "reference"
PAIRED = {
    "model": pl.String, "stage": pl.String, "scenarios": pl.String, "n": pl.Int64, "difference": pl.Float64,
    "low": pl.Float64, "high": pl.Float64,
}  # fmt: skip


class TrainedModel(NamedTuple):
    """A trained model of a run: its name, its base model, and the scenarios it was trained on."""

    name: str
    base: str
    stage: str
    """``rp`` (the reward of a valid suggestion) and the model's name: ``rp 0.5, my-model``."""
    scenarios: tuple[str, ...]


def learning_tables(run: RunData) -> list[Table]:
    """Return the tables of each model that was played before and after training; none if no model was."""
    models = {model.name: model for model in run.sweep.models}
    trained = [model for model in trained_models(run.sweep.models) if model.base in models]
    tables = []
    for base in dict.fromkeys(model.base for model in trained):
        stages = [model for model in trained if model.base == base]
        tables.append(_stage_table(run, base, stages))
        if models[base].paper in published_rows()["model"]:
            tables.append(_paper_table(models[base].paper))
        tables.append(_change_table(run, base, stages))
    return tables


def trained_models(models: Sequence[ModelSpec]) -> list[TrainedModel]:
    """Return the trained models among ``models``, in the same order."""
    folders = [(model, Path(model.lora or model.source).parent) for model in models]
    tables = [(model, read_train_table(folder)) for model, folder in folders if (folder / RESOLVED).is_file()]
    return [
        TrainedModel(model.name, train["model"]["name"], f"rp {train['rp']:g}, {model.name}", tuple(train["scenarios"]))
        for model, train in tables
    ]


def _stage_table(run: RunData, base: str, trained: Sequence[TrainedModel]) -> Table:
    stages = {
        BEFORE: (base, ZERO_SHOT),
        **{model.stage: (model.name, ZERO_SHOT) for model in trained},
        REFERENCE: (base, REFERENCE),
    }
    cells = run.rows.filter(protocol="mcqa")
    played = pl.concat(
        cells.filter(model=name, condition=condition).with_columns(model=pl.lit(stage))
        for stage, (name, condition) in stages.items()
    )
    table, domain = scenario_table(played, ACC_AND_PS), {name for model in trained for name in model.scenarios}
    heads = columns("after", (f"{head.name}{'*' * (head.name in domain)}" for head in table.columns[1:]))
    lines = sorted(table.rows, key=lambda cells: list(stages).index(cells[0].text))
    title, names = f"{base}: acc % / ps, * trained on", ("scenario", "planned", "scored", "acc", "ps")
    numbers = played.select(pl.lit(base).alias("model"), pl.col("model").alias("stage"), *names)
    return Table("learning", title, heads, tuple(lines), numbers, notes=table.notes)


def _change_table(run: RunData, base: str, trained: Sequence[TrainedModel]) -> Table:
    """Return after minus before on the same samples, as means of the trained and of the unseen scenarios."""
    episodes = (
        outcomes(run).filter(condition=ZERO_SHOT, protocol="mcqa").select("model", "scenario", "sample_id", "correct")
    )
    rows, lines = list[tuple[object, ...]](), []
    for model in trained:
        pairs = episodes.filter(model=model.name).join(
            episodes.filter(model=base), on=("scenario", "sample_id"), suffix="_before"
        )
        is_trained = pl.col("scenario").is_in(model.scenarios)
        for label, part in (("trained", pairs.filter(is_trained)), ("unseen", pairs.filter(~is_trained))):
            if not part.height:
                continue
            change = 100 * (pl.col("correct").cast(pl.Int64) - pl.col("correct_before").cast(pl.Int64))
            strata = [
                estimate_mean(each.select(change).to_series().to_numpy(), unit=100)
                for each in part.partition_by("scenario", maintain_order=True)
            ]
            mean, low, high = t_interval(average_means(strata), -100, 100)
            rows.append((base, model.stage, label, part.height, mean, low, high))
            text = f"{format_signed(mean)} [{low:.1f}, {high:.1f}]"
            lines.append(line(f"{model.stage}, {label}", (TableCell(f"{part.height:,}"), TableCell(text))))
    title = f"{base}: after minus before on the same samples, 95% interval"
    numbers = pl.DataFrame(rows, schema=PAIRED, orient="row")
    return Table("learning-paired", title, columns("after", ["n", "acc, points"]), tuple(lines), numbers)


@cache
def published_rows() -> pl.DataFrame:
    """Return the paper's table 3: model, rp (``original``, a number, ``reference``), acc and psr by scenario and on average."""
    return pl.read_csv(PUBLISHED, schema_overrides={"rp": pl.String})


def _paper_table(paper_name: str) -> Table:
    names = [column.removesuffix(" acc") for column in published_rows().columns if column.endswith(" acc")]
    lines = []
    for row in published_rows().filter(model=paper_name).iter_rows(named=True):
        stage = {"original": BEFORE, "reference": REFERENCE}.get(row["rp"], f"rp {row['rp']}")
        scores = [(row[f"{name} acc"], row[f"{name} psr"]) for name in names]
        lines.append(line(stage, [TableCell(f"{acc:.1f} / {'-' if ps is None else ps}") for acc, ps in scores]))
    title = f"{paper_name} in the paper (trained on QD, COCO): acc % / ps"
    return Table("learning-paper", title, columns("after", names), tuple(lines))
