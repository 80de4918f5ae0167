"""One ranking per condition of the multiple-choice models of one or more run folders.

Models are ranked as in one run's report (``orchestrator.report.measures.ranking``), on the samples that all of them answered.
Folders whose samples differ are refused.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

from envs import in_paper_order
from envs.errors import RunFolderError
from envs.plural import pluralize
from orchestrator.report.comparisons.run_comparison import configuration_differences, distinct_names
from orchestrator.report.measures.estimates import estimate
from orchestrator.report.measures.ranking import ranking
from orchestrator.report.read_run import NO_DATA
from orchestrator.report.run_data import RunData, Samples, rank_of
from orchestrator.report.tables.model_input import joint_input_notes
from sweeps.spec import ModelSpec, Protocol

BASELINE, PERSON = "baseline", "person"
KINDS = {"builtin": BASELINE, "human": PERSON}
"""Backend -> kind of an entrant that is not a model."""
RANKED = ("rank", "rank_low", "rank_high", "average")
MEASURED = ("acc", "acc_low", "acc_high", "ps", "ps_low", "ps_high", "asks", "asks_low", "asks_high")
SAMPLE = ["scenario", "condition", "sample_id"]


@dataclass(frozen=True)
class Entrant:
    """A model, a person or a baseline of one run."""

    name: str
    """Name on the leaderboard."""
    model: str
    """Name in its run."""
    run: str
    kind: str


@dataclass(frozen=True)
class Leaderboard:
    """Ranked entrants of one or more runs."""

    entrants: Mapping[str, Entrant]
    rows: pl.DataFrame
    """One row per condition and entrant, best first: name, condition, ``RANKED`` (null if not ranked; ``average`` is over the
    samples that all ranked entrants answered), ``MEASURED`` (percent, suggestions) over all episodes, scenarios, complete,
    planned, finished, errors."""
    cells: pl.DataFrame
    """One row per condition, entrant and scenario: model, condition, scenario, ``MEASURED``, planned, finished, errors."""
    scenarios: tuple[str, ...]
    folders: Mapping[str, Path]
    """Run -> its folder."""
    notes: tuple[str, ...]
    input_notes: tuple[str, ...] = ()
    """Sentences below every table on runs whose model input is not certified."""


def build_leaderboard(runs: Sequence[RunData]) -> Leaderboard:
    """Rank the models of these runs; raises RunFolderError if their pictures differ or none has multiple choice."""
    runs = [_multiple_choice(run) for run in runs]
    folders = [run.folder for run in runs]
    names = distinct_names(folders)
    if not any(run.planned.height for run in runs):
        raise RunFolderError(f"{', '.join(names)}: open-ended answers are not ranked; `report` shows their tables")
    _check_same_samples(runs, names)
    entrants = _name_entrants(runs, names)
    joined = _join_runs(runs, names, entrants)
    rows, cells = _leaderboard_rows(joined), estimate(joined).cells
    notes = [*_describe_runs(runs, names), *_describe_unranked(rows, entrants)]
    return Leaderboard(
        {entrant.name: entrant for entrant in entrants.values()}, rows, cells, tuple(in_paper_order(cells["scenario"])),
        dict(zip(names, folders, strict=True)), tuple(notes), tuple(joint_input_notes(dict(zip(names, runs, strict=True)))),
    )  # fmt: skip


def _multiple_choice(run: RunData) -> RunData:
    """Return the run's multiple-choice episodes."""
    multiple_choice = pl.col("protocol") == "mcqa"
    return replace(run, planned=run.planned.filter(multiple_choice), episodes=run.episodes.filter(multiple_choice))


def _check_same_samples(runs: Sequence[RunData], names: Sequence[str]) -> None:
    """Raise RunFolderError if two runs have different pictures under one id."""
    first_pictures: dict[tuple[object, ...], tuple[str, str]] = {}
    for run, name in zip(runs, names, strict=True):
        first = run.turns.filter(pl.col("turn") == 0).select("key", "image")
        pictures = run.episodes.lazy().select("key", *SAMPLE).join(first, on="key").select(*SAMPLE, "image").unique()
        for *sample, image in pictures.collect().iter_rows():
            first_image, first_run = first_pictures.setdefault(tuple(sample), (image, name))
            if first_image != image:
                raise RunFolderError(
                    f"{first_run} and {name} have different pictures of {sample[0]} under the same id, so their data differ"
                    " and they cannot be ranked together"
                )


def _name_entrants(runs: Sequence[RunData], names: Sequence[str]) -> dict[tuple[str, str], Entrant]:
    """Return the entrant of each (run, model).

    A name that occurs in several runs gets its run in brackets; a baseline is taken only from the first run that has it.
    """
    entries: list[tuple[str, ModelSpec]] = []
    for run, name in zip(runs, names, strict=True):
        listed, planned = {model.name for _, model in entries}, set(run.planned["model"])
        models = [model for model in run.sweep.models if model.name in planned]
        entries += [(name, model) for model in models if model.backend != "builtin" or model.name not in listed]
    counts = Counter(model.name for _, model in entries)
    entrants = {}
    for run_name, model in entries:
        name = model.name if counts[model.name] == 1 else f"{model.name} ({run_name})"
        entrants[run_name, model.name] = Entrant(name, model.name, run_name, KINDS.get(model.backend, "model"))
    return entrants


def _join_runs(runs: Sequence[RunData], names: Sequence[str], entrants: Mapping[tuple[str, str], Entrant]) -> RunData:
    """Join the runs into one, under the entrants' names."""
    planned, episodes, models = [], [], []
    samples: Samples = {}
    for run, name in zip(runs, names, strict=True):
        entrant_names = {model: entrant.name for (run_name, model), entrant in entrants.items() if run_name == name}
        planned.append(_rename_models(run.planned, entrant_names))
        episodes.append(_rename_models(run.episodes, entrant_names))
        specs = [spec for spec in run.sweep.models if spec.name in entrant_names]
        models += [spec.model_copy(update={"name": entrant_names[spec.name]}) for spec in specs]
        samples = {**run.samples, **samples}
    conditions = {spec.name: spec for run in runs for spec in run.sweep.conditions}
    sweep = runs[0].sweep.model_copy(update={"models": tuple(models), "conditions": tuple(conditions.values())})
    return replace(runs[0], sweep=sweep, planned=pl.concat(planned), episodes=pl.concat(episodes), samples=samples)


def _rename_models(rows: pl.DataFrame, names: Mapping[str, str]) -> pl.DataFrame:
    """Rename models in rows and in the names of cells."""
    model = pl.col("model").replace_strict(names, return_dtype=pl.String) if names else pl.col("model")
    rest = pl.col("cell").str.splitn("/", 2).struct[1]
    return rows.filter(pl.col("model").is_in(list(names))).with_columns(
        model.alias("model"), pl.concat_str(model, rest, separator="/").alias("cell")
    )


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


def _describe_runs(runs: Sequence[RunData], names: Sequence[str]) -> list[str]:
    """Return the differences of configuration, the protocols that are not ranked, and the notes of each run, as sentences."""
    notes = []
    for run, name in zip(runs[1:], names[1:], strict=True):
        changes = configuration_differences(runs[0], run, names[0], name)
        notes += [line for line in changes if not line.startswith(("models: ", "name: "))]
    for run, name in zip(runs, names, strict=True):
        if any(protocol != "mcqa" for protocol in run.sweep.protocols):
            notes.append(f"{name} has {_other_protocols(run.sweep.protocols)} too, which are not ranked here")
        notes += [f"{name}: {line}" for line in run.notes if not line.startswith(NO_DATA)]
    return notes


def _other_protocols(protocols: Sequence[Protocol]) -> str:
    """Name the protocols of a run other than multiple choice."""
    kinds = {"open-ended answers" if protocol.is_open_ended else protocol.label for protocol in protocols}
    return " and ".join(sorted(kinds - {Protocol.MCQA.label}))


def _describe_unranked(rows: pl.DataFrame, entrants: Mapping[tuple[str, str], Entrant]) -> list[str]:
    """Return one sentence per condition with the number of unranked rows and the reason."""
    baselines = [entrant.name for entrant in entrants.values() if entrant.kind == "baseline"]
    unranked = rows.filter(pl.col("rank").is_null() & ~pl.col("name").is_in(baselines))
    return [
        f"{condition}: {pluralize(part.height, 'row')} without a rank, which needs two models that have completed all scenarios"
        for (condition,), part in unranked.group_by(["condition"], maintain_order=True)
    ]
