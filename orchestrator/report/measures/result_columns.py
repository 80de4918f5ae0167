"""The columns of a run's results in addition to the scores: measures and columns of packages, resources."""

from collections.abc import Callable
from pathlib import Path

import polars as pl

from envs.installed import load_function, offers
from orchestrator.report.run_data import Samples
from orchestrator.report.scores.cell_resources import add_resources
from orchestrator.report.scores.package_measures import join_package_measures, package_measures
from orchestrator.storage.episode_store import turns
from sweeps.spec import Sweep


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
