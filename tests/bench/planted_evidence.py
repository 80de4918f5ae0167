"""Planted missing answers, clusters, errors of judges, equal rates and flips, for ``tests.bench.planted``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from envs.types import Ending, Sample
from orchestrator.report.measures.clustering import clustering
from orchestrator.report.measures.estimates import estimate, missing_bounds
from orchestrator.report.measures.paired import comparisons, ranking
from orchestrator.report.run_data import AUTOMATIC, RunData
from orchestrator.report.scores.package_measures import Samples
from orchestrator.report.statistics.clustered import average_means, equivalence_test, estimate_mean
from orchestrator.report.statistics.judge_error import Confusion, Labels, prediction_powered, rogan_gladen
from orchestrator.report.statistics.proportion import proportion_interval
from orchestrator.report.tables.paper_comparison import flip_probability
from orchestrator.storage.schemas import EPISODES
from sweeps.load import build
from sweeps.spec import Sweep
from tests.orchestrator.blocks import episode

SCENARIOS = ("ROD", "QD", "CIT")
FULL = 10_000
"""Draws from which a line must reach its target itself."""


class Planted(NamedTuple):
    """One line of the table."""

    what: str
    target: str
    result: str
    reached: bool


def share_line(what: str, hits: list[bool], low: float, high: float = 1.0) -> Planted:
    """Return the line of a share with its target range and Monte Carlo error.

    With fewer than ``FULL`` draws it may miss the target by three standard errors, with more by none.
    """
    share, error = float(np.mean(hits)), (0.05 * 0.95 / len(hits)) ** 0.5
    allowed = 0.0 if len(hits) >= FULL else 3 * error
    target = f"{100 * low:.0f} to {100 * high:.0f}%"
    result = f"{100 * share:.1f} ±{100 * error:.1f}%"
    return Planted(what, target, result, low - allowed <= share <= high + allowed)


def planted_run(cells: list[pl.DataFrame], samples: Samples | None = None) -> RunData:
    """Return a run of these cells, without a folder; with samples, their clusters count where they widen intervals."""
    frame = pl.concat(cells).sort("key")
    names = ("model", "scenario", "condition", "protocol", "cell")
    planned = frame.group_by(names).agg(pl.len().cast(pl.Int64).alias("planned")).sort("cell")
    return RunData(
        Path("nowhere"), planted_sweep(), planned, frame, samples or {}, cluster=AUTOMATIC if samples else ""
    )


@cache
def planted_sweep() -> Sweep:
    """Return the sweep of every planted run."""
    conditions = ["zero-shot", "hint", "history"]
    return build({"data": "none", "models": ["oracle"], "conditions": conditions}, "planted")


def plant_cell(
    name: str, right: np.ndarray, refused: np.ndarray | bool = False, turns: np.ndarray | int = 1
) -> pl.DataFrame:
    """Return the episodes of a cell, of so many turns each."""
    endings = np.where(refused, str(Ending.REFUSED), np.where(right, str(Ending.CORRECT), str(Ending.WRONG)))
    row = {
        column: value
        for column, value in episode(0, name, turns=1).items()
        if column not in ("key", "sample_id", "ending", "turns", "suggestions")
    }
    number = pl.int_range(len(right))
    lengths = np.broadcast_to(turns, len(right))
    columns = {
        "ending": pl.Series(endings), "correct": pl.Series(right & ~np.asarray(refused)),
        "turns": pl.Series(lengths), "suggestions": pl.Series(lengths - 1),
    }  # fmt: skip
    return pl.select(
        pl.format("{}/{}-00000000", pl.lit(name), number.cast(pl.String).str.zfill(4)).alias("key"),
        *[pl.lit(value).cast(EPISODES[column]).alias(column) for column, value in row.items() if column != "correct"],
        *[pl.lit(series).cast(EPISODES[column]).alias(column) for column, series in columns.items()],
        number.cast(EPISODES["sample_id"]).alias("sample_id"),
    ).select(list(EPISODES))


def missing_lines(runs: int, rng: np.random.Generator) -> Iterator[Planted]:
    """Yield the coverage of worst-to-best intervals where answers are refused because they would be wrong, or right."""
    hits: dict[str, list[bool]] = {}
    shown = []
    for number in range(runs):
        rates = {cell: rng.uniform(0.1, 0.9) for cell in ((s, c) for s in SCENARIOS for c in ("zero-shot", "hint"))}
        rows = []
        for (scenario, condition), rate in rates.items():
            right = rng.random(120) < rate
            # what is refused depends on the answer: left out, it biases the mean
            lost = rng.random(120) < np.where(right == (number % 2 == 0), 0.25, 0.02)
            rows.append(plant_cell(f"m/{scenario}/{condition}", right, lost))
            shown.append(abs(right[~lost].mean() - rate) < 1.96 * (rate * (1 - rate) / (~lost).sum()) ** 0.5)
        for row in missing_bounds(planted_run(rows)).iter_rows(named=True):
            scenarios = SCENARIOS if row["scenario"] == "avg" else (row["scenario"],)
            truth = np.mean([rates[s, row["condition"]] for s in scenarios])
            kind = "average" if row["scenario"] == "avg" else "cell"
            inside = bool(row["least_low"] <= 100 * truth <= row["most_high"])
            hits.setdefault(kind, []).append(inside)
    plain = f"{100 * np.mean(shown):.1f}%"
    yield Planted("refused by what the answer would be: plain interval of a cell covers", "-", plain, True)
    for kind, inside in sorted(hits.items()):
        yield share_line(f"worst to best case of {kind}s covers", inside, 0.95)


def refused_ranking_lines(runs: int, rng: np.random.Generator) -> Iterator[Planted]:
    """Yield that everyone is ranked where one model refuses a whole scenario."""
    ranked = []
    for _ in range(max(runs // 3, 1)):
        rates = dict(zip("abcd", rng.uniform(0.3, 0.8, 4), strict=True))
        rows = [
            plant_cell(f"{model}/{scenario}/zero-shot", rng.random(100) < rate, model == "a" and scenario == "QD")
            for model, rate in rates.items()
            for scenario in SCENARIOS
        ]
        ranks = ranking(planted_run(rows))
        ranked.append(ranks.height == 4 and set(ranks["n"]) == {300})
    yield share_line("one model refuses a scenario: all four are ranked on all 300 samples", ranked, 1.0)


def cluster_lines(runs: int, rng: np.random.Generator) -> Iterator[Planted]:
    """Yield the coverage of intervals of cells and differences over samples like MVP-N's: 44 objects of 59 views."""
    objects, views = 44, 59
    groups = np.repeat(np.arange(objects), views)
    blank = Sample("MVP-N", 0, "", (), (), "", "", 0, 1, 0)
    samples = {
        "MVP-N": {
            n: replace(blank, id=n, answer=f"object {group}", image=str(n)) for n, group in enumerate(groups.tolist())
        }
    }
    for correlation in (0.0, 0.05, 0.2, 0.5):
        kinds = ("plain interval of a cell", "interval of a cell", "interval of a difference")
        hits: dict[str, list[bool]] = {kind: [] for kind in kinds}
        counted = []
        for _ in range(max(runs // 3, 1)):
            rates, cells = {"zero-shot": rng.uniform(0.1, 0.9), "hint": rng.uniform(0.1, 0.9)}, []
            for condition, rate in rates.items():
                total = 1 / correlation - 1 if correlation else 0
                chances = rng.beta(rate * total, (1 - rate) * total, objects) if correlation else np.full(objects, rate)
                cells.append(plant_cell(f"m/MVP-N/{condition}", rng.random(len(groups)) < chances[groups]))
            run = planted_run(cells, samples)
            counted.append(bool(clustering(run)["counts"].any()))
            for row in estimate(run).cells.iter_rows(named=True):
                truth = 100 * rates[row["condition"]]
                hits["interval of a cell"].append(row["acc_low"] <= truth <= row["acc_high"])
                plain = proportion_interval(row["acc"] / 100 * row["scored"], row["scored"])
                hits["plain interval of a cell"].append(100 * plain[0] <= truth <= 100 * plain[1])
            difference = comparisons(run).conditions.row(0, named=True)
            truth = 100 * (rates["hint"] - rates["zero-shot"])
            hits["interval of a difference"].append(
                difference["difference_low"] <= truth <= difference["difference_high"]
            )
        name = f"44 objects x 59 views, icc {correlation:g}"
        share = f"{100 * np.mean(hits['plain interval of a cell']):.1f}%"
        yield Planted(
            f"{name}: plain interval of a cell covers (clusters count in {np.mean(counted):.0%})", "-", share, True
        )
        for what in kinds[1:]:
            yield share_line(f"{name}: {what} that stands covers", hits[what], 0.93, 0.97)


def judge_lines(runs: int, rng: np.random.Generator) -> Iterator[Planted]:
    """Yield the coverage of shares by a judge that errs: raw, by a gold check, and by labelled answers of the run."""
    runs *= 5
    for labelled in (50, 200, 500):
        worst = {"raw": 1.0, "gold check": 1.0, "labels": 1.0}
        mean = dict.fromkeys(worst, 0.0)
        settings = [
            (rate, sensitivity, specificity)
            for rate in (0.01, 0.05, 0.2, 0.5)
            for sensitivity, specificity in ((0.7, 0.8), (0.9, 0.95), (1.0, 1.0), (1.0, 0.8))
        ]
        for setting in settings:
            hits = np.mean([_judge_covers(rng, *setting, labelled) for _ in range(runs)], axis=0)
            for name, share in zip(worst, hits.tolist(), strict=True):
                worst[name], mean[name] = min(worst[name], share), mean[name] + share / len(settings)
        for name in worst:
            what = f"judge, {labelled} known answers, {name}: mean and least coverage of {len(settings)} settings"
            least = 0.93 - (0.0 if runs >= FULL else 4 * (0.95 * 0.05 / runs) ** 0.5)
            reached = name == "raw" or worst[name] >= least
            target = "-" if name == "raw" else f"least >= {100 * least:.0f}%"
            yield Planted(what, target, f"{100 * mean[name]:.1f}%, {100 * worst[name]:.1f}%", reached)


def active_label_lines(runs: int, rng: np.random.Generator) -> Iterator[Planted]:
    """Yield the coverage of shares where half of the labels are of answers that two judges read differently."""
    for disputed, errors in ((0.1, (0.5, 0.02)), (0.3, (0.3, 0.05)), (0.02, (0.5, 0.1))):
        for labelled in (50, 200):
            hits = [_active_covers(rng, disputed, errors, labelled) for _ in range(runs * 5)]
            what = f"judge, {labelled} active labels, judges differ on {disputed:.0%}: interval by labels covers"
            yield share_line(what, hits, 0.93, 1.0)


def _active_covers(rng: np.random.Generator, disputed: float, errors: tuple[float, float], labelled: int) -> bool:
    """Return whether the interval by active labels contains the true rate of 2,000 answers, 30%."""
    parts, shares, true = [], [], 0.3
    for share, wrong in zip((disputed, 1 - disputed), errors, strict=True):
        size = round(2_000 * share)
        n = min(labelled // 2, size)
        chances = [true * (1 - wrong), true * wrong, (1 - true) * wrong, (1 - true) * (1 - wrong)]
        yes = int(rng.binomial(size - n, chances[0] + chances[2]))
        parts.append(Labels(Confusion(*rng.multinomial(n, chances).tolist()), yes, size - n))
        shares.append(size / 2_000)
    estimate = prediction_powered(parts, shares=shares)
    return estimate is not None and estimate.low <= true <= estimate.high


def _judge_covers(
    rng: np.random.Generator, rate: float, sensitivity: float, specificity: float, labelled: int
) -> list[bool]:
    """Return whether the raw interval, the one by the gold check, and the one by labels contain the true rate."""
    chances = [rate * sensitivity, rate * (1 - sensitivity), (1 - rate) * (1 - specificity), (1 - rate) * specificity]
    counts, others = rng.multinomial(labelled, chances).tolist(), 1_240 - labelled
    yes = int(rng.binomial(others, chances[0] + chances[2]))
    true = labelled * 2 // 5
    right, rejected = int(rng.binomial(true, sensitivity)), int(rng.binomial(labelled - true, specificity))
    gold = Confusion(right, true - right, labelled - true - rejected, rejected)
    hits, n = yes + counts[0] + counts[2], others + labelled
    low, high = proportion_interval(hits, n)
    estimates = rogan_gladen(hits, n, gold), prediction_powered([Labels(Confusion(*counts), yes, others)])
    corrected = [estimate is not None and estimate.low <= rate <= estimate.high for estimate in estimates]
    return [low <= rate <= high, *corrected]


def equivalence_lines(runs: int, rng: np.random.Generator) -> Iterator[Planted]:
    """Yield how often a true difference at the margin is called equivalent, and one of nothing is."""
    for true, low, high in ((2.0, 0.0, 0.06), (0.0, 0.9, 1.0)):
        called = []
        for _ in range(runs * 5):
            gains = [(0.06 + true / 100) / 2, 0.06 / 2 - true / 200]
            strata = [
                estimate_mean(
                    np.array([100, -100, 0]), counts=rng.multinomial(1_000, [*gains, 1 - sum(gains)]), unit=100
                )
                for _ in range(3)
            ]
            called.append(equivalence_test(average_means(strata), 2.0) < 0.05)
        yield share_line(f"true difference of {true:g} points called equivalent within 2 points", called, low, high)


def flip_lines(runs: int, rng: np.random.Generator) -> Iterator[Planted]:
    """Yield how often flips are starred against the paper."""
    for n, rate in ((42, 0.003), (2_591, 0.003), (2_591, 0.01)):
        flips = rng.binomial(n, rate, runs * 10)
        moved = 2 * rng.binomial(flips, 0.5) - flips
        least = next(count for count in range(n) if flip_probability(count, n, rate) < 0.05)
        starred = (abs(moved) >= least).tolist()
        plain = f"{100 * np.mean(moved != 0):.1f}%"
        what = f"{rate:.1%} of {n:,} answers flip: starred against the paper (without the null: {plain})"
        yield share_line(what, starred, 0, 0.05)
