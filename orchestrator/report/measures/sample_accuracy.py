"""The share of models that are right on each sample, with its interval, and the samples that are hardest.

Counted over the models' multiple-choice episodes, without the reference condition and the conditions that hide the picture.
Baselines are left out because they answer by rule or by chance.
"""

from functools import lru_cache

import numpy as np
import polars as pl

from envs import in_paper_order
from envs.types import Mode
from orchestrator.report.measures.estimates import proportion
from orchestrator.report.run_data import RunData, cached_per_run, rank_of
from orchestrator.report.statistics.intervals import Estimate, stratum_from_values
from sweeps.protocol import ZERO_SHOT

FEWEST_MODELS = 3
"""A scenario that fewer models played has no rows."""
SAMPLE = ["scenario", "sample_id"]
SCHEMA = {
    "scenario": pl.String,
    **dict.fromkeys(("sample_id", "answers", "right"), pl.Int64),
    **dict.fromkeys(("share", "share_low", "share_high"), pl.Float64),
    **dict.fromkeys(("all_right", "all_wrong"), pl.Boolean),
    "example": pl.String,
}


@cached_per_run
def sample_accuracy(run_data: RunData) -> pl.DataFrame:
    """Return one row per sample, hardest first in each scenario.

    Columns: scenario, sample_id, answers and right (counts over models and conditions), share (percent of the answers that
    are right) with its 95% interval share_low and share_high, all_right, all_wrong, and example, the key of one episode: a
    wrong one under zero-shot if there is one. The interval takes models as drawn at random; all answers of one model are one
    cluster. Samples are ordered by share_high, so that few answers do not make a sample hard, then by id.
    """
    answers = _model_answers(run_data)
    scenarios = answers.group_by("scenario").agg(pl.col("model").n_unique()).filter(pl.col("model") >= FEWEST_MODELS)
    answers = answers.join(scenarios.select("scenario"), on="scenario", how="semi")
    by_model = answers.group_by(*SAMPLE, "model").agg(pl.col("correct").cast(pl.Int64).sum(), pl.len().cast(pl.Int64))
    counts = by_model.sort("correct", "len").group_by(SAMPLE).agg("correct", "len")
    patterns = counts.select("correct", "len").iter_rows()
    intervals = [_estimate_share(tuple(zip(*pattern, strict=True))) for pattern in patterns]
    schema = dict.fromkeys(("share", "share_low", "share_high"), pl.Float64)
    shares = pl.DataFrame(intervals, schema=schema, orient="row")
    right, total = pl.col("correct").list.sum(), pl.col("len").list.sum()
    rows = counts.select(*SAMPLE, right.alias("right"), total.alias("answers")).hstack(shares)
    rows = rows.with_columns(all_right=pl.col("right") == pl.col("answers"), all_wrong=pl.col("right") == 0)
    rows = rows.join(_pick_examples(answers), on=SAMPLE).select(
        pl.col(name).cast(kind) for name, kind in SCHEMA.items()
    )
    scenario = rank_of("scenario", in_paper_order(rows["scenario"]))
    return rows.sort(scenario, pl.col("share_high").round(6), "sample_id")


def hardest_samples(run_data: RunData, count: int) -> pl.DataFrame:
    """Return the first ``count`` rows of each scenario of ``sample_accuracy``."""
    return sample_accuracy(run_data).group_by("scenario", maintain_order=True).head(count)


def _model_answers(run_data: RunData) -> pl.DataFrame:
    conditions = run_data.conditions.items()
    hidden = [name for name, condition in conditions if condition.mode is Mode.REFERENCE or condition.hides_picture]
    models = ~pl.col("model").is_in(list(run_data.baselines))
    return run_data.scored.filter(models & ~pl.col("condition").is_in(hidden), protocol="mcqa")


@lru_cache(maxsize=100_000)
def _estimate_share(pattern: tuple[tuple[int, int], ...]) -> Estimate:
    """Return the percentage of right answers and its interval from each model's (right answers, answers)."""
    values = np.concatenate([np.arange(total) < hits for hits, total in pattern]).astype(np.int64)
    answers = [total for _, total in pattern]
    models = np.repeat(np.arange(len(pattern)), answers) if max(answers) > 1 else None
    return proportion(stratum_from_values(100 * values, 0, 100, models))


def _pick_examples(answers: pl.DataFrame) -> pl.DataFrame:
    """Return the key of one episode to look at for each sample."""
    first = answers.sort("correct", pl.col("condition") != ZERO_SHOT, "model", "condition", "key")
    return first.group_by(SAMPLE, maintain_order=True).agg(pl.col("key").first().alias("example"))
