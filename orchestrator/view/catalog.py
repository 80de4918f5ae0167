"""The episodes of all runs that a page shows, as one set of columns; an episode is its position in them."""

from collections.abc import Iterator, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from envs import SCENARIOS
from orchestrator.report.html.text import paper_order
from orchestrator.storage.part_files import scan_part
from orchestrator.storage.schemas import UNREADABLE
from orchestrator.view.part_columns import KINDS, OUTCOMES, CellNames, PartColumns
from orchestrator.view.run_index import RunIndex
from sweeps.conditions import CONDITIONS

ORDERS = {"scenario": list(SCENARIOS), "condition": list(CONDITIONS)}
"""Names that lists put first, in this order."""
LISTED = ("cell", "sample", "kind", "right", "turns", "crc")
"""Columns of ``list.parquet``, which the page filters and sorts."""
NEAR = 64
"""Largest distance in rows at which two episodes of a part are read together."""


class StoredEpisode(NamedTuple):
    """An episode with its turns, as stored."""

    position: int
    run: str
    row: dict[str, object]
    turns: list[dict[str, object]]


class Catalog:
    """The columns of the runs at one moment; a new one is made when a run has grown."""

    def __init__(self, runs: Mapping[str, RunIndex], version: int) -> None:
        self.runs, self.version = runs, version
        self.cells: list[tuple[str, CellNames]] = []
        """Run and names of each number in column ``cell``."""
        self.parts: list[tuple[Path, PartColumns]] = []
        """Folder and part of each number in column ``part``."""
        self.planned = sum(run.planned for run in runs.values())
        columns: dict[str, list[np.ndarray]] = {}
        for name, run in runs.items():
            starts = {"cell": np.uint32(len(self.cells)), "part": np.uint16(len(self.parts))}
            self.cells += [(name, cell) for cell in run.cells]
            self.parts += [(run.folder, part) for part in run.parts]
            for column, values in run.columns.items():
                columns.setdefault(column, []).append(values + starts[column] if column in starts else values)
        self.columns = {column: np.concatenate(values) for column, values in columns.items()}

    @property
    def height(self) -> int:
        """Return the number of episodes."""
        return len(self.columns["cell"])

    def about(self) -> dict[str, Any]:
        """Return what the page has to know beside the columns, for JSON."""
        baselines = {name: run.baselines for name, run in self.runs.items()}
        cells = [
            {"run": run, **names._asdict(), "baseline": names.model in baselines[run]} for run, names in self.cells
        ]
        names = CellNames._fields
        orders = {name: paper_order({str(cell[name]) for cell in cells}, ORDERS.get(name, ())) for name in names}
        return {
            "version": self.version, "total": self.height, "planned": self.planned, "cells": cells,
            "orders": {"run": list(self.runs), **orders}, "kinds": KINDS, "outcomes": OUTCOMES,
        }  # fmt: skip

    def list_bytes(self, group: int = 1 << 17) -> bytes:
        """Return the listed columns as a Parquet file in row groups of this size."""
        file = BytesIO()
        table = pl.DataFrame({name: self.columns[name] for name in LISTED})
        table.write_parquet(file, compression="zstd", compression_level=9, statistics=False, row_group_size=group)
        return file.getvalue()

    def replies_with(self, text: str) -> np.ndarray:
        """Return the positions of the episodes with a reply that contains the text, in any case."""
        passed = np.zeros(self.height, bool)
        for number in np.unique(self.columns["part"]).tolist():
            rows = np.flatnonzero(self.columns["part"] == number)
            passed[rows] = self._search_part(number, text)[self.columns["row"][rows]]
        return np.flatnonzero(passed)

    def _search_part(self, number: int, text: str) -> np.ndarray:
        """Return which rows of a part's episodes have such a reply."""
        folder, columns = self.parts[number]
        hits = np.zeros(columns.episodes.height, bool)
        contains = pl.col("reply").str.contains_any([text], ascii_case_insensitive=True)
        try:
            marked = scan_part(folder / "turns" / columns.part.name).select(contains.fill_null(False)).collect()
        except UNREADABLE:
            return hits  # a merge has replaced the part: the next catalog holds its rows
        owners = columns.owners[marked.to_series().to_numpy()]
        hits[owners[owners >= 0]] = True
        return hits

    def read_episodes(self, positions: Sequence[int] | np.ndarray) -> Iterator[StoredEpisode]:
        """Yield episodes in this order; nearby rows are read together. Raises ``storage.schemas.UNREADABLE``."""
        ordered = np.asarray(positions, np.int64)
        parts, rows = self.columns["part"][ordered].astype(np.int64), self.columns["row"][ordered].astype(np.int64)
        steps = np.diff(rows)
        starts = np.flatnonzero((np.diff(parts) != 0) | (steps < 1) | (steps > NEAR)) + 1
        for stretch in np.split(np.arange(len(ordered)), starts):
            if len(stretch):
                yield from self._read_stretch(ordered[stretch], int(parts[stretch[0]]), rows[stretch])

    def _read_stretch(self, positions: np.ndarray, part: int, rows: np.ndarray) -> Iterator[StoredEpisode]:
        """Yield the episodes of ascending rows of a part."""
        folder, columns = self.parts[part]
        first, last = int(rows[0]), int(rows[-1])
        table = scan_part(folder / "episodes" / columns.part.name).slice(first, last - first + 1).collect()
        turns: dict[object, list[dict[str, object]]] = {}
        own = np.flatnonzero((columns.owners >= first) & (columns.owners <= last))
        if len(own):
            stored = scan_part(folder / "turns" / columns.part.name).slice(int(own[0]), int(own[-1] - own[0]) + 1)
            for turn in stored.collect().iter_rows(named=True):
                turns.setdefault(turn["key"], []).append(turn)
        for position, number in zip(positions.tolist(), rows.tolist(), strict=True):
            run, row = self.cells[self.columns["cell"][position]][0], table.row(number - first, named=True)
            yield StoredEpisode(position, run, row, turns.get(row["key"], []))


def run_names(folders: Sequence[Path]) -> dict[str, Path]:
    """Return a short distinct name for each folder: its last component, or the whole path if several share it."""
    last = [folder.resolve().name for folder in folders]
    return {
        (name if last.count(name) == 1 else str(folder)): folder for name, folder in zip(last, folders, strict=True)
    }
