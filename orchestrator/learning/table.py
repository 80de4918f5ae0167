"""Table 3 of the paper from one run folder: each model before and after training, and what changed on the same samples.

A row's training is known by the folder that its weights lie in; figures and intervals are those of the report.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
from matplotlib.figure import Figure
from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from envs import SCENARIOS
from orchestrator.learning.run_files import RESOLVED, trained_with
from orchestrator.report.figures import style as plot_style
from orchestrator.report.measures.estimates import suggestion_limits
from orchestrator.report.measures.outcomes import outcomes
from orchestrator.report.measures.paired_tests import SAMPLE_COLUMNS, paired_strata
from orchestrator.report.read_run import read_run as read_run
from orchestrator.report.run_data import RunData
from orchestrator.report.scores.metrics import missing_episodes
from orchestrator.report.statistics.intervals import Stratum, score_interval
from orchestrator.storage import atomic_write
from orchestrator.storage.run_folder import RunFolderError
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
class After:
    """A trained model of a run."""

    name: str
    before: str
    """Name of the model that it was trained from."""
    stage: str
    """``rp 0.5``, with the name where two trainings of a run share it."""
    scenarios: tuple[str, ...]
    """Those it was trained on."""


@dataclass(frozen=True, slots=True)
class Learned:
    """All that the tables show."""

    rows: pl.DataFrame
    """``ROWS``, one row model x stage x scenario."""
    paired: pl.DataFrame
    """``PAIRED``, after less before on the same samples: each scenario, the trained ones, the unseen ones."""
    papers: dict[str, str]
    """Model -> its row in the paper, where it has one."""


def read(folder: Path, data: Path | None = None) -> Learned:
    """Read the learning results of a run folder; raises RunFolderError where it holds no model before and after training."""
    run = read_run(folder, data)
    trained = trainings(run.sweep.models)
    names = {model.name for model in run.sweep.models}
    trained = [after for after in trained if after.before in names]
    if not trained:
        raise RunFolderError(
            f"{folder} holds no trained model beside the one it was trained from; type `proactive-sweep run SWEEP --model "
            "FOLDER/model.toml`, where models of the sweep has the model before training"
        )
    papers = {model.name: model.paper for model in run.sweep.models if model.paper}
    return Learned(_rows(run, trained), _paired(run, trained), papers)


def trainings(models: Sequence[ModelSpec]) -> list[After]:
    """The trained ones among the models of a run, in its order."""
    trained = []
    for model in models:
        folder = Path(model.lora or model.source).parent
        if (folder / RESOLVED).is_file():
            train = trained_with(folder)
            trained.append(After(model.name, train["model"]["name"], f"rp {train['rp']:g}", tuple(train["scenarios"])))
    stages = [(training.before, training.stage) for training in trained]
    twice = {stage for stage in stages if stages.count(stage) > 1}
    return [
        After(stage_pair.name, stage_pair.before, f"{stage_pair.stage}, {stage_pair.name}", stage_pair.scenarios)
        if (stage_pair.before, stage_pair.stage) in twice
        else stage_pair
        for stage_pair in trained
    ]


def _rows(run: RunData, trained: Sequence[After]) -> pl.DataFrame:
    played = run.rows.filter(pl.col("protocol") == "mcqa").with_columns(
        missing_episodes(run.rows.columns).alias("lacking")
    )
    rows = []
    for before in dict.fromkeys(after.before for after in trained):
        successors = [after for after in trained if after.before == before]
        domain = {name for after in successors for name in after.scenarios}
        wanted = [
            (before, BEFORE, ZERO_SHOT),
            *((a.name, a.stage, ZERO_SHOT) for a in successors),
            (before, REFERENCE, REFERENCE),
        ]
        for model, stage, condition in wanted:
            part = played.filter(pl.col("model") == model, pl.col("condition") == condition)
            for row in part.iter_rows(named=True):
                name = row["scenario"]
                rows.append((before, stage, name, name in domain, row["scored"], row["acc"], row["ps"], row["lacking"]))
    return pl.DataFrame(rows, schema=ROWS, orient="row")


def _paired(run: RunData, trained: Sequence[After]) -> pl.DataFrame:
    limits: dict[str, int] = {}
    for (scenario, _), limit in suggestion_limits(run).items():
        limits[scenario] = max(limit, limits.get(scenario, 0))
    episodes = outcomes(run).filter(condition=ZERO_SHOT, protocol="mcqa").drop("condition")
    rows = []
    for after in trained:
        base = episodes.filter(pl.col("model") == after.before).drop("model", "cluster")
        pairs = episodes.filter(pl.col("model") == after.name).join(base, on=list(SAMPLE_COLUMNS), suffix="_other")
        parts = {name: pairs.filter(pl.col("scenario") == name) for name in SCENARIOS}
        strata = {name: paired_strata(part, limits[name]) for name, part in parts.items() if part.height}
        groups = {name: [name] for name in strata}
        groups[TRAINED] = [name for name in strata if name in after.scenarios]
        groups[UNSEEN] = [name for name in strata if name not in after.scenarios]
        for label, names in groups.items():
            if names:
                number = sum(parts[name].height for name in names)
                right = [strata[name][0] for name in names]
                steps = [suggested for name in names if (suggested := strata[name][1]) is not None]
                rows.append((after.before, after.stage, label, number, *_estimate(right), *_estimate(steps)))
    return pl.DataFrame(rows, schema=PAIRED, orient="row")


def _estimate(strata: Sequence[Stratum]) -> tuple[float, float, float]:
    return sum(stratum.mean for stratum in strata) / len(strata), *score_interval(strata)


# -- shown -------------------------------------------------------------------------------------------------------------
def tables(learned: Learned) -> Iterator[Table]:
    """Of each model: its table 3, the paper's where it has one, and what changed on the same samples."""
    for (model,), part in learned.rows.group_by(["model"], maintain_order=True):
        yield _accuracies(str(model), part)
        if (paper := learned.papers.get(str(model))) and paper in published()["model"]:
            yield _papers(paper, part)
        yield _changes(str(model), learned.paired.filter(pl.col("model") == model))


def _table(title: str, heads: Sequence[str], first: str) -> Table:
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column(first, no_wrap=True)
    for head in heads:
        table.add_column(head, justify="right", no_wrap=True)
    return table


def _accuracies(model: str, part: pl.DataFrame) -> Table:
    domain = dict(part.select("scenario", "in_domain").iter_rows())
    names = [name for name in SCENARIOS if name in domain]
    table = _table(
        f"{escape(model)}: acc % / ps, * trained on", [*(f"{n}*" if domain[n] else n for n in names), "avg"], "after"
    )
    for (stage,), rows in part.group_by(["stage"], maintain_order=True):
        cells = {row["scenario"]: row for row in rows.iter_rows(named=True)}
        table.add_row(escape(str(stage)), *[_cell(cells.get(name)) for name in names], _average(rows, names))
    return table


def _cell(row: dict[str, Any] | None) -> str:
    if row is None or row["acc"] is None:
        return "-"
    text = f"{row['acc']:.1f} /{row['ps']:4.1f}"
    return f"{text} ({row['lacking']} lack)" if row["lacking"] else text


def _average(rows: pl.DataFrame, names: Sequence[str]) -> str:
    if rows.height < len(names) or rows["lacking"].sum() or rows["acc"].null_count():
        return "unfinished"
    acc, ps = (sum(rows[name].to_list()) / rows.height for name in ("acc", "ps"))
    return f"{acc:.1f} /{ps:4.1f}"


def _changes(model: str, part: pl.DataFrame) -> Table:
    table = _table(
        f"{escape(model)}: after less before on the same samples, 95% interval", ["n", "acc, points", "ps"], "what"
    )
    for row in part.iter_rows(named=True):
        table.add_row(
            escape(f"{row['stage']}, {row['scenarios']}"),
            f"{row['n']:,}",
            f"{row['difference']:+.1f} [{row['low']:.1f}, {row['high']:.1f}]".replace("[", r"\["),
            f"{row['ps_difference']:+.1f} [{row['ps_low']:.1f}, {row['ps_high']:.1f}]".replace("[", r"\["),
        )
    return table


@cache
def published() -> pl.DataFrame:
    """The paper's table 3: model, rp (``original``, a number, ``reference``), acc and psr of each scenario and on average."""
    return pl.read_csv(PUBLISHED, schema_overrides={"rp": pl.String})


def _papers(paper: str, part: pl.DataFrame) -> Table:
    names = [*(name for name in SCENARIOS if name in set(part["scenario"])), "avg"]
    table = _table(f"{paper} in the paper (trained on QD, COCO): acc % / ps", names, "after")
    for row in published().filter(pl.col("model") == paper).iter_rows(named=True):
        stage = {"original": BEFORE, "reference": REFERENCE}.get(row["rp"], f"rp {row['rp']}")
        cells = [
            f"{row[f'{n} acc']:.1f} / " + ("-" if row[f"{n} psr"] is None else f"{row[f'{n} psr']:.1f}") for n in names
        ]
        table.add_row(stage, *cells)
    return table


# -- written -----------------------------------------------------------------------------------------------------------
def write(folder: Path, learned: Learned) -> list[Path]:
    """``tables/learning.csv``, ``tables/learning-paired.csv`` and the figure; the files written."""
    folders = [folder / "tables", folder / "figures"]
    for folder_path in folders:
        folder_path.mkdir(exist_ok=True)
    written = [folders[0] / "learning.csv", folders[0] / "learning-paired.csv"]
    for path, frame in zip(written, (learned.rows, learned.paired), strict=True):
        atomic_write.write(path, frame.write_csv(float_precision=4).encode())
    with plot_style.house_style():
        picture = figure(learned.rows)
    return [*written, *plot_style.save_figure(picture, folders[1], "learning")]


def figure(rows: pl.DataFrame) -> Figure:
    """Accuracy and suggestions of every stage, scenario by scenario; scenarios that were trained on have a star."""
    models = rows["model"].unique(maintain_order=True).to_list()
    picture = plot_style.new_figure(plot_style.PAGE, 2.6 * len(models))
    panels = picture.subplots(len(models), 2, squeeze=False)
    for model, (left, right) in zip(models, panels, strict=True):
        model_rows = rows.filter(pl.col("model") == model)
        for panel, measure, label in ((left, "acc", "accuracy, %"), (right, "ps", "suggestions per episode")):
            _panel(panel, model_rows if measure == "acc" else model_rows.filter(pl.col("stage") != REFERENCE), measure)
            panel.set_xlabel(label)
        left.set_title(plot_style.short_label(model))
        left.legend()
    return picture


def _panel(panel: Any, rows: pl.DataFrame, measure: str) -> None:
    domain = dict(rows.select("scenario", "in_domain").iter_rows())
    names = [name for name in SCENARIOS if name in domain][::-1]
    for number, (stage,) in enumerate(rows.select("stage").unique(maintain_order=True).iter_rows()):
        colour, marker = plot_style.series_look(number)
        values = dict(rows.filter(pl.col("stage") == stage).select("scenario", measure).iter_rows())
        points = [(value, names.index(name)) for name, value in values.items() if value is not None]
        if points:
            panel.plot(*zip(*points, strict=True), marker, color=colour, markersize=4, label=stage, linestyle="none")
    panel.set_yticks(range(len(names)), [f"{name}*" if domain[name] else name for name in names])
