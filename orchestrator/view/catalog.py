"""The episodes of all runs that a page shows, as one set of columns in memory; an episode is its position in them."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from envs import SCENARIOS, in_paper_order
from envs.errors import RunFolderError
from envs.types import ERRORS, Ending
from orchestrator.film_strip import Thumbnails, picture_folder, rows_by_key, view_episode
from orchestrator.report.measures.endings import EndingKind, endings
from orchestrator.report.read_run import read_run
from orchestrator.report.run_data import RunData
from orchestrator.storage.episode_store import turns
from orchestrator.storage.part_files import hold_parts
from orchestrator.storage.run_folder import planned_cells, planned_episodes, stored_sweep
from orchestrator.storage.schemas import EPISODES, UNREADABLE
from orchestrator.storage.verdict_store import verdicts
from sweeps.conditions import CONDITIONS

MAPPED = "answered every picture"
"""Kind of a decision map, which has no single ending."""
KINDS = (*(kind.value for kind in EndingKind), MAPPED)
OUTCOMES = {"correct": 1, "not correct": 0, "without a score": -1}
"""Values of ``right`` by name; an error, or an answer that no judge has read, has no score."""
NAMES = ("model", "scenario", "condition", "protocol")
"""Columns that the episodes of a cell share."""
ORDERS = {"scenario": list(SCENARIOS), "condition": list(CONDITIONS)}
"""Names that lists put first, in this order."""
LISTED = ("cell", "sample", "kind", "right", "turns")
"""Columns of ``list.parquet``, which the page filters and sorts."""

log = logging.getLogger(__name__)


class Catalog:
    """The columns of the runs at one moment; a new one, with a higher version, is made when a run has changed."""

    def __init__(self, runs: Mapping[str, RunData], version: int = 0) -> None:
        self.runs, self.version = runs, version
        self.planned = sum(map(_count_planned, runs.values()))
        rows = pl.concat([_columns(run).with_columns(pl.lit(name).alias("run")) for name, run in runs.items()])
        cells = rows.select("run", *NAMES).unique(maintain_order=True).with_row_index("cell")
        self.rows = rows.join(cells, on=("run", *NAMES), maintain_order="left")
        self.cells = cells.drop("cell").to_dicts()
        """Run and names of each number in column ``cell``."""

    @property
    def height(self) -> int:
        return self.rows.height

    def about(self) -> dict[str, Any]:
        """Return what the page has to know beside the columns, for JSON."""
        policies = {(name, policy) for name, run in self.runs.items() for policy in run.sweep.baselines}
        cells = [{**cell, "baseline": (cell["run"], cell["model"]) in policies} for cell in self.cells]
        orders = {name: in_paper_order({str(cell[name]) for cell in cells}, ORDERS.get(name, ())) for name in NAMES}
        return {
            "version": self.version, "total": self.height, "planned": self.planned, "cells": cells,
            "orders": {"run": list(self.runs), **orders}, "kinds": KINDS, "outcomes": OUTCOMES,
        }  # fmt: skip

    def list_bytes(self) -> bytes:
        """Return the listed columns as a Parquet file."""
        file = BytesIO()
        self.rows.select(LISTED).write_parquet(file, compression_level=9, statistics=False, row_group_size=1 << 17)
        return file.getvalue()

    def replies_with(self, text: str) -> np.ndarray:
        """Return the positions of the episodes with a reply that contains the text; the case of ASCII letters is ignored."""
        contains = pl.col("reply").str.contains_any([text], ascii_case_insensitive=True)
        found = [
            turns(run.folder).filter(contains).select("key", pl.lit(name).alias("run")).unique()
            for name, run in self.runs.items()
        ]
        is_found = self.rows.lazy().with_row_index("at").join(pl.concat(found), on=("key", "run"), how="semi")
        return is_found.select(pl.col("at").sort()).collect()["at"].to_numpy()

    def read_views(
        self, positions: Sequence[int], thumbnails: Callable[[Path | None], Thumbnails]
    ) -> Iterator[dict[str, Any]]:
        """Yield the film strip of each episode, for JSON. Raises ``schemas.UNREADABLE``.

        ``thumbnails`` returns the pictures of a data folder; positions are ascending.
        """
        for (name,), own in self.rows[positions].group_by("run", maintain_order=True):
            run = self.runs[str(name)]
            stored, judged = (rows_by_key(table(run.folder), own["key"]) for table in (turns, verdicts))
            pictures = thumbnails(picture_folder(run))
            for key, number, kind, right in own.select("key", "number", "kind", "right").iter_rows():
                row = run.episodes.row(number, named=True) | {"kind": KINDS[kind]}
                view = view_episode(run, pictures, row, stored.get(key, []), judged.get(key, []))
                yield {**view, "run": name, "right": right}

    def read_view(self, position: int) -> dict[str, Any]:
        """Return an episode's film strip with its pictures, for JSON. Raises ``schemas.UNREADABLE``."""
        thumbnails = cache(Thumbnails)
        (view,) = self.read_views([position], thumbnails)
        return {**view, "pictures": thumbnails(picture_folder(self.runs[view["run"]])).uris}


def open_unread(folder: Path) -> RunData:
    """Return a run without its episodes; raises RunFolderError if there is no run."""
    return RunData(folder, stored_sweep(folder), pl.DataFrame(), EPISODES.to_frame())


def read_episodes(run: RunData, data: Path | None = None) -> RunData:
    """Return the run with what is stored now, in stored order; unchanged if its folder cannot be read at this moment.

    ``data`` is the benchmark folder if it has moved.
    """
    try:
        with hold_parts([run.folder]):
            return replace(read_run(run.folder, data), episodes=planned_episodes(run.folder).collect())
    except (RunFolderError, *UNREADABLE) as problem:
        log.info("%s is not read this time: %s", run.folder, problem)
        return run


def _count_planned(run: RunData) -> int:
    """Return the planned episodes of a run; those that are stored if the plan is absent or cannot be read."""
    try:
        return sum(cell["planned"] for cell in planned_cells(run.folder))
    except RunFolderError:
        return run.episodes.height


def _columns(run: RunData) -> pl.DataFrame:
    """Return key, number in the run, ``NAMES`` and what the list filters."""
    numbers = {kind: number for number, kind in enumerate(KINDS)}
    kinds = endings(run).select("key", "kind")
    judged = verdicts(run.folder).select("key", "aggregate").unique("key", keep="last", maintain_order=True).collect()
    rows = run.episodes.join(kinds, on="key", how="left", maintain_order="left")
    rows = rows.join(judged, on="key", how="left", maintain_order="left")
    score = pl.when(pl.col("ending") == Ending.ANSWERED).then("aggregate").otherwise("correct")
    kind = pl.when(pl.col("ending") == Ending.MAPPED).then(pl.lit(MAPPED)).otherwise("kind")
    return rows.with_row_index("number").select(
        "key",
        "number",
        pl.col(*NAMES).fill_null(""),
        pl.col("sample_id").cast(pl.Int32, strict=False).fill_null(-1).alias("sample"),
        kind.replace_strict(numbers, return_dtype=pl.UInt8).alias("kind"),
        pl.when(~pl.col("ending").is_in(ERRORS)).then(score).cast(pl.Int8).fill_null(-1).alias("right"),
        pl.col("turns").clip(0, 65_535).cast(pl.UInt16),
    )
