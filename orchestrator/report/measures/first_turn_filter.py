"""The filter of the paper's section 3.3, recomputed from a run: it drops samples that many models get right at once.

A missing answer does not count as wrong: a sample stays undecided while its missing answers could decide it.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import polars as pl
from polars import selectors as cs

from envs import in_paper_order
from envs.errors import RunFolderError
from envs.samples import paper_ids
from orchestrator.report.run_data import RunData, rank_of
from orchestrator.storage import safe_write
from orchestrator.storage.run_folder import planned_keys
from sweeps.protocol import ZERO_SHOT

PROTOCOL = "mcqa"
TOTAL = "all"
SAMPLE = ("scenario", "sample_id")


@dataclass(frozen=True, slots=True)
class FirstTurns:
    """First-turn answers of the models of a run, for every planned sample."""

    models: tuple[str, ...]
    samples: pl.DataFrame
    """One row per sample: scenario, sample_id, models (planned), right, wrong, lacking (the last three add up to models)."""

    def decide(self, percent: int) -> pl.DataFrame:
        """Return ``samples`` with ``needed`` (right models that drop it) and ``kept``: true, false, or null if undecided."""
        rows = self.samples.with_columns(needed=(percent * pl.col("models") + 99) // 100)
        dropped, safe = pl.col("right") >= pl.col("needed"), pl.col("right") + pl.col("lacking") < pl.col("needed")
        return rows.with_columns(kept=pl.when(dropped).then(False).when(safe).then(True))

    def ids(self, percent: int) -> dict[str, list[int]]:
        """Return the ids that are certainly kept, by scenario, as ``selection.ids_file`` reads them."""
        kept_samples = self.decide(percent).filter("kept")
        scenarios = in_paper_order(self.samples["scenario"])
        return {name: sorted(kept_samples.filter(scenario=name)["sample_id"]) for name in scenarios}


def first_turns(run_data: RunData) -> FirstTurns:
    """Return which models were right at the first turn of zero-shot multiple choice.

    Policies and people count only if nothing else was played. Raises RunFolderError if the run is over the filtered samples or
    has no such cells.
    """
    if run_data.sweep.selection.filtered:
        raise RunFolderError(
            f"{run_data.folder} has only the samples that the paper's filter keeps, and the filter is computed from all samples: "
            "run the sweep with --set selection.filtered=false into another folder"
        )
    played = {model.name: model for model in run_data.sweep.models}
    answering = [name for name, model in played.items() if model.backend not in ("builtin", "human")]
    names = answering or list(played)
    cells = run_data.planned.filter(pl.col("model").is_in(names), condition=ZERO_SHOT, protocol=PROTOCOL)
    if cells.is_empty():
        raise RunFolderError(
            f"{run_data.folder} has no zero-shot multiple choice, from whose first turns the filter is computed"
        )
    answered = run_data.scored.join(cells.select("cell"), on="cell", how="semi")
    answers = answered.select("model", *SAMPLE, (pl.col("correct") & (pl.col("turns") == 1)).alias("right"))
    right = pl.col("right")
    counts = answers.group_by(SAMPLE).agg(right.sum().cast(pl.Int64), (~right).sum().cast(pl.Int64).alias("wrong"))
    rows = _planned_samples(run_data, cells).join(counts, on=SAMPLE, how="left")
    rows = rows.with_columns(pl.col("right", "wrong").fill_null(0))
    rows = rows.with_columns(lacking=pl.col("models") - right - pl.col("wrong")).sort(SAMPLE)
    return FirstTurns(tuple(names), rows)


def threshold_counts(turns: FirstTurns, percent: int) -> pl.DataFrame:
    """Return one row per scenario, and ``all``, with the effect of a threshold.

    Columns: samples, kept, gone, undecided; published (how many of these samples the paper keeps) and shared (kept by both),
    null for a scenario that the paper does not have.
    """
    decided = turns.decide(percent)
    published_ids = [(name, number, True) for name, numbers in paper_ids().items() for number in numbers]
    schema = {"scenario": pl.String, "sample_id": pl.Int64, "paper": pl.Boolean}
    published = pl.DataFrame(published_ids, schema=schema, orient="row")
    rows = decided.join(published, on=SAMPLE, how="left").with_columns(pl.col("paper").fill_null(False))
    ours = pl.col("kept").fill_null(False)
    counts = rows.group_by("scenario").agg(
        pl.len().alias("samples"), ours.sum().alias("kept"), (~pl.col("kept")).sum().alias("gone"),
        pl.col("kept").is_null().sum().alias("undecided"), pl.col("paper").sum().alias("published"),
        (ours & pl.col("paper")).sum().alias("shared"),
    ).cast({cs.exclude("scenario"): pl.Int64})  # fmt: skip
    foreign = ~pl.col("scenario").is_in(list(paper_ids()))
    counts = counts.with_columns(pl.when(foreign).then(None).otherwise(pl.col("published", "shared")).name.keep())
    ordered = counts.sort(rank_of("scenario", in_paper_order(counts["scenario"])))
    total = ordered.select(pl.lit(TOTAL).alias("scenario"), cs.integer().sum())
    return pl.concat([ordered, total.select(ordered.columns)])


def write_ids(turns: FirstTurns, percent: int, file: Path) -> None:
    """Write the kept ids as JSON, for ``selection.ids_file``. Raises OSError."""
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(numbers)}" for name, numbers in turns.ids(percent).items())
    safe_write.write(file, f"{{\n{lines}\n}}\n".encode())


def _planned_samples(run_data: RunData, cells: pl.DataFrame) -> pl.DataFrame:
    """Return scenario, sample_id and models of every planned sample, from the planned keys."""
    keys = planned_keys(run_data.folder)
    if keys is None:
        raise RunFolderError(
            f"{run_data.folder} has no record of the planned samples; rerun the `run` command that created it, "
            "which writes the record and replays nothing"
        )
    samples = keys.select(
        pl.col("key").str.replace(r"/[^/]*$", "").alias("cell"),
        pl.col("key").str.extract(r"/(\d+)-[^/]*$", 1).cast(pl.Int64).alias("sample_id"),
    )
    planned = samples.join(cells.lazy().select("cell", "scenario"), on="cell")
    return planned.group_by(SAMPLE).agg(pl.len().cast(pl.Int64).alias("models")).collect()
