"""The filter of the paper's section 3.3, made again from a run: samples that many models answer rightly at the first turn go.

Nothing that is missing counts as wrong: a sample stays undecided as long as the answers that it lacks could decide it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl
from scipy.stats import binom  # type: ignore[import-untyped]

from envs import in_order
from envs.samples import kept
from envs.types import UNSCORED
from orchestrator.report.run_data import RunData
from orchestrator.storage import atomic_write
from orchestrator.storage.lock import RunFolderError
from orchestrator.storage.run_folder import planned_keys
from sweeps.load import SweepError

CONDITION, PROTOCOL = "zero-shot", "mcqa"
THRESHOLDS = (15, 25, 30, 40)
"""Percent of the models; 25 is the paper's, the others are those of its appendix A.8."""
PAPERS = 25
CHANCE, ALPHA, RATE = 0.25, 0.05, 0.40
"""What a guess among four categories gives; the level of the test that the paper weighs its rule against; and the first-turn
rate at which it tells the recall of both (A.8)."""
TOTAL = "all"
SAMPLE = ("scenario", "sample_id")


@dataclass(frozen=True, slots=True)
class FirstTurns:
    """What the models of a run did at the first turn of every planned sample."""

    models: tuple[str, ...]
    samples: pl.DataFrame
    """One row a sample: scenario, sample_id, models (that are to play it), right, wrong, lacking (their sum is models)."""
    rates: pl.DataFrame
    """One row an answered episode: model, scenario, sample_id, right."""

    def decided(self, percent: int) -> pl.DataFrame:
        """``samples`` with ``needed`` (right models at which one goes) and ``kept``: true, false, or null while undecided."""
        rows = self.samples.with_columns(needed=(percent * pl.col("models") + 99) // 100)
        gone, stays = pl.col("right") >= pl.col("needed"), pl.col("right") + pl.col("lacking") < pl.col("needed")
        return rows.with_columns(kept=pl.when(gone).then(False).when(stays).then(True))

    def ids(self, percent: int) -> dict[str, list[int]]:
        """Scenario -> ids that are kept for certain; what ``selection.ids_file`` takes."""
        stay = self.decided(percent).filter("kept")
        return {name: sorted(stay.filter(scenario=name)["sample_id"]) for name in in_order(self.samples["scenario"])}


def first_turns(run_data: RunData, models: Sequence[str] = ()) -> FirstTurns:
    """Who was right at the first turn of zero-shot multiple choice, where no model has had help yet.

    ``models`` names whom to ask; left out, all but policies and people, or the policies where nothing else was played. Raises
    RunFolderError where the run is over the filtered samples or has none of these cells, SweepError for an unknown name.
    """
    if run_data.sweep.selection.filtered:
        raise RunFolderError(
            f"{run_data.folder} was played over the samples that the paper's filter keeps; the filter is made from all of them: "
            "run the sweep with --set selection.filtered=false into another folder"
        )
    chosen = _asked(run_data, models)
    cells = run_data.planned.filter(pl.col("model").is_in(chosen), condition=CONDITION, protocol=PROTOCOL)
    if cells.is_empty():
        raise RunFolderError(
            f"{run_data.folder} plays no zero-shot multiple choice, whose first turn the filter looks at"
        )
    answered = run_data.episodes.join(cells.select("cell"), on="cell", how="semi").filter(
        ~pl.col("ending").is_in(UNSCORED)
    )
    right = (pl.col("correct") & (pl.col("turns") == 1)).alias("right")
    rates = answered.select("model", *SAMPLE, right)
    counts = rates.group_by(SAMPLE).agg(
        pl.col("right").sum().cast(pl.Int64), (~pl.col("right")).sum().cast(pl.Int64).alias("wrong")
    )
    rows = (
        _planned(run_data, cells)
        .join(counts, on=SAMPLE, how="left")
        .with_columns(pl.col("right", "wrong").fill_null(0))
    )
    rows = rows.with_columns(lacking=pl.col("models") - pl.col("right") - pl.col("wrong")).sort(SAMPLE)
    return FirstTurns(tuple(chosen), rows, rates)


def kept_counts(found: FirstTurns, percent: int) -> pl.DataFrame:
    """One row a scenario, and ``all``: what a threshold does to it.

    samples, kept, gone, undecided; published (of these samples, those that the paper keeps) and shared (kept by both), null for
    a scenario that is not the paper's; first_turn and first_turn_kept, the percent answered rightly at the first turn over all
    samples and over the kept ones: mean over models, and of ``all`` the unweighted mean over scenarios.
    """
    decided = found.decided(percent)
    known = [(name, number) for name in in_order(decided["scenario"]) for number in kept().get(name, ())]
    papers = pl.DataFrame(known, schema={"scenario": pl.String, "sample_id": pl.Int64}, orient="row")
    rows = decided.join(papers.with_columns(paper=True), on=SAMPLE, how="left").with_columns(
        pl.col("paper").fill_null(False)
    )
    ours = pl.col("kept").fill_null(False)
    counts = rows.group_by("scenario").agg(
        *[expression.cast(pl.Int64) for expression in (
            pl.len().alias("samples"), ours.sum().alias("kept"), (~pl.col("kept")).sum().alias("gone"),
            pl.col("kept").is_null().sum().alias("undecided"), pl.col("paper").sum().alias("published"),
            (ours & pl.col("paper")).sum().alias("shared"),
        )]
    )  # fmt: skip
    foreign = ~pl.col("scenario").is_in(list(kept()))
    counts = counts.with_columns(pl.when(foreign).then(None).otherwise(pl.col("published", "shared")).name.keep())
    stay = found.rates.join(decided.filter("kept"), on=SAMPLE, how="semi")
    counts = counts.join(_rate(found.rates, "first_turn"), on="scenario", how="left")
    counts = counts.join(_rate(stay, "first_turn_kept"), on="scenario", how="left")
    places = {name: place for place, name in enumerate(in_order(counts["scenario"]))}
    ordered = counts.sort(pl.col("scenario").replace_strict(places, return_dtype=pl.Int64))
    numbers = [name for name in ordered.columns if name != "scenario"]
    means = [pl.col(name).mean() if name.startswith("first_turn") else pl.col(name).sum() for name in numbers]
    whole = ordered.select(pl.lit(TOTAL).alias("scenario"), *means)
    return pl.concat([ordered, whole])


def needed(percent: int, models: int) -> int:
    """The fewest models that are at least so many percent of them: 6 of 22 at 25."""
    return -(-percent * models // 100)


def binomial_needs(models: int) -> int:
    """The fewest right models at which a one-sided binomial test rejects that they all guess: 10 of 22 at level 0.05."""
    return int(binom.isf(ALPHA, models, CHANCE)) + 1


def recall(need: int, models: int, rate: float = RATE) -> float:
    """Percent of samples with this first-turn rate that go where so many right models suffice: models draw independently."""
    return 100 * float(binom.sf(need - 1, models, rate))


def write_ids(found: FirstTurns, percent: int, file: Path) -> None:
    """The kept ids as JSON, for ``selection.ids_file``. Raises OSError."""
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(numbers)}" for name, numbers in found.ids(percent).items())
    atomic_write.write(file, f"{{\n{lines}\n}}\n".encode())


def _asked(run_data: RunData, names: Sequence[str]) -> list[str]:
    played = {model.name: model for model in run_data.sweep.models}
    for name in names:
        if name not in played:
            raise SweepError(f"--models {name}: the run has no model of that name; it has {', '.join(played)}")
    answering = [name for name, model in played.items() if model.backend not in ("builtin", "human")]
    return list(dict.fromkeys(names)) or answering or list(played)


def _planned(run_data: RunData, cells: pl.DataFrame) -> pl.DataFrame:
    """Scenario, sample_id and models of every planned sample, by the keys that the folder was to play."""
    keys = planned_keys(run_data.folder)
    if keys is None:
        raise RunFolderError(
            f"{run_data.folder} does not say which samples were planned; the `run` command that made it writes it, and plays "
            "nothing twice"
        )
    named = keys.select(
        pl.col("key").str.replace(r"/[^/]*$", "").alias("cell"),
        pl.col("key").str.extract(r"/(\d+)-[^/]*$", 1).cast(pl.Int64).alias("sample_id"),
    )
    mine = named.join(cells.lazy().select("cell", "scenario"), on="cell")
    return mine.group_by(SAMPLE).agg(pl.len().cast(pl.Int64).alias("models")).collect()


def _rate(answered: pl.DataFrame, name: str) -> pl.DataFrame:
    """Scenario -> percent right, mean over models."""
    each = answered.group_by("scenario", "model").agg(pl.col("right").mean())
    return each.group_by("scenario").agg((100 * pl.col("right").mean()).alias(name))
