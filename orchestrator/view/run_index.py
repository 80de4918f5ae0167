"""The episodes of one run folder as columns in memory, also while the run writes: parts that appear are added.

``version`` rises with every change.
"""

import logging
from pathlib import Path

import numpy as np
import polars as pl

from envs.errors import RunFolderError
from orchestrator.storage.part_files import Part, list_parts
from orchestrator.storage.run_folder import KEYS, planned_cells, planned_keys, stored_sweep
from orchestrator.storage.schemas import UNREADABLE
from orchestrator.storage.verdict_store import verdicts
from orchestrator.view.part_columns import COLUMNS, NOT_SCORED, CellNames, PartColumns, read_part
from sweeps.protocol import Protocol

EMPTY = pl.Schema([*COLUMNS.items(), ("part", pl.UInt16())]).to_frame()
log = logging.getLogger(__name__)


class RunIndex:
    """The columns of a run's episodes; ``refresh`` reads what is new."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cells: dict[CellNames, int] = {}
        self.parts: list[PartColumns] = []
        self.columns: dict[str, np.ndarray] = _arrays(EMPTY)
        """Name -> values, one per episode, in stored order; ``part`` is the position in ``parts``."""
        self.baselines = {model.name for model in stored_sweep(folder).models if model.backend == "builtin"}
        self.version = 0
        self.planned = 0
        self._state: object = None
        self._modified: dict[Part, int] = {}
        """Part -> modification time of the file that was read; a run rewrites a part when it plays its episodes again."""
        self._unreadable: set[Part] = set()

    @property
    def height(self) -> int:
        """Return the number of episodes."""
        return len(self.columns["cell"])

    def refresh(self, most_parts: int | None = None) -> bool:
        """Read new parts, at most ``most_parts``; return True if more are left to read."""
        state = self._folder_state()
        if state == self._state:
            return False
        parts = [part for part in list_parts(self.folder).parts if part not in self._unreadable]
        modified = {part: _modified(self.folder / "episodes" / part.name) for part in parts}
        by_part = {c.part: c for c in self.parts if self._modified[c.part] == modified.get(c.part)}
        missing = [part for part in parts if part not in by_part]
        for part in missing[:most_parts]:
            self._modified[part] = modified[part]
            try:
                by_part[part] = read_part(self.folder, part, self.cells)
            except UNREADABLE as problem:
                log.warning("%s of %s is skipped: %s", part.name, self.folder, problem)
                self._unreadable.add(part)
        self._publish([by_part[part] for part in parts if part in by_part])
        is_complete = most_parts is None or len(missing) <= most_parts
        self._state = state if is_complete else None
        return not is_complete

    def _folder_state(self) -> object:
        """Return a value that changes with the folder: the modification times of its parts and its plan."""
        parts = [
            sorted((path.name, _modified(path)) for path in (self.folder / table).glob("*.parquet"))
            for table in ("episodes", "turns", "verdicts")
        ]
        return parts, _modified(self.folder / KEYS)

    def _publish(self, parts: list[PartColumns]) -> None:
        """Replace the columns by the planned episodes of these parts, each key once."""
        frames = [columns.episodes.with_columns(part=pl.lit(n, pl.UInt16)) for n, columns in enumerate(parts)]
        rows = _planned_rows(pl.concat([EMPTY, *frames]), planned_keys(self.folder))
        arrays = _arrays(rows)
        if any(cell.protocol == Protocol.OEG for cell in self.cells):
            arrays["right"] = _with_verdicts(self.folder, arrays)
        self.parts, self.columns = parts, arrays
        self.version += 1
        try:
            self.planned = sum(cell["planned"] for cell in planned_cells(self.folder))
        except RunFolderError:
            self.planned = 0


def _modified(path: Path) -> int:
    """Return when a file was written, in nanoseconds; 0 if it has gone."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def _arrays(rows: pl.DataFrame) -> dict[str, np.ndarray]:
    return {name: rows[name].rechunk().to_numpy() for name in rows.columns}


def _planned_rows(rows: pl.DataFrame, planned: pl.LazyFrame | None) -> pl.DataFrame:
    """Return the rows of the plan, as ``storage.planned_episodes`` decides, each key once."""
    rows = rows.filter(pl.col("hash").is_first_distinct())
    if planned is None:
        return rows.unique(["cell", "sample"], keep="last", maintain_order=True)
    hashes = planned.select(pl.col("key").hash().alias("hash")).collect()["hash"]
    return rows.filter(pl.col("hash").is_in(hashes.implode()))


def _with_verdicts(folder: Path, arrays: dict[str, np.ndarray]) -> np.ndarray:
    """Return ``right`` with the newest verdict of any judge on each open-ended answer."""
    judged = verdicts(folder).select(pl.col("key").hash().alias("hash"), "aggregate").collect()
    judged = judged.unique("hash", keep="last").with_columns(pl.col("aggregate").cast(pl.Int8))
    right = pl.DataFrame({"hash": arrays["hash"], "right": arrays["right"]})
    right = right.join(judged, on="hash", how="left", maintain_order="left")
    is_open = pl.col("right") == NOT_SCORED
    values = right.select(pl.when(is_open).then(pl.col("aggregate").fill_null(NOT_SCORED)).otherwise("right"))
    return values.to_series().cast(pl.Int8).to_numpy()
