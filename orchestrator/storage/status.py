"""The status of a run folder: what ``status.json`` says of the last attempt, cells counted from the stored episodes, and faults.

A fault is a file that is damaged, missing or foreign according to ``sums.sha256``, where every part, and every file that a
figure or the next run depends on, has a line.
"""

import logging
import platform
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import polars as pl
from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from actors.text.redaction import redact_address
from envs.errors import RunFolderError
from envs.regular import parse_fields
from envs.types import ERRORS, Ending
from orchestrator.storage import checksums, lock, run_folder, safe_write, software
from orchestrator.storage.control_log import ControlState, read_control_state
from orchestrator.storage.part_files import list_parts
from sweeps.load import limited_products

STATUS, LIVE = "status.json", "live.json"
REMEDY = "rerun the same `run` command to rewrite it or to replay its episodes"
DAMAGED = f"is damaged, was edited or is not of this run; {REMEDY}"
MISSING = f"is missing; {REMEDY}"
NO_SUMS = (
    "is missing or empty, so that damage to other files cannot be detected; delete the folder unless you removed it"
)

log = logging.getLogger(__name__)


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
    """Write ``status.json``: the command, versions, the state of each cell, and whether the attempt ended by itself."""
    content = {
        "argv": [redact_address(argument) for argument in sys.argv],
        "commit": software.commit(),
        "python": platform.python_version(),
        "packages": software.versions(),
        "finished": finished,
        "cells": list(cells),
    }
    checksums.write(folder / STATUS, run_folder.to_json(content))


def last_status(folder: Path) -> dict[str, Any]:
    """Return ``status.json`` as the last attempt wrote it; empty if it is absent, damaged or edited."""
    with suppress(KeyError, ValidationError):
        if status := _read_json(folder / STATUS):
            return {**status, "cells": CELLS.validate_python(status["cells"], strict=True)}
    return {}


def read_status(folder: Path) -> dict[str, Any]:
    """Return ``status.json``, and the current writer as ``running`` (host, pid, started; or None).

    ``faults`` has a sentence per fault and ``damaged`` names the damaged files; ``left_out`` has one sentence per condition that
    a model cannot take, and per scenario with bad lines that are not played (``skip_bad``). ``live`` is what a running driver
    wrote last (``orchestrator.monitoring.snapshot.Snapshot``), or None. A cell whose counts have changed since gets a new state.
    Raises RunFolderError if the folder is not a run folder.
    """
    safe_write.refuse_links(folder)
    if not (folder / run_folder.PLAN).exists():
        raise run_folder.missing_run(folder)
    running, status, faults = lock.holder(folder), last_status(folder), find_faults(folder)
    control, limits = ControlState(), list[str]()
    with suppress(RunFolderError):  # ``damaged`` names a damaged log or sweep
        control = read_control_state(folder)
    with suppress(RunFolderError):
        limits = limited_products(run_folder.stored_sweep(folder))
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
        "left_out": [*limits, *map(str, run_folder.read_bad_lines(folder))],
        "cells": cells,
    }


def count_cells(folder: Path, control: ControlState) -> list[dict[str, Any]]:
    """Return the planned cells with their state, counted from the stored episodes."""
    stored, ending = run_folder.planned_episodes(folder).group_by("cell"), pl.col("ending")
    counts = stored.agg(finished=pl.len(), errors=ending.is_in(ERRORS).sum(), failed=(ending == Ending.FAILED).sum())
    by_cell = {row["cell"]: row for row in counts.collect().iter_rows(named=True)}
    none = {"finished": 0, "errors": 0, "failed": 0}
    cells = run_folder.planned_cells(folder)
    return mark_cells(({**none, **cell, **by_cell.get(cell["cell"], {})} for cell in cells), control, {})


def mark_cells(
    rows: Iterable[Mapping[str, Any]], control: ControlState, reasons: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return the state of each cell, from its planned, finished and failed episodes and those that ended as an error.

    ``reasons``: model, or pattern of cells (``qwen/*/hint``) -> why it stopped, which fails its unfinished cells.
    """
    marked = []
    for row in rows:
        name, planned = row["cell"], row["planned"]
        finished, reason = min(row["finished"], planned), ""
        state = "failed" if row["failed"] else "complete"
        if finished < planned:
            applies = (why for key, why in reasons.items() if name.startswith(f"{key}/") or fnmatchcase(name, key))
            reason = next(applies, "")
            state = "failed" if reason else "partial" if finished else "waiting"
        counted = {"cell": name, "planned": planned, "finished": finished, "errors": row["errors"]}
        marked.append(control.mark_cell({**counted, "state": state, "reason": reason}))
    return marked


def _read_json(path: Path) -> dict[str, Any] | None:
    with suppress(OSError):
        return parse_fields(checksums.read_verified(path))
    return None


# -- faults -------------------------------------------------------------------------------------------------------------
def find_faults(folder: Path) -> dict[str, str]:
    """Return file or table -> what is wrong with it, of a run folder and its gold check; while a driver writes, only damage."""
    faults = _find_faults(folder, lock.holder(folder) is None)
    for gold in {path.parent.parent for path in folder.glob("*/verdicts/*")}:
        faults |= {f"{gold.name}/{name}": problem for name, problem in _find_faults(gold, False).items()}
    return dict(sorted(faults.items()))


def _find_faults(folder: Path, at_rest: bool) -> dict[str, str]:
    bad = [path.relative_to(folder).as_posix() for path in list_parts(folder).bad]
    faults = dict.fromkeys([*checksums.damaged_files(folder), *bad], DAMAGED)
    for name in checksums.missing_files(folder) if at_rest else ():
        table, is_part, _ = name.partition("/")
        faults.setdefault(f"{table}/" if is_part and not (folder / table).is_dir() else name, MISSING)
    if not checksums.read_sums(folder) and any(folder.glob("*/part-*.parquet")):
        faults[checksums.NAME] = NO_SUMS
    return faults


def put_aside_unmended(folder: Path) -> None:
    """Give up the damaged and missing files that an attempt did not rewrite; damaged ones move to ``damaged/``.

    Call it at the end of an attempt; the caller must hold the folder's lock.
    """
    missing = [name for name in checksums.missing_files(folder) if "/" not in name]
    names = [*checksums.damaged_files(folder), *missing]
    checksums.record_removals(folder, [folder / name for name in names])
    for name in names:
        log.warning("%s was damaged or missing, and this run cannot rewrite it", name)
        if (folder / name).exists():
            safe_write.move_aside(folder, folder / name)
