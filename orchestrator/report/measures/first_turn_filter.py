"""The filter of the paper's section 3.3, recomputed from a run: it drops samples that many models get right at once.

A missing answer does not count as wrong: a sample stays undecided while its missing answers could decide it.
"""

import json
from pathlib import Path

import polars as pl

from envs import in_paper_order
from envs.errors import RunFolderError
from envs.samples import paper_ids
from orchestrator.report.run_data import RunData, rank_of
from orchestrator.storage import safe_write
from orchestrator.storage.run_folder import planned_keys
from sweeps.protocol import ZERO_SHOT

SAMPLE = ("scenario", "sample_id")


def filter_samples(run_data: RunData, percent: int) -> tuple[list[str], pl.DataFrame]:
    """Return the models that answer zero-shot multiple choice, and one row per planned sample.

    Columns: scenario, sample_id, models (planned), right, wrong, lacking (the last three add up to models), needed (right models
    that drop it) and kept: true, false, or null if undecided. Policies and people count only if nothing else was played. Raises
    RunFolderError if the run is over the filtered samples or has no such cells.
    """
    folder, played = run_data.folder, run_data.sweep.models
    if run_data.sweep.selection.filtered:
        raise RunFolderError(
            f"{folder} has only the samples that the paper's filter keeps, and the filter is computed from all samples: "
            "run the sweep with --set selection.filtered=false into another folder"
        )
    names = [model.name for model in played if model.backend not in ("builtin", "human")]
    names = names or [model.name for model in played]
    cells = run_data.planned.filter(pl.col("model").is_in(names), condition=ZERO_SHOT, protocol="mcqa")
    keys = planned_keys(folder)
    if cells.is_empty() or keys is None:
        raise RunFolderError(f"{folder} has no record of zero-shot multiple choice, from which the filter is computed")
    sample_id = pl.col("key").str.extract(r"/(\d+)-[^/]*$", 1).cast(pl.Int64).alias("sample_id")
    planned = keys.select(pl.col("key").str.replace(r"/[^/]*$", "").alias("cell"), sample_id)
    planned = planned.join(cells.lazy().select("cell", "scenario"), on="cell").group_by(SAMPLE).agg(models=pl.len())
    answered, right = run_data.scored.join(cells, on="cell", how="semi"), pl.col("correct") & (pl.col("turns") == 1)
    counts = answered.group_by(SAMPLE).agg(right=right.sum(), wrong=(~right).sum())
    rows = planned.collect().join(counts, on=SAMPLE, how="left").with_columns(pl.col("right", "wrong").fill_null(0))
    rows = rows.with_columns(pl.exclude(SAMPLE).cast(pl.Int64))
    lacking, needed = pl.col("models") - pl.col("right") - pl.col("wrong"), (percent * pl.col("models") + 99) // 100
    rows = rows.with_columns(lacking=lacking, needed=needed)
    dropped, safe = pl.col("right") >= pl.col("needed"), pl.col("right") + pl.col("lacking") < pl.col("needed")
    return names, rows.with_columns(kept=pl.when(dropped).then(False).when(safe).then(True)).sort(SAMPLE)


def kept_ids(samples: pl.DataFrame) -> dict[str, list[int]]:
    """Return the ids that are certainly kept, by scenario, as ``selection.ids_file`` reads them."""
    chosen = samples.filter("kept")
    return {name: chosen.filter(scenario=name)["sample_id"].to_list() for name in in_paper_order(samples["scenario"])}


def count_samples(samples: pl.DataFrame) -> pl.DataFrame:
    """Return one row per scenario, and ``all``: samples, kept, gone, undecided, published (how many the paper keeps), shared.

    ``published`` and ``shared`` (kept by both) are null for a scenario that the paper does not have.
    """
    ids, kept = paper_ids(), pl.col("kept").fill_null(False)
    paper = [number in ids[name] if name in ids else None for name, number in samples.select(SAMPLE).iter_rows()]
    counts = samples.with_columns(pl.Series("paper", paper, pl.Boolean)).group_by("scenario").agg(
        samples=pl.len(), kept=kept.sum(), gone=(~pl.col("kept")).sum(), undecided=pl.col("kept").null_count(),
        published=pl.when(pl.col("paper").count() > 0).then(pl.col("paper").sum()),
        shared=pl.when(pl.col("paper").count() > 0).then((kept & pl.col("paper")).sum()),
    ).cast({pl.UInt32: pl.Int64})  # fmt: skip
    ordered = counts.sort(rank_of("scenario", in_paper_order(counts["scenario"])))
    return pl.concat([ordered, ordered.select(pl.lit("all").alias("scenario"), pl.exclude("scenario").sum())])


def write_ids(samples: pl.DataFrame, file: Path) -> None:
    """Write the kept ids as JSON, for ``selection.ids_file``. Raises OSError."""
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(numbers)}" for name, numbers in kept_ids(samples).items())
    safe_write.write(file, f"{{\n{lines}\n}}\n".encode())
