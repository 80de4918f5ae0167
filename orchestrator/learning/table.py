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
from orchestrator.report import plot_style
from orchestrator.report.estimates import suggestion_limits
from orchestrator.report.intervals import Stratum, score_interval
from orchestrator.report.metrics import lacking
from orchestrator.report.outcomes import outcomes
from orchestrator.report.paired_tests import SAMPLE, ZERO_SHOT, paired_strata
from orchestrator.report.run_data import RunData
from orchestrator.report.run_data import read as read_run
from orchestrator.storage import atomic_write
from orchestrator.storage.run_folder import RunFolderError
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
    """What a run folder says of learning; raises RunFolderError where it holds no model before and after training."""
    run = read_run(folder, data)
    found = trainings(run.sweep.models)
    known = {model.name for model in run.sweep.models}
    found = [after for after in found if after.before in known]
    if not found:
        raise RunFolderError(
            f"{folder} holds no trained model beside the one it was trained from; type `proactive-sweep run SWEEP --model "
            "FOLDER/model.toml`, where models of the sweep has the model before training"
        )
    papers = {model.name: model.paper for model in run.sweep.models if model.paper}
    return Learned(_rows(run, found), _paired(run, found), papers)


def trainings(models: Sequence[ModelSpec]) -> list[After]:
    """The trained ones among the models of a run, in its order."""
    made = []
    for model in models:
        folder = Path(model.lora or model.source).parent
        if (folder / RESOLVED).is_file():
            train = trained_with(folder)
            made.append(After(model.name, train["model"]["name"], f"rp {train['rp']:g}", tuple(train["scenarios"])))
    stages = [(one.before, one.stage) for one in made]
    twice = {stage for stage in stages if stages.count(stage) > 1}
    return [
        After(one.name, one.before, f"{one.stage}, {one.name}", one.scenarios)
        if (one.before, one.stage) in twice
        else one
        for one in made
    ]


def _rows(run: RunData, found: Sequence[After]) -> pl.DataFrame:
    played = run.rows.filter(pl.col("protocol") == "mcqa").with_columns(lacking(run.rows.columns).alias("lacking"))
    made = []
    for before in dict.fromkeys(after.before for after in found):
        mine = [after for after in found if after.before == before]
        domain = {name for after in mine for name in after.scenarios}
        wanted = [
            (before, BEFORE, ZERO_SHOT),
            *((a.name, a.stage, ZERO_SHOT) for a in mine),
            (before, REFERENCE, REFERENCE),
        ]
        for model, stage, condition in wanted:
            part = played.filter(pl.col("model") == model, pl.col("condition") == condition)
            for row in part.iter_rows(named=True):
                name = row["scenario"]
                made.append((before, stage, name, name in domain, row["scored"], row["acc"], row["ps"], row["lacking"]))
    return pl.DataFrame(made, schema=ROWS, orient="row")


def _paired(run: RunData, found: Sequence[After]) -> pl.DataFrame:
    limits: dict[str, int] = {}
    for (scenario, _), limit in suggestion_limits(run).items():
        limits[scenario] = max(limit, limits.get(scenario, 0))
    episodes = outcomes(run).filter(condition=ZERO_SHOT, protocol="mcqa").drop("condition")
    made = []
    for after in found:
        base = episodes.filter(pl.col("model") == after.before).drop("model", "cluster")
        pairs = episodes.filter(pl.col("model") == after.name).join(base, on=list(SAMPLE), suffix="_other")
        parts = {name: pairs.filter(pl.col("scenario") == name) for name in SCENARIOS}
        strata = {name: paired_strata(part, limits[name]) for name, part in parts.items() if part.height}
        groups = {name: [name] for name in strata}
        groups[TRAINED] = [name for name in strata if name in after.scenarios]
        groups[UNSEEN] = [name for name in strata if name not in after.scenarios]
        for label, names in groups.items():
            if names:
                number = sum(parts[name].height for name in names)
                right = [strata[name][0] for name in names]
                steps = [asked for name in names if (asked := strata[name][1]) is not None]
                made.append((after.before, after.stage, label, number, *_estimate(right), *_estimate(steps)))
    return pl.DataFrame(made, schema=PAIRED, orient="row")


def _estimate(strata: Sequence[Stratum]) -> tuple[float, float, float]:
    return sum(one.mean for one in strata) / len(strata), *score_interval(strata)


# -- shown -------------------------------------------------------------------------------------------------------------
def tables(found: Learned) -> Iterator[Table]:
    """Of each model: its table 3, the paper's where it has one, and what changed on the same samples."""
    for (model,), part in found.rows.group_by(["model"], maintain_order=True):
        yield _accuracies(str(model), part)
        if (paper := found.papers.get(str(model))) and paper in published()["model"]:
            yield _papers(paper, part)
        yield _changes(str(model), found.paired.filter(pl.col("model") == model))


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
    told = f"{row['acc']:.1f} /{row['ps']:4.1f}"
    return f"{told} ({row['lacking']} lack)" if row["lacking"] else told


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
def write(folder: Path, found: Learned) -> list[Path]:
    """``tables/learning.csv``, ``tables/learning-paired.csv`` and the figure; the files written."""
    places = [folder / "tables", folder / "figures"]
    for place in places:
        place.mkdir(exist_ok=True)
    written = [places[0] / "learning.csv", places[0] / "learning-paired.csv"]
    for path, frame in zip(written, (found.rows, found.paired), strict=True):
        atomic_write.write(path, frame.write_csv(float_precision=4).encode())
    with plot_style.house():
        drawn = figure(found.rows)
    return [*written, *plot_style.save(drawn, places[1], "learning")]


def figure(rows: pl.DataFrame) -> Figure:
    """Accuracy and suggestions of every stage, scenario by scenario; scenarios that were trained on have a star."""
    models = rows["model"].unique(maintain_order=True).to_list()
    drawn = plot_style.canvas(plot_style.PAGE, 2.6 * len(models))
    panels = drawn.subplots(len(models), 2, squeeze=False)
    for model, (left, right) in zip(models, panels, strict=True):
        mine = rows.filter(pl.col("model") == model)
        for panel, measure, label in ((left, "acc", "accuracy, %"), (right, "ps", "suggestions per episode")):
            _panel(panel, mine if measure == "acc" else mine.filter(pl.col("stage") != REFERENCE), measure)
            panel.set_xlabel(label)
        left.set_title(plot_style.short(model))
        left.legend()
    return drawn


def _panel(panel: Any, rows: pl.DataFrame, measure: str) -> None:
    domain = dict(rows.select("scenario", "in_domain").iter_rows())
    names = [name for name in SCENARIOS if name in domain][::-1]
    for number, (stage,) in enumerate(rows.select("stage").unique(maintain_order=True).iter_rows()):
        colour, marker = plot_style.series(number)
        found = dict(rows.filter(pl.col("stage") == stage).select("scenario", measure).iter_rows())
        shown = [(value, names.index(name)) for name, value in found.items() if value is not None]
        if shown:
            panel.plot(*zip(*shown, strict=True), marker, color=colour, markersize=4, label=stage, linestyle="none")
    panel.set_yticks(range(len(names)), [f"{name}*" if domain[name] else name for name in names])
