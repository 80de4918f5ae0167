"""Table 3 of the paper from one run folder: each model before and after training, and the paired changes.

A model counts as trained if its weights lie in the folder of a training; scores and intervals are those of the report.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
from matplotlib.figure import Figure

from envs import SCENARIOS, in_paper_order
from envs.errors import RunFolderError
from orchestrator.learning.run_files import RESOLVED, read_train_table
from orchestrator.report.figures import style as plot_style
from orchestrator.report.measures.estimates import suggestion_limits
from orchestrator.report.measures.outcomes import outcomes
from orchestrator.report.measures.paired_tests import SAMPLE_COLUMNS, paired_strata
from orchestrator.report.read_run import read_run
from orchestrator.report.run_data import RunData
from orchestrator.report.scores.metrics import missing_episodes
from orchestrator.report.statistics.intervals import estimate_mean, score_test
from orchestrator.report.statistics.means import skewed_mean_test
from orchestrator.report.tables.csv import csv_text
from orchestrator.report.tables.parts import AVERAGE, Row, acc_and_ps, by_column
from orchestrator.report.tables.table import MISSING, Table, TableCell, columns, line
from orchestrator.report.wording import format_signed
from orchestrator.storage import safe_write
from sweeps.protocol import ZERO_SHOT
from sweeps.spec import ModelSpec

PUBLISHED = Path(__file__).with_name("published_learning.csv")
"""Table 3 of arXiv:2603.19466, re-typed; ``psr`` is the mean number of suggestions."""
BEFORE, REFERENCE = "before", "reference"
TRAINED, UNSEEN = "trained", "unseen"
ROWS = {
    "model": pl.String, "stage": pl.String, "scenario": pl.String, "in_domain": pl.Boolean, "n": pl.Int64,
    "acc": pl.Float64, "ps": pl.Float64, "lacking": pl.Int64,
}  # fmt: skip
PAIRED = {
    "model": pl.String, "stage": pl.String, "scenarios": pl.String, "n": pl.Int64, "difference": pl.Float64,
    "low": pl.Float64, "high": pl.Float64, "ps_difference": pl.Float64, "ps_low": pl.Float64, "ps_high": pl.Float64,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class TrainedModel:
    """A trained model of a run."""

    name: str
    base: str
    """Name of the model that it was trained from."""
    stage: str
    """``rp 0.5``, followed by the model's name if two trainings of one base model share it."""
    scenarios: tuple[str, ...]
    """The scenarios of its training."""


@dataclass(frozen=True, slots=True)
class LearningScores:
    """The scores behind the tables."""

    rows: pl.DataFrame
    """``ROWS``, one row per model, stage and scenario."""
    paired: pl.DataFrame
    """``PAIRED``, after minus before on the same samples: per scenario, over the trained ones, over the unseen ones."""
    paper_names: dict[str, str]
    """Model -> its name in the paper, if it has one."""


def read_scores(folder: Path, data: Path | None = None) -> LearningScores:
    """Read a run folder; raise RunFolderError if it has no model both before and after training."""
    run = read_run(folder, data)
    names = {model.name for model in run.sweep.models}
    trained = [model for model in trained_models(run.sweep.models) if model.base in names]
    if not trained:
        raise RunFolderError(
            f"{folder} has no trained model together with its base model; type `proactive-sweep run SWEEP --model "
            "FOLDER/model.toml` with a sweep that plays the base model"
        )
    paper_names = {model.name: model.paper for model in run.sweep.models if model.paper}
    return LearningScores(_score_rows(run, trained), _paired_rows(run, trained), paper_names)


def trained_models(models: Sequence[ModelSpec]) -> list[TrainedModel]:
    """Return the trained models among ``models``, in the same order."""
    trained = []
    for model in models:
        folder = Path(model.lora or model.source).parent
        if (folder / RESOLVED).is_file():
            train = read_train_table(folder)
            stage, scenarios = f"rp {train['rp']:g}", tuple(train["scenarios"])
            trained.append(TrainedModel(model.name, train["model"]["name"], stage, scenarios))
    counts = Counter((model.base, model.stage) for model in trained)
    return [
        replace(model, stage=f"{model.stage}, {model.name}") if counts[model.base, model.stage] > 1 else model
        for model in trained
    ]


def _score_rows(run: RunData, trained: Sequence[TrainedModel]) -> pl.DataFrame:
    cells = run.rows.filter(protocol="mcqa").with_columns(missing_episodes(run.rows.columns).alias("lacking"))
    rows = []
    for base in dict.fromkeys(model.base for model in trained):
        trained_from_base = [model for model in trained if model.base == base]
        domain = {name for model in trained_from_base for name in model.scenarios}
        stages = [
            (base, BEFORE, ZERO_SHOT),
            *((model.name, model.stage, ZERO_SHOT) for model in trained_from_base),
            (base, REFERENCE, REFERENCE),
        ]
        for model_name, stage, condition in stages:
            for row in cells.filter(model=model_name, condition=condition).iter_rows(named=True):
                scenario = row["scenario"]
                scores = (row["scored"], row["acc"], row["ps"], row["lacking"])
                rows.append((base, stage, scenario, scenario in domain, *scores))
    return pl.DataFrame(rows, schema=ROWS, orient="row")


def _paired_rows(run: RunData, trained: Sequence[TrainedModel]) -> pl.DataFrame:
    limits: dict[str, int] = {}
    for (scenario, _), limit in suggestion_limits(run).items():
        limits[scenario] = max(limit, limits.get(scenario, 0))
    episodes = outcomes(run).filter(condition=ZERO_SHOT, protocol="mcqa").drop("condition")
    rows = []
    for model in trained:
        base = episodes.filter(model=model.base).drop("model", "cluster")
        pairs = episodes.filter(model=model.name).join(base, on=list(SAMPLE_COLUMNS), suffix="_other")
        parts = {name: pairs.filter(scenario=name) for name in SCENARIOS}
        strata = {name: paired_strata(part, limits[name]) for name, part in parts.items() if part.height}
        groups = {name: [name] for name in strata}
        groups[TRAINED] = [name for name in strata if name in model.scenarios]
        groups[UNSEEN] = [name for name in strata if name not in model.scenarios]
        for label, names in groups.items():
            if names:
                count = sum(parts[name].height for name in names)
                correct = [strata[name][0] for name in names]
                asks = [suggestions for name in names if (suggestions := strata[name][1]) is not None]
                estimates = (*estimate_mean(correct, score_test)[:3], *estimate_mean(asks, skewed_mean_test)[:3])
                rows.append((model.base, model.stage, label, count, *estimates))
    return pl.DataFrame(rows, schema=PAIRED, orient="row")


# -- tables ------------------------------------------------------------------------------------------------------------
def learning_tables(scores: LearningScores) -> Iterator[Table]:
    """Yield the tables of each model: accuracies by stage, the paper's accuracies if published, and the paired changes."""
    for (model,), rows in scores.rows.group_by("model", maintain_order=True):
        yield _stage_table(str(model), rows)
        paper_name = scores.paper_names.get(str(model), "")
        if paper_name in published_rows()["model"]:
            yield _paper_table(paper_name, rows)
        yield _change_table(str(model), scores.paired.filter(model=model))


def _stage_table(model: str, rows: pl.DataFrame) -> Table:
    domain = dict(rows.select("scenario", "in_domain").iter_rows())
    names = in_paper_order(domain)
    lines = []
    for (stage,), part in rows.group_by("stage", maintain_order=True):
        cells = by_column(part)
        lines.append(line(str(stage), [*(_stage_cell(cells.get(name)) for name in names), _average_cell(part, names)]))
    heads = columns("after", [*(f"{name}*" if domain[name] else name for name in names), AVERAGE])
    return Table("learning", f"{model}: acc % / ps, * trained on", heads, tuple(lines), rows)


def _stage_cell(row: Row | None) -> TableCell:
    if row is None or row["acc"] is None:
        return MISSING
    if row["lacking"]:
        return TableCell(f"{acc_and_ps(row)} ({row['lacking']} lack)", row["acc"], style="unfinished")
    return TableCell(acc_and_ps(row), row["acc"])


def _average_cell(rows: pl.DataFrame, names: Sequence[str]) -> TableCell:
    if rows.height < len(names) or rows["lacking"].sum() or rows["acc"].null_count():
        return TableCell("unfinished", style="unfinished")
    means = {name: sum(rows[name].to_list()) / rows.height for name in ("acc", "ps")}
    return TableCell(acc_and_ps(means), means["acc"])


def _change_table(model: str, rows: pl.DataFrame) -> Table:
    lines = []
    for row in rows.iter_rows(named=True):
        cells = (TableCell(f"{row['n']:,}", row["n"]), _change_cell(row), _change_cell(row, "ps_"))
        lines.append(line(f"{row['stage']}, {row['scenarios']}", cells))
    title = f"{model}: after minus before on the same samples, 95% interval"
    return Table("learning-paired", title, columns("change", ["n", "acc, points", "ps"]), tuple(lines), rows)


def _change_cell(row: Row, prefix: str = "") -> TableCell:
    difference, low, high = (row[f"{prefix}{name}"] for name in ("difference", "low", "high"))
    return TableCell(f"{format_signed(difference)} [{low:.1f}, {high:.1f}]", difference)


@cache
def published_rows() -> pl.DataFrame:
    """Return the paper's table 3: model, rp (``original``, a number, ``reference``), acc and psr by scenario and on average."""
    return pl.read_csv(PUBLISHED, schema_overrides={"rp": pl.String})


def _paper_table(paper_name: str, rows: pl.DataFrame) -> Table:
    names = [*in_paper_order(rows["scenario"].unique()), AVERAGE]
    lines = []
    for row in published_rows().filter(model=paper_name).iter_rows(named=True):
        stage = {"original": BEFORE, "reference": REFERENCE}.get(row["rp"], f"rp {row['rp']}")
        scores = [(row[f"{name} acc"], row[f"{name} psr"]) for name in names]
        lines.append(line(stage, [TableCell(f"{acc:.1f} / {'-' if ps is None else ps}", acc) for acc, ps in scores]))
    title = f"{paper_name} in the paper (trained on QD, COCO): acc % / ps"
    return Table("learning-paper", title, columns("after", names), tuple(lines))


# -- files -------------------------------------------------------------------------------------------------------------
def write_scores(folder: Path, scores: LearningScores) -> list[Path]:
    """Write the scores as ``tables/learning*.csv``, and the figure; return their paths."""
    tables, figures = folder / "tables", folder / "figures"
    for subfolder in (tables, figures):
        subfolder.mkdir(exist_ok=True)
    frames = {"learning": scores.rows, "learning-paired": scores.paired}
    paths = [tables / f"{name}.csv" for name, frame in frames.items() if frame.height]
    for path, frame in zip(paths, filter(len, frames.values()), strict=True):
        safe_write.write(path, csv_text(frame, digits=4).encode())
    with plot_style.house_style():
        picture = learning_figure(scores.rows)
    return [*paths, *plot_style.save_figure(picture, figures, "learning")]


def learning_figure(rows: pl.DataFrame) -> Figure:
    """Draw accuracy and suggestions of every stage by scenario; trained scenarios have a star."""
    models = rows["model"].unique(maintain_order=True).to_list()
    picture = plot_style.new_figure(plot_style.PAGE, 2.6 * len(models))
    panels = picture.subplots(len(models), 2, squeeze=False)
    for model, (left, right) in zip(models, panels, strict=True):
        model_rows = rows.filter(model=model)
        _draw_panel(left, model_rows, "acc")
        left.set_xlabel("accuracy, %")
        _draw_panel(right, model_rows.filter(pl.col("stage") != REFERENCE), "ps")
        right.set_xlabel("suggestions per episode")
        left.set_title(plot_style.short_label(model))
        left.legend()
    return picture


def _draw_panel(panel: Any, rows: pl.DataFrame, measure: str) -> None:
    domain = dict(rows.select("scenario", "in_domain").iter_rows())
    names = in_paper_order(domain)[::-1]
    for number, stage in enumerate(rows["stage"].unique(maintain_order=True)):
        color, marker = plot_style.series_look(number)
        values = dict(rows.filter(stage=stage).select("scenario", measure).iter_rows())
        points = [(value, names.index(name)) for name, value in values.items() if value is not None]
        if points:
            panel.plot(*zip(*points, strict=True), marker, color=color, markersize=4, label=stage, linestyle="none")
    panel.set_yticks(range(len(names)), [f"{name}*" if domain[name] else name for name in names])
