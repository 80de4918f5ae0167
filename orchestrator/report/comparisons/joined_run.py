"""Several runs as one, in which their multiple-choice models, people and baselines are ranked like those of one run."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import polars as pl

from envs.errors import RunFolderError
from envs.types import Sample
from orchestrator.report.comparisons.run_comparison import describe_differences, distinct_names, refuse_other_pictures
from orchestrator.report.read_run import NO_DATA
from orchestrator.report.run_data import RunData
from orchestrator.report.tables.evidence import answer_table, ranking_table
from orchestrator.report.tables.model_input import add_notes, joint_input_notes
from orchestrator.report.tables.paper_tables import result_tables
from orchestrator.report.tables.table import Table, drop_empty_columns


def join_runs(runs: Sequence[RunData]) -> tuple[RunData, list[Table]]:
    """Return the runs as one, with notes on their differences, and its tables: who asks, the ranks, and one per condition.

    Raises RunFolderError if their pictures differ or none has multiple choice.
    """
    mcqa = pl.col("protocol") == "mcqa"
    runs = [replace(run, planned=run.planned.filter(mcqa), episodes=run.episodes.filter(mcqa)) for run in runs]
    named = dict(zip(distinct_names([run.folder for run in runs]), runs, strict=True))
    if not any(run.planned.height for run in runs):
        raise RunFolderError(f"{', '.join(named)}: open-ended answers are not ranked; `report` shows their tables")
    refuse_other_pictures(named)
    joined, inputs = _join(named), joint_input_notes(named)
    tables = answer_table(joined), ranking_table(joined), *result_tables(joined.rows, joined.baselines)
    opened = (replace(drop_empty_columns(table), fold_baselines=True, is_open=True) for table in tables if table.rows)
    return joined, [add_notes(table, inputs) for table in opened]


def _join(runs: Mapping[str, RunData]) -> RunData:
    """Return the runs as one; a model of several runs gets its run in brackets, a baseline is that of the first run."""
    owners: dict[str, list[str]] = {}
    for name, run in runs.items():
        for model in sorted(set(run.planned["model"])):
            if not (model in run.baselines and model in owners):
                owners.setdefault(model, []).append(name)
    planned, episodes, models, samples = [], [], [], dict[str, Mapping[int, Sample]]()
    for run_name, run in runs.items():
        names = {
            model: model if len(named) == 1 else f"{model} ({run_name})"
            for model, named in owners.items()
            if run_name in named
        }
        planned.append(_rename_models(run.planned, names))
        episodes.append(_rename_models(run.episodes, names))
        specs = [spec for spec in run.sweep.models if spec.name in names]
        models += [spec.model_copy(update={"name": names[spec.name]}) for spec in specs]
        samples = {**run.samples, **samples}
    first = next(iter(runs.values()))
    conditions = {spec.name: spec for run in runs.values() for spec in run.sweep.conditions}
    sweep = first.sweep.model_copy(update={"models": tuple(models), "conditions": tuple(conditions.values())})
    return replace(
        first, sweep=sweep, planned=pl.concat(planned), episodes=pl.concat(episodes), samples=samples,
        notes=tuple(_notes(runs)),
    )  # fmt: skip


def _rename_models(rows: pl.DataFrame, names: Mapping[str, str]) -> pl.DataFrame:
    rows = rows.filter(pl.col("model").is_in(list(names)))
    model = pl.col("model").replace_strict(names, return_dtype=pl.String) if names else pl.col("model")
    rest = pl.col("cell").str.splitn("/", 2).struct[1]
    return rows.with_columns(model.alias("model"), pl.concat_str(model, rest, separator="/").alias("cell"))


def _notes(runs: Mapping[str, RunData]) -> Iterator[str]:
    """Yield who is a person, differences of configuration, and the notes of each run, as sentences."""
    people = [model.name for run in runs.values() for model in run.sweep.models if model.backend == "human"]
    yield from (f"{name} is a person" for name in people)
    yield from (line for line in describe_differences(runs) if not line.startswith(("models: ", "name: ")))
    for name, run in runs.items():
        yield from (f"{name}: {line}" for line in run.notes if not line.startswith(NO_DATA))
