"""One ranking per condition of the multiple-choice models of one or more run folders.

Models are ranked as in one run's report (``orchestrator.report.measures.ranking``), on the samples that all of them answered.
Folders whose samples differ are refused.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import polars as pl

from envs.errors import RunFolderError
from orchestrator.report.comparisons.run_comparison import configuration_differences, distinct_names, first_pictures
from orchestrator.report.measures.estimates import estimate
from orchestrator.report.measures.ranking import ranking
from orchestrator.report.read_run import NO_DATA
from orchestrator.report.run_data import RunData, rank_of
from orchestrator.report.tables.evidence import answer_table, ranking_table
from orchestrator.report.tables.model_input import add_notes, joint_input_notes
from orchestrator.report.tables.paper_tables import result_tables
from orchestrator.report.tables.table import Table, drop_empty_columns

KINDS = {"builtin": "baseline", "human": "person"}
"""Backend -> kind of an entrant that is not a model."""
RANKED = ("rank", "rank_low", "rank_high", "average")
MEASURED = ("acc", "acc_low", "acc_high", "ps", "ps_low", "ps_high", "asks", "asks_low", "asks_high")


@dataclass(frozen=True)
class Leaderboard:
    """Ranked models, people and baselines of one or more runs."""

    rows: pl.DataFrame
    """One row per condition and entrant, best first: name (on the leaderboard), model (in its run), run, kind, condition,
    ``RANKED`` (null if not ranked; ``average`` is over the samples that all ranked entrants answered), ``MEASURED`` (percent,
    suggestions) over all episodes, scenarios, complete, planned, finished, errors."""
    cells: pl.DataFrame
    """One row per condition, entrant and scenario: model, condition, scenario, ``MEASURED``, planned, finished, errors."""
    joined: RunData
    """The runs as one, with the names of the leaderboard."""
    notes: tuple[str, ...]
    input_notes: tuple[str, ...] = ()
    """Sentences below every table on runs whose model input is not certified."""


def build_leaderboard(runs: Sequence[RunData]) -> Leaderboard:
    """Rank the models of these runs; raises RunFolderError if their pictures differ or none has multiple choice."""
    mcqa = pl.col("protocol") == "mcqa"
    runs = [replace(run, planned=run.planned.filter(mcqa), episodes=run.episodes.filter(mcqa)) for run in runs]
    by_name = dict(zip(distinct_names([run.folder for run in runs]), runs, strict=True))
    if not any(run.planned.height for run in runs):
        raise RunFolderError(f"{', '.join(by_name)}: open-ended answers are not ranked; `report` shows their tables")
    _check_same_samples(by_name)
    entrants = _name_entrants(by_name)
    joined = _join_runs(by_name, entrants)
    rows = entrants.join(_leaderboard_rows(joined), on="name", maintain_order="right")
    people = (f"{name} is a person" for name in entrants.filter(kind="person")["name"])
    notes, inputs = [*people, *_describe_runs(by_name)], joint_input_notes(by_name)
    return Leaderboard(rows, estimate(joined).cells, joined, tuple(notes), tuple(inputs))


def leaderboard_tables(leaderboard: Leaderboard) -> Iterator[Table]:
    """Yield whether each entrant asks, the ranks, and a table per condition, baselines last."""
    run = leaderboard.joined
    for table in (answer_table(run), ranking_table(run), *result_tables(run.rows, run.baselines)):
        if table.rows:
            yield add_notes(
                replace(drop_empty_columns(table), fold_baselines=True, is_open=True), leaderboard.input_notes
            )


def _check_same_samples(runs: Mapping[str, RunData]) -> None:
    """Raise RunFolderError if two runs have different pictures under one id."""
    same = ["scenario", "condition", "sample_id"]
    pictures = [first_pictures(run).select(*same, "image", pl.lit(name).alias("run")) for name, run in runs.items()]
    rows = pl.concat(pictures).unique([*same, "image"], keep="first", maintain_order=True)
    for scenario, names in rows.group_by(same, maintain_order=True).agg("run").select("scenario", "run").iter_rows():
        if len(names) > 1:
            raise RunFolderError(
                f"{names[0]} and {names[1]} have different pictures of {scenario} under the same id, so their data differ"
                " and they cannot be ranked together"
            )


def _name_entrants(runs: Mapping[str, RunData]) -> pl.DataFrame:
    """Return name, model, run and kind of each entrant.

    A name that occurs in several runs gets its run in brackets; a baseline is taken only from the first run that has it.
    """
    rows: list[tuple[str, str, str]] = []
    for name, run in runs.items():
        listed, planned = {model for model, _, _ in rows}, set(run.planned["model"])
        for model in run.sweep.models:
            kind = KINDS.get(model.backend, "model")
            if model.name in planned and not (kind == "baseline" and model.name in listed):
                rows.append((model.name, name, kind))
    frame = pl.DataFrame(rows, schema=dict.fromkeys(("model", "run", "kind"), pl.String), orient="row")
    is_alone = pl.len().over("model") == 1
    distinct = pl.when(is_alone).then("model").otherwise(pl.format("{} ({})", "model", "run")).alias("name")
    return frame.select(distinct, "model", "run", "kind")


def _join_runs(runs: Mapping[str, RunData], entrants: pl.DataFrame) -> RunData:
    planned, episodes, models, samples = [], [], [], dict[str, Mapping[int, object]]()
    for run_name, run in runs.items():
        names = dict(entrants.filter(run=run_name).select("model", "name").iter_rows())
        planned.append(_rename_models(run.planned, names))
        episodes.append(_rename_models(run.episodes, names))
        specs = [spec for spec in run.sweep.models if spec.name in names]
        models += [spec.model_copy(update={"name": names[spec.name]}) for spec in specs]
        samples = {**run.samples, **samples}
    first = next(iter(runs.values()))
    conditions = {spec.name: spec for run in runs.values() for spec in run.sweep.conditions}
    sweep = first.sweep.model_copy(update={"models": tuple(models), "conditions": tuple(conditions.values())})
    joined = {"planned": pl.concat(planned), "episodes": pl.concat(episodes), "samples": samples}
    return replace(first, sweep=sweep, **joined)  # type: ignore[arg-type]


def _rename_models(rows: pl.DataFrame, names: Mapping[str, str]) -> pl.DataFrame:
    rows = rows.filter(pl.col("model").is_in(list(names)))
    model = pl.col("model").replace_strict(names, return_dtype=pl.String) if names else pl.col("model")
    rest = pl.col("cell").str.splitn("/", 2).struct[1]
    return rows.with_columns(model.alias("model"), pl.concat_str(model, rest, separator="/").alias("cell"))


def _leaderboard_rows(run: RunData) -> pl.DataFrame:
    averages = estimate(run).averages.rename({"model": "name"})
    counts = run.rows.group_by("model", "condition").agg(pl.col("planned", "finished", "errors").sum())
    ranks = [
        ranking(run, condition).select(pl.col("model").alias("name"), *RANKED, pl.lit(condition).alias("condition"))
        for condition in averages["condition"].unique()
    ]
    rows = averages.select("name", "condition", *MEASURED, "scenarios", "complete")
    rows = rows.join(counts.rename({"model": "name"}), on=["name", "condition"])
    rows = rows.join(pl.concat(ranks), on=["name", "condition"], how="left")
    condition = rank_of("condition", [spec.name for spec in run.sweep.conditions])
    return rows.sort(condition, "rank", "acc", "name", descending=[False, False, True, False], nulls_last=True)


def _describe_runs(runs: Mapping[str, RunData]) -> Iterator[str]:
    """Yield the differences of configuration, and the notes of each run, as sentences."""
    (first, base), *others = runs.items()
    for name, run in others:
        changes = configuration_differences(base, run, first, name)
        yield from (line for line in changes if not line.startswith(("models: ", "name: ")))
    for name, run in runs.items():
        yield from (f"{name}: {line}" for line in run.notes if not line.startswith(NO_DATA))
