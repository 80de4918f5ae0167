"""Measures of installed packages beside acc and ps: each is a value an episode, its mean over a cell, and how many it is over.

A measure that fails is left out with one sentence; what was played and the other figures stand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import polars as pl
from scipy.special import stdtrit  # type: ignore[import-untyped]

from envs.installed import PackageError, function
from envs.types import ERRORS
from orchestrator.report.proportion import proportion_bounds

COUNT = "_n"
"""What the name of a measure's count ends with; no other column of the results ends so."""


def names(columns: Iterable[str]) -> list[str]:
    """The measures of installed packages among the columns of results, in their order."""
    return [column.removesuffix(COUNT) for column in columns if column.endswith(COUNT)]


def own_measures(
    asked: Sequence[str], episodes: pl.LazyFrame, turns: pl.LazyFrame
) -> tuple[pl.DataFrame | None, list[str]]:
    """One row a cell with the columns of every measure that was ``asked`` for, and a sentence for each that failed.

    ``NAME`` is the mean over the episodes that the measure gives a value, ``NAME_low`` and ``NAME_high`` its 95% interval,
    ``NAME_n`` how many these are. Where every value of the run is 0 or 100 the interval is that of accuracies
    (``proportion_bounds``), else Student's t, null below two episodes. Episodes that ended as errors are no part of it.
    """
    if not asked:
        return None, []
    answered = episodes.filter(~pl.col("ending").is_in(ERRORS))
    mine = turns.join(answered.select("key"), on="key", how="semi", maintain_order="left")
    cells = answered.select("key", "cell").collect()
    rows, failed = cells.select("cell").unique(maintain_order=True).sort("cell"), list[str]()
    for name in asked:
        try:
            rows = rows.join(_measured(name, cells, answered, mine), on="cell", how="left")
        except PackageError as problem:
            failed.append(f"{problem}; it is left out of the results")
    return rows, failed


def with_own(
    rows: pl.DataFrame, asked: Sequence[str], episodes: pl.LazyFrame, turns: pl.LazyFrame, say: Callable[[str], None]
) -> pl.DataFrame:
    """Rows of results with the measures that were asked for; of one that fails the sentence is said."""
    own, failed = own_measures(asked, episodes, turns)
    for sentence in failed:
        say(sentence)
    return joined(rows, own)


def joined(rows: pl.DataFrame, own: pl.DataFrame | None) -> pl.DataFrame:
    """Rows of results, one a cell, with the columns of ``own_measures``; a count is 0 where nothing was measured."""
    if own is None:
        return rows
    counts = [f"{name}{COUNT}" for name in names(own.columns)]
    return rows.join(own, on="cell", how="left", maintain_order="left").with_columns(pl.col(counts).fill_null(0))


def _measured(name: str, cells: pl.DataFrame, episodes: pl.LazyFrame, turns: pl.LazyFrame) -> pl.DataFrame:
    values = _values(name, function("measure", name), episodes, turns)
    if values["key"].is_duplicated().any():
        raise PackageError(f"the measure {name!r} gave an episode two values; it must give one row a key")
    known = cells.join(values, on="key").drop_nulls("value")
    if not known["value"].is_finite().all():
        raise PackageError(f"the measure {name!r} gave a value that is no finite number; null leaves an episode out")
    found = known.group_by("cell").agg(
        pl.col("value").mean().alias(name), pl.col("value").std().alias("_std"), pl.len().cast(pl.Int64).alias("_n")
    )
    low, high = _shares(found, name) if known["value"].is_in([0.0, 100.0]).all() else _students(found, name)
    return found.select("cell", name, low.alias(f"{name}_low"), high.alias(f"{name}_high"), _n=pl.col("_n")).rename(
        {"_n": f"{name}{COUNT}"}
    )


def _shares(found: pl.DataFrame, name: str) -> tuple[pl.Series, pl.Series]:
    low, high = proportion_bounds(found[name] / 100 * found["_n"], found["_n"])
    return (100 * low).clip(0, 100), (100 * high).clip(0, 100)


def _students(found: pl.DataFrame, name: str) -> tuple[pl.Series, pl.Series]:
    freedom = (found["_n"].to_numpy() - 1).clip(1)
    half = pl.Series(stdtrit(freedom, 0.975)) * found["_std"] / found["_n"].sqrt()
    return found[name] - half, found[name] + half


def _values(name: str, measure: object, episodes: pl.LazyFrame, turns: pl.LazyFrame) -> pl.DataFrame:
    """Columns key and value; raises PackageError where the measure raises, or gives something else."""
    assert callable(measure)
    try:
        found = measure(episodes, turns)
        frame = found.collect() if isinstance(found, pl.LazyFrame) else found
        if not isinstance(frame, pl.DataFrame):
            raise TypeError(f"it gave a {type(frame).__name__}, not a polars frame of key and value")
        return frame.select("key", pl.col("value").cast(pl.Float64))
    except Exception as problem:  # whatever foreign code raises
        told = f"{type(problem).__name__}: {problem}".partition("\n")[0]
        raise PackageError(f"the measure {name!r} failed ({told})") from problem
