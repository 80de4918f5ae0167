"""The models of one run folder or several in one ranking, condition by condition, in multiple choice.

Models are ranked as in one run's report (``orchestrator.report.ranking``), on the samples that all of them answered; folders
whose samples are not the same are refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

from envs import in_order
from orchestrator.report.estimates import estimate
from orchestrator.report.ranking import ranking
from orchestrator.report.run_comparison import configuration, distinct
from orchestrator.report.run_data import RunData, Samples, several
from orchestrator.report.wording import counted
from orchestrator.storage.run_folder import RunFolderError
from sweeps.spec import ModelSpec, Protocol

BASELINE, PERSON = "baseline", "person"
KINDS = {"builtin": BASELINE, "human": PERSON}
"""Backend -> what a row is of, where it is no model."""
RANKED = ("rank", "rank_low", "rank_high", "p_best", "average")
MEASURED = ("acc", "acc_low", "acc_high", "ps", "ps_low", "ps_high")
SAMPLE = ["scenario", "condition", "sample_id"]


@dataclass(frozen=True)
class Entrant:
    """A model, a person or a baseline of one run."""

    name: str
    """As the leaderboard has it."""
    model: str
    """As its run has it."""
    run: str
    kind: str


@dataclass(frozen=True)
class Leaderboard:
    """What a leaderboard shows."""

    entrants: Mapping[str, Entrant]
    rows: pl.DataFrame
    """One row condition x entrant, best first: name, condition, ``RANKED`` (null where not ranked; ``average`` is of the
    samples that all ranked ones answered), ``MEASURED`` (percent, suggestions) over all that was played, scenarios, complete,
    planned, finished, errors."""
    cells: pl.DataFrame
    """One row condition x entrant x scenario: model, condition, scenario, ``MEASURED``, planned, finished, errors."""
    scenarios: tuple[str, ...]
    folders: Mapping[str, Path]
    """Run -> its folder."""
    notes: tuple[str, ...]


def leaderboard(
    given: Sequence[RunData | Path],
    data: Path | None = None,
    judge: str = "",
    strict: bool = False,
    cluster: str = "",
) -> Leaderboard:
    """The leaderboard of these runs; the other arguments are ``run_data.read``'s. Raises RunFolderError."""
    runs = [_choices(run) for run in several(given, data, judge, strict, cluster)]
    folders = [run.folder for run in runs]
    names = distinct(folders)
    if not any(run.planned.height for run in runs):
        raise RunFolderError(f"{', '.join(names)}: open-ended answers are not ranked here; `report` has their tables")
    _same_samples(runs, names)
    entrants = _entrants(runs, names)
    whole = _joined(runs, names, entrants)
    rows, cells = _rows(whole), estimate(whole).cells
    notes = [*_notes(runs, names), *_unranked(rows, entrants)]
    return Leaderboard(
        {one.name: one for one in entrants.values()}, rows, cells, tuple(in_order(cells["scenario"])),
        dict(zip(names, folders, strict=True)), tuple(notes),
    )  # fmt: skip


def _choices(run: RunData) -> RunData:
    """The run's multiple choice."""
    mine = pl.col("protocol") == "mcqa"
    return replace(run, planned=run.planned.filter(mine), episodes=run.episodes.filter(mine))


def _same_samples(runs: Sequence[RunData], names: Sequence[str]) -> None:
    """Raises RunFolderError where a number is another picture in another run."""
    known: dict[tuple[object, ...], tuple[str, str]] = {}
    for run, name in zip(runs, names, strict=True):
        first = run.turns.filter(pl.col("turn") == 0).select("key", "image")
        shown = run.episodes.lazy().select("key", *SAMPLE).join(first, on="key").select(*SAMPLE, "image").unique()
        for *sample, image in shown.collect().iter_rows():
            other, where = known.setdefault(tuple(sample), (image, name))
            if other != image:
                raise RunFolderError(
                    f"{where} and {name} have other pictures of {sample[0]} under the same id, so they are of different"
                    " data and in no ranking together"
                )


def _entrants(runs: Sequence[RunData], names: Sequence[str]) -> dict[tuple[str, str], Entrant]:
    """(run, model) -> the entrant; a name that several runs have is told apart by run, a baseline is the first run's."""
    found: list[tuple[str, ModelSpec]] = []
    for run, name in zip(runs, names, strict=True):
        there = {model.name for _, model in found}
        mine = [model for model in run.sweep.models if not (model.backend == "builtin" and model.name in there)]
        found += [(name, model) for model in mine if model.name in set(run.planned["model"])]
    often = Counter(model.name for _, model in found)
    return {
        (run, model.name): Entrant(
            model.name if often[model.name] == 1 else f"{model.name} ({run})", model.name, run,
            KINDS.get(model.backend, "model"),
        )
        for run, model in found
    }  # fmt: skip


def _joined(runs: Sequence[RunData], names: Sequence[str], entrants: Mapping[tuple[str, str], Entrant]) -> RunData:
    """All of it as one run, under the entrants' names."""
    planned, episodes, models = [], [], []
    samples: Samples = {}
    for run, name in zip(runs, names, strict=True):
        mine = {model: entrant.name for (where, model), entrant in entrants.items() if where == name}
        planned.append(_renamed(run.planned, mine))
        episodes.append(_renamed(run.episodes, mine))
        models += [one.model_copy(update={"name": mine[one.name]}) for one in run.sweep.models if one.name in mine]
        samples = {**run.samples, **samples}
    conditions = {one.name: one for run in runs for one in run.sweep.conditions}
    sweep = runs[0].sweep.model_copy(update={"models": tuple(models), "conditions": tuple(conditions.values())})
    return replace(runs[0], sweep=sweep, planned=pl.concat(planned), episodes=pl.concat(episodes), samples=samples)


def _renamed(rows: pl.DataFrame, names: Mapping[str, str]) -> pl.DataFrame:
    """The rows of these models under other names, in their cells' names too."""
    model = pl.col("model").replace_strict(names, return_dtype=pl.String) if names else pl.col("model")
    rest = pl.col("cell").str.splitn("/", 2).struct[1]
    return rows.filter(pl.col("model").is_in(list(names))).with_columns(
        model.alias("model"), pl.concat_str(model, rest, separator="/").alias("cell")
    )


def _rows(run: RunData) -> pl.DataFrame:
    averages = estimate(run).averages.rename({"model": "name"})
    counts = run.rows.group_by("model", "condition").agg(pl.col("planned", "finished", "errors").sum())
    ranks = [
        ranking(run, condition).select(pl.col("model").alias("name"), *RANKED, pl.lit(condition).alias("condition"))
        for condition in averages["condition"].unique()
    ]
    rows = averages.select("name", "condition", *MEASURED, "scenarios", "complete")
    rows = rows.join(counts.rename({"model": "name"}), on=["name", "condition"])
    rows = rows.join(pl.concat(ranks), on=["name", "condition"], how="left")
    place = {one.name: number for number, one in enumerate(run.sweep.conditions)}
    order = pl.col("condition").replace_strict(place, return_dtype=pl.Int64)
    return rows.sort(order, "rank", "acc", "name", descending=[False, False, True, False], nulls_last=True)


def _notes(runs: Sequence[RunData], names: Sequence[str]) -> list[str]:
    """What differs in configuration, what is not shown, and what each run says of itself."""
    notes = []
    for run, name in zip(runs[1:], names[1:], strict=True):
        told = configuration(runs[0], run, names[0], name)
        notes += [line for line in told if not line.startswith(("models: ", "name: "))]
    for run, name in zip(runs, names, strict=True):
        if any(protocol != "mcqa" for protocol in run.sweep.protocols):
            notes.append(f"{name} has {_apart(run.sweep.protocols)} too, which are not ranked here")
        notes += [f"{name}: {line}" for line in run.notes if not line.startswith("the data folder is not at hand")]
    return notes


def _apart(protocols: Sequence[Protocol]) -> str:
    """What a run has beside letters."""
    kinds = {"open-ended answers" if protocol.in_words else protocol.told for protocol in protocols}
    return " and ".join(sorted(kinds - {Protocol.MCQA.told}))


def _unranked(rows: pl.DataFrame, entrants: Mapping[tuple[str, str], Entrant]) -> list[str]:
    """How many are in no ranking of a condition, and why."""
    baselines = [one.name for one in entrants.values() if one.kind == "baseline"]
    without = rows.filter(pl.col("rank").is_null() & ~pl.col("name").is_in(baselines))
    return [
        f"{condition}: {counted(part.height, 'row')} without a rank, which needs two models that have completed all scenarios"
        for (condition,), part in without.group_by(["condition"], maintain_order=True)
    ]
