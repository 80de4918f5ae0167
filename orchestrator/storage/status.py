"""The status of a run folder: ``status.json``, corrected by the stored episodes if it is outdated."""

import contextlib
import hashlib
import platform
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
from pydantic import TypeAdapter
from typing_extensions import TypedDict

from actors.text.redaction import redact_address
from envs import regular
from envs.errors import RunFolderError
from envs.json_text import parse_json
from envs.types import ERRORS, Ending
from orchestrator.storage import checksums, lock, safe_write
from orchestrator.storage.control_state import ControlState, read_control_state
from orchestrator.storage.manifest import DAMAGED, find_faults
from orchestrator.storage.part_files import damaged_parts
from orchestrator.storage.run_folder import (
    KEYS,
    PLAN,
    RESOLVED,
    PlannedCell,
    missing_run,
    planned_cells,
    planned_episodes,
    read_bad_lines,
    stored_sweep,
    to_json,
)
from orchestrator.storage.software import commit, versions
from sweeps.load import limited_products

STATUS, LIVE = "status.json", "live.json"


class CellStatus(TypedDict):
    """A cell of ``status.json``."""

    cell: str
    planned: int
    finished: int
    errors: int
    state: str
    reason: str


CELLS = TypeAdapter(list[CellStatus])


def write_status(folder: Path, cells: Sequence[Mapping[str, Any]], finished: bool) -> None:
    """Write ``status.json``: the command, versions, and the state of each cell.

    ``finished`` is False if the attempt was stopped.
    """
    content = {
        "argv": [redact_address(argument) for argument in sys.argv],
        "commit": commit(),
        "python": platform.python_version(),
        "packages": versions(),
        "finished": finished,
        "describes": _content_hash(folder),
        "cells": list(cells),
    }
    checksums.write(folder / STATUS, to_json(content))


def read_status(folder: Path) -> dict[str, Any]:
    """Return ``status.json``, and the current writer as ``running`` (host, pid, started; or None).

    ``left_out`` has one sentence per condition that a model cannot take, and per scenario with bad lines that are not played
    (``skip_bad``). ``live`` is what a running driver wrote last (``orchestrator.monitoring.snapshot.Snapshot``), or None.

    Cells are counted from the stored episodes if an attempt runs or was killed, or if ``status.json`` or a part is damaged
    (``damaged`` names these). Raises RunFolderError if the folder is not a run folder.
    """
    safe_write.refuse_links(folder)
    running = lock.holder(folder)
    parts = [path.relative_to(folder).as_posix() for path in damaged_parts(folder)]
    faults = find_faults(folder)
    warnings = {
        "damaged": [fault.name for fault in faults if fault.problem == DAMAGED],
        "faults": [str(fault) for fault in faults],
        "left_out": [*_limited_products(folder), *map(str, read_bad_lines(folder))],
    }
    status = _read_status(folder)
    if status is not None and running is None and not parts and not _is_outdated(status, folder):
        return {**status, "running": None, **warnings}
    if not (folder / PLAN).exists():
        raise missing_run(folder)
    reasons = {cell["cell"]: cell["reason"] for cell in (status or {}).get("cells", ())}
    cells = _control_state(folder).mark_cells(_count_cells(folder, planned_cells(folder), reasons))
    attempt = {"running": running, "live": _read_json(folder / LIVE) if running is not None else None}
    return {**(status or {}), "finished": False, **attempt, **warnings, "cells": cells}


def _limited_products(folder: Path) -> list[str]:
    """Return what the run's models cannot take; nothing if its sweep cannot be read, which ``damaged`` reports."""
    try:
        return limited_products(stored_sweep(folder))
    except RunFolderError:
        return []


def _control_state(folder: Path) -> ControlState:
    """Return the state set by commands; the default state if the log is damaged, which ``damaged`` reports."""
    try:
        return read_control_state(folder)
    except RunFolderError:
        return ControlState()


def _is_outdated(status: Mapping[str, Any], folder: Path) -> bool:
    """Return True if episodes or the plan changed after ``status.json`` was written, as after a kill."""
    if (folder / PLAN).exists() and not (folder / "episodes").is_dir():
        return True
    if (content_hash := status.get("describes")) is not None:
        return bool(content_hash != _content_hash(folder))
    paths = [folder / PLAN, folder / RESOLVED, folder / "episodes", *(folder / "episodes").glob("*.parquet")]
    newest = max((path.stat().st_mtime_ns for path in paths if path.exists()), default=0)
    return newest > (folder / STATUS).stat().st_mtime_ns  # a status.json of an older version


def _content_hash(folder: Path) -> str:
    """Return a hash of the plan, the sweep, and the names and sizes of the episode parts; unlike times, these are reliable."""
    digest = hashlib.sha256()
    for path in (folder / PLAN, folder / KEYS, folder / RESOLVED, *sorted((folder / "episodes").glob("*.parquet"))):
        with contextlib.suppress(OSError):
            content = regular.read_bytes(path, checksums.LARGEST) if path.parent == folder else b""
            digest.update(f"{path.name} {path.stat().st_size}\n".encode() + content)
    return digest.hexdigest()


def _count_cells(folder: Path, planned: Sequence[PlannedCell], reasons: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the cells of ``status.json``, counted from the stored episodes."""
    errors = pl.col("ending").is_in(ERRORS).sum().alias("errors")
    failed = pl.col("ending").eq(Ending.FAILED).any().alias("failed")
    counts = planned_episodes(folder).group_by("cell").agg(pl.len(), errors, failed).collect()
    counts_by_cell = {cell: values for cell, *values in counts.iter_rows()}
    rows = []
    for cell in planned:
        stored, error_count, has_failed = counts_by_cell.get(cell["cell"], (0, 0, False))
        finished = min(stored, cell["planned"])
        finished_state = "failed" if has_failed else "complete"
        state = finished_state if finished == cell["planned"] else "partial" if finished else "waiting"
        reason = reasons.get(cell["cell"], "") if state == "partial" else ""
        cell_counts = {"planned": cell["planned"], "finished": finished, "errors": error_count}
        rows.append({"cell": cell["cell"], **cell_counts, "state": state, "reason": reason})
    return rows


def _read_status(folder: Path) -> dict[str, Any] | None:
    """Return ``status.json``; None if it is absent, damaged or edited."""
    status = _read_json(folder / STATUS)
    try:
        return None if status is None else {**status, "cells": CELLS.validate_python(status["cells"], strict=True)}
    except (KeyError, ValueError):
        return None


def _read_json(path: Path) -> dict[str, Any] | None:
    try:
        content = parse_json(checksums.read_verified(path))
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) else None
