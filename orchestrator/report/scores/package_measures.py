"""The columns of results in addition to the scores, above all measures of installed packages.

A measure gives one value per episode: the columns are its mean over a cell, and the number of episodes in the mean. One that
fails is left out of the results with one sentence; the other columns are unchanged.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import polars as pl
from scipy.special import stdtrit  # type: ignore[import-untyped]

from envs.installed import PackageError, load_function, offers
from envs.types import ERRORS, Sample
from orchestrator.report.scores.cell_resources import add_resources
from orchestrator.report.statistics.proportion import proportion_bounds
from orchestrator.storage.episode_store import turns
from sweeps.spec import Sweep

Samples = Mapping[str, Mapping[int, Sample]]
"""Scenario -> id -> sample."""

COUNT_SUFFIX = "_n"
"""Suffix of the column with a measure's number of episodes; no other column of the results has it."""


def add_measures(
    rows: pl.DataFrame, folder: Path, sweep: Sweep, stored: pl.LazyFrame, samples: Samples, warn: Callable[[str], None]
) -> pl.DataFrame:
    """Return scored rows of the ``stored`` episodes with every further column of results.

    ``warn`` receives one sentence for each measure of a package that fails.
    """
    measured, failed = package_measures(sweep.measures, stored, turns(folder))
    for sentence in failed:
        warn(sentence)
    rows = join_package_measures(rows, measured)
    for name in offers("result"):
        rows = load_function("result", name)(rows, folder, sweep, stored, samples)
    return add_resources(rows, folder, sweep)


def measure_names(columns: Iterable[str]) -> list[str]:
    """Return the measures of installed packages among the columns of results, in their order."""
    return [column.removesuffix(COUNT_SUFFIX) for column in columns if column.endswith(COUNT_SUFFIX)]


def package_measures(
    requested: Sequence[str], episodes: pl.LazyFrame, turn_rows: pl.LazyFrame
) -> tuple[pl.DataFrame | None, list[str]]:
    """Return one row per cell with the columns of every ``requested`` measure, and one sentence for each that failed.

    ``NAME`` is the mean over the episodes to which the measure gives a value, ``NAME_low`` and ``NAME_high`` its 95%
    interval, ``NAME_n`` their number. If every value of the run is 0 or 100, the interval is that of accuracies
    (``proportion_bounds``), else Student's t, null below two episodes. Episodes that ended in an error are left out.
    """
    if not requested:
        return None, []
    answered = episodes.filter(~pl.col("ending").is_in(ERRORS))
    answered_turns = turn_rows.join(answered.select("key"), on="key", how="semi", maintain_order="left")
    cells = answered.select("key", "cell").collect()
    rows, failed = cells.select("cell").unique(maintain_order=True).sort("cell"), list[str]()
    for name in requested:
        try:
            rows = rows.join(_measure_cells(name, cells, answered, answered_turns), on="cell", how="left")
        except PackageError as problem:
            failed.append(f"{problem}; it is left out of the results")
    return rows, failed


def join_package_measures(rows: pl.DataFrame, measured: pl.DataFrame | None) -> pl.DataFrame:
    """Return rows of results, one per cell, with the columns of ``package_measures``; a missing count is 0."""
    if measured is None:
        return rows
    counts = [f"{name}{COUNT_SUFFIX}" for name in measure_names(measured.columns)]
    return rows.join(measured, on="cell", how="left", maintain_order="left").with_columns(pl.col(counts).fill_null(0))


def _measure_cells(name: str, cells: pl.DataFrame, episodes: pl.LazyFrame, turns: pl.LazyFrame) -> pl.DataFrame:
    values = _run_measure(name, load_function("measure", name), episodes, turns)
    joined = cells.join(values, on="key").drop_nulls("value")
    if values["key"].is_duplicated().any() or not joined["value"].is_finite().all():
        raise PackageError(f"the measure {name!r} does not return one row per key with a finite number or null")
    value, half = pl.col("value"), pl.col("value").std() / pl.len().sqrt()
    means = joined.group_by("cell").agg(value.mean().alias(name), _half=half, _n=pl.len().cast(pl.Int64))
    mean, n = means[name], means["_n"]
    if joined["value"].is_in([0.0, 100.0]).all():
        low, high = ((100 * bound).clip(0, 100) for bound in proportion_bounds(mean / 100 * n, n))
    else:
        half_width = pl.Series(stdtrit(n.to_numpy() - 1, 0.975)) * means["_half"]
        low, high = mean - half_width, mean + half_width
    bounds = low.alias(f"{name}_low"), high.alias(f"{name}_high")
    return means.select("cell", name, *bounds, pl.col("_n").alias(f"{name}{COUNT_SUFFIX}"))


def _run_measure(name: str, measure: object, episodes: pl.LazyFrame, turns: pl.LazyFrame) -> pl.DataFrame:
    """Return the columns key and value; raises PackageError if the measure raises or returns something else."""
    assert callable(measure)
    try:
        returned = measure(episodes, turns)
        frame = returned.collect() if isinstance(returned, pl.LazyFrame) else returned
        if not isinstance(frame, pl.DataFrame):
            raise TypeError(f"it returned a {type(frame).__name__}, not a polars frame with the columns key and value")
        return frame.select("key", pl.col("value").cast(pl.Float64))
    except Exception as problem:  # whatever foreign code raises
        message = f"{type(problem).__name__}: {problem}".partition("\n")[0]
        raise PackageError(f"the measure {name!r} failed ({message})") from problem
