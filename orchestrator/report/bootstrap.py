"""Every interval is a function of the episodes and a seed: the same episodes give the same bounds, in any order.

A cell is resampled as a histogram: drawing n episodes with replacement is drawing how often each distinct episode occurs, a
multinomial (Efron 1979). Errors are no zeros: they are left out before anything is drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from envs.types import Ending
from orchestrator.report.metrics import average
from orchestrator.report.run_data import RunData

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]
Sums = Mapping[str, Floats]
"""Column -> its sum over the episodes of each resample; ``n`` is their number."""

RESAMPLES = 4_000
COVERED = 95.0
"""Percent that an interval covers."""
COLUMNS = ("correct", "turns", "suggestions", "abstentions", "categories", "unparsable", "limit")
"""What an episode adds to its cell."""
GROUP = ("model", "condition", "protocol")
CELL = ("cell", "model", "scenario", "condition", "protocol")

MEASURES: dict[str, Callable[[Sums], Floats]] = {
    "acc": lambda s: 100 * s["correct"] / s["n"],
    "ps": lambda s: (s["turns"] - s["n"]) / s["n"],
    "mean_turns": lambda s: s["turns"] / s["n"],
    "loops": lambda s: 100 * s["limit"] / s["n"],
    "share_suggestion": lambda s: _share(s, "suggestions"),
    "share_abstention": lambda s: _share(s, "abstentions"),
    "share_category": lambda s: _share(s, "categories"),
    "share_right": lambda s: _share(s, "correct"),
    "share_unparsable": lambda s: _share(s, "unparsable"),
}
"""Measure -> how it follows from sums (protocol.md, 'Measures'); shares are percent of answers, right ones of categories."""


class Bootstrap(NamedTuple):
    """Intervals of cells and of averages over scenarios."""

    cells: pl.DataFrame
    """One row a planned cell, sorted: names, planned, finished, failed, scored, errors; each measure with ``_low`` and ``_high``.

    acc has Wilson's interval, all else percentile bootstrap; null where nothing was scored.
    """
    averages: pl.DataFrame
    """One row model x condition x protocol: unweighted means over scenarios (the paper's average), stratified bootstrap.

    ``scenarios``, ``complete`` and ``all_seven`` say what the mean is of (``orchestrator.report.metrics.average``).
    """


def bootstrap(run_data: RunData, resamples: int = RESAMPLES, seed: int = 0) -> Bootstrap:
    """Intervals of every cell and every average of a run."""
    tallies = {cell: tally for cell, tally in _tallies(run_data.scored)}
    found: list[dict[str, Any]] = []
    groups: dict[tuple[str, ...], list[Mapping[str, tuple[float, Floats]]]] = {}
    for row in run_data.rows.select(CELL).iter_rows(named=True):
        if row["cell"] not in tallies:
            continue
        measured = _measured(tallies[row["cell"]], resamples, generator(seed, row["cell"]))
        found.append({"cell": row["cell"], **_bounds(measured)})
        groups.setdefault(tuple(row[name] for name in GROUP), []).append(measured)
    averages = [dict(zip(GROUP, names, strict=True)) | _bounds(_mean(cells)) for names, cells in groups.items()]
    return Bootstrap(_with_wilson(run_data.rows, found), _with_counts(run_data.rows, averages))


def generator(seed: int, name: str) -> np.random.Generator:
    """The generator of one purpose: the same whatever else is drawn, and before or after it."""
    return np.random.default_rng([seed, int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "big")])


def resampled(values: Whole, counts: Whole, resamples: int, rng: np.random.Generator) -> Floats:
    """Sums over resamples (resamples, columns) of episodes given as distinct rows (kinds, columns) with counts (kinds,)."""
    total = int(counts.sum())
    drawn = rng.multinomial(total, counts / total, size=resamples)
    return np.asarray(drawn @ values, dtype=np.float64)


def bounds(replicates: Floats) -> tuple[float, float]:
    """The percentile interval of replicates (resamples,)."""
    tail = (100 - COVERED) / 2
    low, high = np.percentile(replicates, [tail, 100 - tail])
    return float(low), float(high)


def _share(sums: Sums, column: str) -> Floats:
    """Percent of answers; 0 answers, which no scored episode gives, would be 0."""
    shares: Floats = 100 * sums[column] / np.maximum(sums["turns"], 1)
    return shares


def _tallies(scored: pl.DataFrame) -> Iterator[tuple[str, tuple[Whole, Whole]]]:
    """Each cell's distinct episodes and how often they occur, in a fixed order."""
    whole = [pl.col(name).cast(pl.Int64) for name in COLUMNS if name != "limit"]
    rows = scored.select("cell", *whole, (pl.col("ending") == Ending.LIMIT).cast(pl.Int64).alias("limit"))
    counted = rows.group_by("cell", *COLUMNS).len("count").sort("cell", *COLUMNS)
    for (cell,), part in counted.group_by(["cell"], maintain_order=True):
        yield str(cell), (part.select(COLUMNS).to_numpy(), part["count"].cast(pl.Int64).to_numpy())


def _measured(tally: tuple[Whole, Whole], resamples: int, rng: np.random.Generator) -> dict[str, tuple[float, Floats]]:
    """Measure -> its value and its replicates (resamples,)."""
    values, counts = tally
    n = float(counts.sum())
    observed = _sums((counts @ values)[None, :].astype(np.float64), n)
    drawn = _sums(resampled(values, counts, resamples, rng), n)
    return {name: (float(measure(observed)[0]), measure(drawn)) for name, measure in MEASURES.items()}


def _sums(matrix: Floats, n: float) -> Sums:
    return {**dict(zip(COLUMNS, matrix.T, strict=True)), "n": np.full(len(matrix), n)}


def _mean(cells: list[Mapping[str, tuple[float, Floats]]]) -> dict[str, tuple[float, Floats]]:
    """Unweighted means over scenarios, of the values and of the replicates: each scenario is a stratum."""
    return {
        name: (
            float(np.mean([cell[name][0] for cell in cells])),
            np.mean(np.stack([cell[name][1] for cell in cells]), axis=0),
        )
        for name in MEASURES
    }


def _bounds(measured: Mapping[str, tuple[float, Floats]]) -> dict[str, float]:
    row: dict[str, float] = {}
    for name, (value, replicates) in measured.items():
        row[name] = value
        row[f"{name}_low"], row[f"{name}_high"] = bounds(replicates)
    return row


def _frame(rows: list[dict[str, Any]], names: tuple[str, ...]) -> pl.DataFrame:
    measured = [f"{name}{end}" for name in MEASURES for end in ("", "_low", "_high")]
    return pl.DataFrame(rows, schema={**dict.fromkeys(names, pl.String), **dict.fromkeys(measured, pl.Float64)})


def _with_wilson(rows: pl.DataFrame, found: list[dict[str, Any]]) -> pl.DataFrame:
    counts = rows.select(
        *CELL,
        "planned",
        "finished",
        "failed",
        "scored",
        "errors",
        "overflow",
        "acc",
        "acc_low",
        "acc_high",
        "acc_bound",
    )
    drawn = _frame(found, ("cell",)).drop("acc", "acc_low", "acc_high")
    return counts.join(drawn, on="cell", how="left").sort("cell")


def _with_counts(rows: pl.DataFrame, found: list[dict[str, Any]]) -> pl.DataFrame:
    counts = average(rows).drop("acc", "ps")
    return counts.join(_frame(found, GROUP), on=list(GROUP), how="left").sort(GROUP)
