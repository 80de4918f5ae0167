"""The episodes of all runs that a page shows, as one set of columns; an episode is its position in them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from envs import SCENARIOS, in_paper_order
from orchestrator.report.html.episode_view import rows_by_key, view_episode
from orchestrator.report.html.thumbnails import Thumbnails, picture_folder
from orchestrator.storage.episode_store import turns
from orchestrator.storage.verdict_store import verdicts
from orchestrator.view.run_index import KINDS, NAMES, OUTCOMES, RunIndex
from sweeps.conditions import CONDITIONS

ORDERS = {"scenario": list(SCENARIOS), "condition": list(CONDITIONS)}
"""Names that lists put first, in this order."""
LISTED = ("cell", "sample", "kind", "right", "turns", "crc")
"""Columns of ``list.parquet``, which the page filters and sorts."""
MOST_PICTURES = 100
"""Most pictures of a film strip."""


class Catalog:
    """The columns of the runs at one moment; a new one is made when a run has changed."""

    def __init__(self, runs: Mapping[str, RunIndex]) -> None:
        self.runs, self.version = runs, sum(run.version for run in runs.values())
        self.planned = sum(run.planned for run in runs.values())
        self.data = {name: run.run for name, run in runs.items()}
        rows = pl.concat([run.rows.with_columns(pl.lit(name).alias("run")) for name, run in runs.items()])
        cells = rows.select("run", *NAMES).unique(maintain_order=True).with_row_index("cell")
        self.rows = rows.join(cells, on=("run", *NAMES), maintain_order="left")
        self.cells = cells.drop("cell").to_dicts()
        """Run and names of each number in column ``cell``."""
        self.starts = np.cumsum([0, *(run.rows.height for run in runs.values())])
        """Position of the first episode of each run."""

    @property
    def height(self) -> int:
        """Return the number of episodes."""
        return self.rows.height

    def about(self) -> dict[str, Any]:
        """Return what the page has to know beside the columns, for JSON."""
        cells = [{**cell, "baseline": cell["model"] in self.runs[cell["run"]].baselines} for cell in self.cells]
        orders = {name: in_paper_order({str(cell[name]) for cell in cells}, ORDERS.get(name, ())) for name in NAMES}
        return {
            "version": self.version, "total": self.height, "planned": self.planned, "cells": cells,
            "orders": {"run": list(self.runs), **orders}, "kinds": KINDS, "outcomes": OUTCOMES,
        }  # fmt: skip

    def list_bytes(self, group: int = 1 << 17) -> bytes:
        """Return the listed columns as a Parquet file in row groups of this size."""
        file = BytesIO()
        options: dict[str, Any] = {"compression": "zstd", "compression_level": 9, "statistics": False}
        self.rows.select(LISTED).write_parquet(file, row_group_size=group, **options)
        return file.getvalue()

    def replies_with(self, text: str) -> np.ndarray:
        """Return the positions of the episodes with a reply that contains the text, in any case."""
        contains = pl.col("reply").str.contains_any([text], ascii_case_insensitive=True)
        found = [
            turns(run.folder).filter(contains).select("key", pl.lit(name).alias("run")).unique()
            for name, run in self.runs.items()
        ]
        is_found = self.rows.lazy().with_row_index("at").join(pl.concat(found), on=("key", "run"), how="semi")
        return is_found.select(pl.col("at").sort()).collect()["at"].to_numpy()

    def read_views(
        self, positions: Sequence[int], thumbnails: Callable[[Path | None], Thumbnails]
    ) -> Iterator[tuple[dict[str, Any], list[str]]]:
        """Yield the film strip of each episode, for JSON, and its replies. Raises ``schemas.UNREADABLE``.

        ``thumbnails`` returns the pictures of a data folder; positions are ascending.
        """
        for (name, run), start, end in zip(self.data.items(), self.starts, self.starts[1:], strict=False):
            own = [position for position in positions if start <= position < end]
            if not own:
                continue
            keys = self.rows["key"].gather(own).to_list()
            stored, judged = (rows_by_key(table(run.folder), keys) for table in (turns, verdicts))
            pictures = thumbnails(picture_folder(run))
            for position, key in zip(own, keys, strict=True):
                row, kind = run.episodes.row(int(position - start), named=True), KINDS[self.rows["kind"][position]]
                row, turn_rows = {**row, "kind": kind}, stored.get(key, [])
                view = view_episode(run, pictures, row, turn_rows, judged.get(key, []))
                yield {**view, "run": name}, [str(turn["reply"] or "") for turn in turn_rows]

    def read_view(self, position: int) -> dict[str, Any]:
        """Return an episode's film strip with its pictures, for JSON. Raises ``schemas.UNREADABLE``."""
        opened: list[Thumbnails] = []

        def open_pictures(folder: Path | None) -> Thumbnails:
            opened.append(Thumbnails(folder, MOST_PICTURES))
            return opened[-1]

        ((view, _),) = self.read_views([position], open_pictures)
        return {**view, "pictures": [uri for pictures in opened for uri in pictures.uris]}


def run_names(folders: Sequence[Path]) -> dict[str, Path]:
    """Return a short distinct name for each folder: its last component, or the whole path if several share it."""
    last = [folder.resolve().name for folder in folders]
    return {
        (name if last.count(name) == 1 else str(folder)): folder for name, folder in zip(last, folders, strict=True)
    }
