"""Which samples are hard, and what accuracy of each cell that leaves once chance is taken out.

Fitted scenario by scenario (``orchestrator.report.item_response``) over the models' episodes of multiple choice, the reference
condition apart; baselines answer by rule or by chance, which says nothing of a sample. A sample that every model has right, or
wrong, under every condition stays in the fit: its difficulty is as far out as that many equal answers allow, and no further.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import polars as pl

from envs import in_order
from envs.types import Mode
from orchestrator.report.item_response import Answers, Fitted, fit
from orchestrator.report.run_data import RunData, once

FEWEST_MODELS, FEWEST_SAMPLES = 3, 10
"""Fewer in a scenario say too little of its samples: nothing is fitted."""
CELL = ("model", "condition")
CELLS = {
    **dict.fromkeys(("model", "scenario", "condition"), pl.String),
    "n": pl.Int64,
    **dict.fromkeys(("acc", "acc_shrunk", "acc_shrunk_low", "acc_shrunk_high"), pl.Float64),
}
SAMPLES = {
    "scenario": pl.String,
    **dict.fromkeys(("sample_id", "answers", "right"), pl.Int64),
    **dict.fromkeys(("difficulty", "expected", "expected_low", "expected_high"), pl.Float64),
    **dict.fromkeys(("all_right", "all_wrong"), pl.Boolean),
    "example": pl.String,
}


class Difficulty(NamedTuple):
    """Empty frames where no scenario has ``FEWEST_MODELS`` and ``FEWEST_SAMPLES``."""

    cells: pl.DataFrame
    """One row model x scenario x condition: n (answers), acc, and acc_shrunk with its 95% interval, all in percent:

    the accuracy on samples drawn anew, drawn towards the other cells of the model, the condition and the scenario as far as
    its own answers are few.
    """
    samples: pl.DataFrame
    """One row a sample, hardest first in each scenario: answers, right; difficulty (log-odds, 0 is the scenario's mean);

    expected, the percent that the scenario's cells would have right of such samples, with its 95% interval; all_right and
    all_wrong; example, the key of an episode, a wrong one under zero-shot where there is one. Samples answered alike have
    equal difficulty, and stand in the order of their ids.
    """
    spreads: dict[str, tuple[float, float]]
    """Scenario -> standard deviations of the difficulty (log-odds): common to all models, and of one model alone."""


@once
def difficulty(run_data: RunData) -> Difficulty:
    """Shrunk accuracies, hard samples, and how much samples differ."""
    rows = _answers(run_data)
    cells, samples, spreads = [pl.DataFrame(schema=CELLS)], [pl.DataFrame(schema=SAMPLES)], {}
    for scenario in in_order(rows["scenario"]):
        part = rows.filter(scenario=scenario)
        if part["model"].n_unique() < FEWEST_MODELS or part["sample_id"].n_unique() < FEWEST_SAMPLES:
            continue
        names, numbers, answers = _wide(part)
        fitted = fit(answers)
        cells.append(_cells(scenario, names, answers, fitted))
        found = _samples(scenario, numbers, answers, fitted)
        samples.append(found.join(_examples(part), on="sample_id", maintain_order="left"))
        spreads[scenario] = fitted.spread
    return Difficulty(pl.concat(cells), pl.concat(samples), spreads)


def hardest(found: Difficulty, most: int) -> pl.DataFrame:
    """The first ``most`` rows of each scenario of ``found.samples``."""
    return found.samples.group_by("scenario", maintain_order=True).head(most)


def _answers(run_data: RunData) -> pl.DataFrame:
    clear = [name for name, one in run_data.conditions.items() if one.mode is Mode.REFERENCE or one.unseen]
    models = ~pl.col("model").is_in(list(run_data.baselines))
    rows = run_data.scored.filter(models & ~pl.col("condition").is_in(clear), protocol="mcqa")
    return rows.select("key", "scenario", *CELL, "sample_id", "correct")


def _wide(rows: pl.DataFrame) -> tuple[pl.DataFrame, list[int], Answers]:
    """Model and condition of each cell, ids of the samples, and the answers of a scenario."""
    wide = rows.with_columns(pl.col("correct").cast(pl.Float64)).sort("sample_id")
    wide = wide.pivot("sample_id", index=list(CELL), values="correct").sort(CELL)
    names, right = wide.select(CELL), wide.drop(CELL)
    model, condition = (names[name].rank("dense").cast(pl.Int64).to_numpy() - 1 for name in CELL)
    numbers = [int(name) for name in right.columns]
    return names, numbers, Answers(right.fill_null(float("nan")).to_numpy(), model, condition)


def _cells(scenario: str, names: pl.DataFrame, answers: Answers, fitted: Fitted) -> pl.DataFrame:
    shrunk, low, high = 100 * fitted.cells.T
    columns: dict[str, Any] = {
        "n": np.isfinite(answers.right).sum(axis=1), "acc": 100 * np.nanmean(answers.right, axis=1),
        "acc_shrunk": shrunk, "acc_shrunk_low": low, "acc_shrunk_high": high,
    }  # fmt: skip
    return names.with_columns(scenario=pl.lit(scenario), **columns).select(pl.col(n).cast(t) for n, t in CELLS.items())


def _samples(scenario: str, numbers: list[int], answers: Answers, fitted: Fitted) -> pl.DataFrame:
    right, n = np.nansum(answers.right, axis=0).astype(np.int64), np.isfinite(answers.right).sum(axis=0)
    expected, low, high = 100 * fitted.samples.T
    found = pl.DataFrame(
        {
            "scenario": scenario, "sample_id": numbers, "answers": n, "right": right, "difficulty": fitted.difficulty,
            "expected": expected, "expected_low": low, "expected_high": high, "all_right": right == n, "all_wrong": right == 0,
        },
        schema={name: kind for name, kind in SAMPLES.items() if name != "example"},
    )  # fmt: skip
    return found.sort(-pl.col("difficulty").round(6), "sample_id")


def _examples(rows: pl.DataFrame) -> pl.DataFrame:
    """Sample -> the key of an episode to look at."""
    first = rows.sort("correct", pl.col("condition") != "zero-shot", "model", "condition", "key")
    return first.group_by("sample_id", maintain_order=True).agg(pl.col("key").first().alias("example"))
