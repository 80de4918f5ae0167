"""The episodes of all runs that a page shows, as one set of columns; an episode is its position in them."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from envs import SCENARIOS
from orchestrator.report.html.text import paper_order
from orchestrator.storage.part_files import scan_part
from orchestrator.storage.schemas import UNREADABLE
from orchestrator.view.part_columns import CellNames, PartColumns
from orchestrator.view.run_index import RunIndex
from sweeps.conditions import CONDITIONS

ORDERS = {"scenario": list(SCENARIOS), "condition": list(CONDITIONS)}
"""Names that lists put first, in this order."""
MOST_NEIGHBORS = 1_000
"""Most episodes of a sample that the page offers for comparison."""
NEAR = 64
"""Largest distance in rows at which two episodes of a part are read together."""


class PlacedCell(NamedTuple):
    """A cell of one run."""

    run: str
    names: CellNames


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
        self.columns: dict[str, np.ndarray] = {}
        self.cells: list[PlacedCell] = []
        self.parts: list[tuple[Path, PartColumns]] = []
        """Folder and part of each number in column ``part``."""
        self.offsets: dict[str, int] = {}
        """Run -> position of its first episode."""
        self.heights = {name: run.height for name, run in runs.items()}
        self._join()

    def _join(self) -> None:
        columns: dict[str, list[np.ndarray]] = {}
        height = 0
        for name, run in self.runs.items():
            columns_of_run = dict(run.columns)
            columns_of_run["cell"] = columns_of_run["cell"] + np.uint32(len(self.cells))
            columns_of_run["part"] = columns_of_run["part"] + np.uint16(len(self.parts))
            self.offsets[name] = height
            self.cells += [PlacedCell(name, cell) for cell in run.cells]
            self.parts += [(run.folder, part) for part in run.parts]
            height += self.heights[name]
            for column, values in columns_of_run.items():
                columns.setdefault(column, []).append(values)
        self.columns = {
            column: values[0] if len(values) == 1 else np.concatenate(values) for column, values in columns.items()
        }

    @property
    def height(self) -> int:
        """Return the number of episodes."""
        return len(self.columns["cell"])

    def cells_named(self, names: Mapping[str, str]) -> np.ndarray:
        """Return which cells have these names; an empty name fits every cell."""
        wanted = {name: value for name, value in names.items() if value}
        fits = [all(_name(cell, name) == value for name, value in wanted.items()) for cell in self.cells]
        return np.array(fits or [False])

    def count_names(self, name: str, sizes: Sequence[int]) -> list[tuple[str, int]]:
        """Return each value of a name with its number of episodes, from the ``sizes`` of all cells, in the paper's order."""
        totals: dict[str, int] = {}
        for cell, size in zip(self.cells, sizes, strict=True):
            value = _name(cell, name)
            totals[value] = totals.get(value, 0) + size
        values = self.runs if name == "run" else paper_order(totals, ORDERS.get(name, ()))
        return [(value, totals.get(value, 0)) for value in values]

    def name_ranks(self, name: str) -> np.ndarray:
        """Return the rank of each episode's name, in the paper's order."""
        names = [_name(cell, name) for cell in self.cells] or [""]
        ranks = {value: rank for rank, value in enumerate(paper_order(names, ORDERS.get(name, ())))}
        by_cell: np.ndarray = np.array([ranks[value] for value in names])
        return np.asarray(by_cell[self.columns["cell"]])

    def _question_numbers(self, same: str) -> np.ndarray:
        """Return a number per episode, equal for the same sample, condition, protocol and run (or model: ``same``)."""
        groups: dict[tuple[str, ...], int] = {}
        numbers = [groups.setdefault((*cell.names[1:], _name(cell, same)), len(groups)) for cell in self.cells]
        groups_of_rows = np.array(numbers or [0], np.int64)[self.columns["cell"]]
        return np.asarray((groups_of_rows << 32) + self.columns["sample"].astype(np.int64))

    def ended_otherwise(self, kind: str, name: str) -> np.ndarray:
        """Return True for scored episodes whose outcome differs from that of another model in their run, or of another run.

        Args:
            kind: What differs: ``model`` or ``run``.
            name: The other model or run.
        """
        if kind not in ("model", "run"):
            return np.zeros(self.height, bool)
        other, right = self.cells_named({kind: name})[self.columns["cell"]], self.columns["right"]
        questions = self._question_numbers("run" if kind == "model" else "model")
        theirs = np.flatnonzero(other & (right >= 0))
        if not len(theirs):
            return np.zeros(self.height, bool)
        theirs = theirs[np.argsort(questions[theirs], kind="stable")]
        indexes = np.searchsorted(questions[theirs], questions).clip(0, len(theirs) - 1)
        partners = theirs[indexes]
        is_pair = ~other & (right >= 0) & (questions[partners] == questions)
        return np.asarray(is_pair & (right[partners] != right))

    def neighbors(self, position: int) -> list[int]:
        """Return the episodes of the same sample, of any model, condition and run."""
        cell, sample = self.cells[self.columns["cell"][position]], self.columns["sample"][position]
        names = {"scenario": cell.names.scenario, "protocol": cell.names.protocol}
        same = self.cells_named(names)[self.columns["cell"]] & (self.columns["sample"] == sample)
        return [other for other in np.flatnonzero(same)[:MOST_NEIGHBORS].tolist() if other != position]

    def replies_with(self, text: str, candidates: np.ndarray) -> np.ndarray:
        """Return which candidates have a reply that contains the text, in any case; parts without a candidate are not read."""
        passed = np.zeros(self.height, bool)
        parts = self.columns["part"]
        for number in np.unique(parts[candidates]).tolist():
            rows = np.flatnonzero(parts == number)
            passed[rows] = self._search_part(number, text)[self.columns["row"][rows]]
        return np.asarray(passed & candidates)

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

    def find_episode(self, run: str, key_hash: int) -> int | None:
        """Return the position of an episode by its key's hash, in a run or in the first that has it."""
        for name in [run] if run in self.runs else self.runs:
            start = self.offsets[name]
            positions = np.flatnonzero(self.columns["hash"][start : start + self.heights[name]] == np.uint64(key_hash))
            if len(positions):
                return start + int(positions[0])
        return None

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
            run, row = self.cells[self.columns["cell"][position]].run, table.row(number - first, named=True)
            yield StoredEpisode(position, run, row, turns.get(row["key"], []))


def _name(cell: PlacedCell, name: str) -> str:
    return cell.run if name == "run" else str(getattr(cell.names, name))


def hash_key(key: str) -> int:
    """Return the number that stands for a key in column ``hash``, the same for as long as the process runs."""
    return int(pl.Series([key], dtype=pl.String).hash()[0])


def run_names(folders: Sequence[Path]) -> dict[str, Path]:
    """Return a short distinct name for each folder: its last component, or the whole path if several share it."""
    last = [folder.resolve().name for folder in folders]
    return {
        (name if last.count(name) == 1 else str(folder)): folder for name, folder in zip(last, folders, strict=True)
    }
