"""The status of a run folder: what ``status.json`` says of the last attempt, with cells counted from the stored episodes."""

import platform
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from types import MappingProxyType
from typing import Any

import polars as pl
from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from actors.text.redaction import redact_address
from envs.errors import RunFolderError
from envs.regular import parse_json
from envs.types import ERRORS, Ending
from orchestrator.storage import checksums, lock, safe_write
from orchestrator.storage.control_log import ControlState, read_control_state
from orchestrator.storage.manifest import DAMAGED, find_faults
from orchestrator.storage.run_folder import (
    PLAN,
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
        "cells": list(cells),
    }
    checksums.write(folder / STATUS, to_json(content))


def last_status(folder: Path) -> dict[str, Any]:
    """Return ``status.json`` as the last attempt wrote it; empty if it is absent, damaged or edited."""
    status = _read_json(folder / STATUS)
    try:
        return {**status, "cells": CELLS.validate_python(status["cells"], strict=True)} if status else {}
    except (KeyError, ValidationError):
        return {}


def read_status(folder: Path) -> dict[str, Any]:
    """Return ``status.json``, and the current writer as ``running`` (host, pid, started; or None).

    ``faults`` has a sentence per fault and ``damaged`` names the damaged files; ``left_out`` has one sentence per condition that
    a model cannot take, and per scenario with bad lines that are not played (``skip_bad``). ``live`` is what a running driver
    wrote last (``orchestrator.monitoring.snapshot.Snapshot``), or None. A cell whose counts have changed since gets a new state.
    Raises RunFolderError if the folder is not a run folder.
    """
    safe_write.refuse_links(folder)
    if not (folder / PLAN).exists():
        raise missing_run(folder)
    running, status, faults = lock.holder(folder), last_status(folder), find_faults(folder)
    control, limits = ControlState(), list[str]()
    with suppress(RunFolderError):  # ``damaged`` names a damaged log or sweep
        control = read_control_state(folder)
    with suppress(RunFolderError):
        limits = limited_products(stored_sweep(folder))
    before = {cell["cell"]: cell for cell in status.get("cells", ())}
    cells = []
    for cell in count_cells(folder, control):
        old = before.get(cell["cell"], {})
        is_current = running is None and all(old.get(name) == cell[name] for name in ("planned", "finished", "errors"))
        if cell["state"] == "partial":
            cell["reason"] = old.get("reason", "")
        cells.append(old if is_current else cell)
    is_unchanged = {cell["cell"]: cell for cell in cells} == before
    return {
        **status,
        "finished": status.get("finished", False) and running is None and is_unchanged,
        "running": running,
        "live": _read_json(folder / LIVE) if running is not None else None,
        "damaged": [name for name, problem in faults.items() if problem == DAMAGED],
        "faults": [f"{name} {problem}" for name, problem in faults.items()],
        "left_out": [*limits, *map(str, read_bad_lines(folder))],
        "cells": cells,
    }


def count_cells(
    folder: Path, control: ControlState, reasons: Mapping[str, str] = MappingProxyType({})
) -> list[dict[str, Any]]:
    """Return the planned cells with their state, counted from the stored episodes.

    ``reasons``: model, or pattern of cells (``qwen/*/hint``) -> why it stopped, which fails its unfinished cells.
    """
    errors = pl.col("ending").is_in(ERRORS).sum().alias("errors")
    failed = pl.col("ending").eq(Ending.FAILED).any().alias("failed")
    counts = planned_episodes(folder).group_by("cell").agg(pl.len(), errors, failed).collect()
    counts_by_cell = {cell: values for cell, *values in counts.iter_rows()}
    rows = []
    for cell in planned_cells(folder):
        name, planned = cell["cell"], cell["planned"]
        stored, error_count, has_failed = counts_by_cell.get(name, (0, 0, False))
        finished, reason = min(stored, planned), ""
        state = "failed" if has_failed else "complete"
        if finished < planned:
            applies = (why for key, why in reasons.items() if name.startswith(f"{key}/") or fnmatchcase(name, key))
            reason = next(applies, "")
            state = "failed" if reason else "partial" if finished else "waiting"
        counted = {"cell": name, "planned": planned, "finished": finished, "errors": error_count}
        rows.append(control.mark_cell({**counted, "state": state, "reason": reason}))
    return rows


def _read_json(path: Path) -> dict[str, Any] | None:
    try:
        content = parse_json(checksums.read_verified(path))
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) else None
