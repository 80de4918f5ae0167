"""The configuration, plan and status files of a run folder.

A run folder belongs to one configuration and one driver; any other is refused, with what to type instead.

``sweep.resolved.toml``, ``plan.json`` and ``status.json`` are replaced atomically, with their sums, and hold no secrets.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import platform
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NotRequired

import polars as pl
import tomli_w
from polars.io.plugins import register_io_source
from pydantic import Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from actors.text.redaction import redact_address, redact_addresses
from envs import regular
from envs.bad_lines import SkippedLines, bad_line_count, parse_skipped_lines
from envs.json_text import parse_json
from envs.types import ERRORS, Ending
from orchestrator.storage import checksums, lock
from orchestrator.storage.control_log import ControlState, read_control_state
from orchestrator.storage.episode_store import UNREADABLE, episodes
from orchestrator.storage.episode_store import damaged_parts as damaged_parts
from orchestrator.storage.lock import RunFolderError
from orchestrator.storage.planned_episodes import KEY, filter_planned, key_chunks
from orchestrator.storage.software import commit, versions
from sweeps.spec import ModelSpec, Sweep

__all__ = [
    "RunFolderError",
    "claim",
    "differences",
    "read_bad_lines",
    "read_status",
    "settings",
    "stored_sweep",
    "write_plan",
    "write_status",
]

RESOLVED, PLAN, KEYS, STATUS, LIVE = "sweep.resolved.toml", "plan.json", "plan.parquet", "status.json", "live.json"
BAD_LINES = "bad_lines.json"
"""The data lines that ``skip_bad`` left out; absent if there are none."""
NOT_IDENTITY = {"output", "tracking", "cluster", "staging", "judge", "measures", "precision", "models", "conditions"}
"""Keys of a sweep that do not identify a run, or are compared by name."""
SHOWN = 8
"""Differences that a refusal lists."""


class PlannedCell(TypedDict):
    """A cell of ``plan.json``."""

    model: str
    scenario: str
    condition: str
    protocol: str
    cell: str
    planned: Annotated[int, Field(ge=0, lt=2**53)]
    full: NotRequired[Annotated[int, Field(ge=0, lt=2**53)]]
    """For a sweep that stops by precision: the episodes of the full set, more than ``planned`` once the cell has stopped."""


class CellStatus(TypedDict):
    """A cell of ``status.json``."""

    cell: str
    planned: int
    finished: int
    errors: int
    state: str
    reason: str


PLANNED_CELLS, CELLS = TypeAdapter(list[PlannedCell]), TypeAdapter(list[CellStatus])


@contextlib.contextmanager
def claim(
    folder: Path, sweep: Sweep, update: bool = False, left_out: Sequence[SkippedLines] | None = None
) -> Iterator[None]:
    """Lock a run folder for this sweep in a block, and create it if needed.

    ``left_out`` are the bad lines of the data, if they were read. Raises RunFolderError if another driver holds the
    folder, or if ``update`` is false and stored episodes belong to another configuration or other bad lines.
    """
    with lock.hold(folder, "driver"):
        update = update or not _holds_parts(folder)
        old = check_configuration(folder, sweep, update)
        checksums.drop_stale_sums(folder)
        if left_out is not None:
            _record_bad_lines(folder, left_out, None if old is None or update else read_bad_lines(folder))
        checksums.write(folder / RESOLVED, sweep_toml(sweep).encode())
        yield


def check_configuration(folder: Path, sweep: Sweep, update: bool) -> Sweep | None:
    """Return the folder's sweep, or None. Raises RunFolderError like ``claim``, which locks the folder first."""
    old = _stored_or_none(folder, update)
    if old is not None and not update and (changed := differences(settings(old), settings(sweep))):
        raise RunFolderError(_refusal(folder, changed))
    return old


def sweep_toml(sweep: Sweep) -> str:
    """Return the sweep as TOML with every default and without passwords in addresses."""
    content = sweep.model_dump(mode="json", exclude_none=True)
    content["tracking"]["uri"] = redact_address(content["tracking"]["uri"])
    return redact_addresses(tomli_w.dumps(content))


def settings(sweep: Sweep) -> dict[str, Any]:
    """Return the settings that identify a run, flat: ``{"seed": 0, "sampling.max_tokens": 50}``."""
    nested = {
        **sweep.model_dump(mode="json", exclude=NOT_IDENTITY, exclude_none=True),
        "models": {model.name: _model_identity(model) for model in sweep.models},
        "conditions": {c.name: c.model_dump(mode="json", exclude={"name"}) for c in sweep.conditions},
    }
    lists = {"models": list(nested["models"]), "conditions": list(nested["conditions"])}
    return {**lists, **dict(_flatten(nested, ""))}


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Return one sentence per changed key: ``sampling.max_tokens was 50, this sweep says 64``.

    A model or condition that only one sweep has is named once, in its list.
    """
    alone = {
        f"{kind}.{name}."
        for kind in ("models", "conditions")
        for name in set(old.get(kind, ())) ^ set(new.get(kind, ()))
    }
    keys = [key for key in sorted(old.keys() | new.keys()) if old.get(key) != new.get(key)]
    return [
        f"{key} was {_shorten(old.get(key))}, this sweep says {_shorten(new.get(key))}"
        for key in keys
        if not key.startswith(tuple(alone))
    ]


def write_plan(folder: Path, planned: pl.DataFrame, keys: Iterable[str] | None = None) -> None:
    """Write ``plan.json`` from one row per cell (the fields of ``PlannedCell``).

    ``keys`` of all episodes go into ``plan.parquet``, so that the plan is known without the data folder.
    """
    if keys is not None:
        checksums.write_table(folder / KEYS, register_io_source(lambda *options: key_chunks(keys), schema=KEY))
    content = {"planned": int(planned["planned"].sum()), "cells": planned.to_dicts()}
    checksums.write(folder / PLAN, _to_json(content))


def planned_cells(folder: Path) -> list[PlannedCell]:
    """Return the cells of ``plan.json``. Raises RunFolderError if it is absent or damaged."""
    path = folder / PLAN
    try:
        return PLANNED_CELLS.validate_python(parse_json(checksums.read_verified(path))["cells"], strict=True)
    except FileNotFoundError:
        raise RunFolderError(f"{path} is not there: the run has not begun to play yet") from None
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise _damaged(path, problem) from None


def planned_keys(folder: Path) -> pl.LazyFrame | None:
    """Return one column ``key`` with the planned episodes of the last attempt; None if the file is absent.

    Raises RunFolderError if it is damaged: without it, episodes of an earlier configuration would count.
    """
    path = folder / KEYS
    try:
        return (
            pl.read_parquet(checksums.read_verified(path), columns=["key"]).select(pl.col("key").cast(pl.String)).lazy()
        )
    except FileNotFoundError:
        return None
    except UNREADABLE as problem:
        raise _damaged(path, problem) from None


def stored_sweep(folder: Path) -> Sweep:
    """Return the sweep of a run folder. Raises RunFolderError if it holds no readable sweep."""
    path = folder / RESOLVED
    try:
        return Sweep(**tomllib.loads(checksums.read_verified(path).decode()))
    except FileNotFoundError:
        raise RunFolderError(
            f"{folder} holds no run; `proactive-sweep run SWEEP --output {folder}` starts one"
        ) from None
    except (OSError, ValueError, TypeError, RecursionError) as problem:
        raise RunFolderError(f"{path} is no sweep that this version reads ({_reason(problem)})") from None


def planned_episodes(folder: Path) -> pl.LazyFrame:
    """Scan the stored episodes that belong to the plan of the last attempt."""
    return filter_planned(episodes(folder), planned_keys(folder))


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
        "describes": _content_mark(folder),
        "cells": list(cells),
    }
    checksums.write(folder / STATUS, _to_json(content))


def read_status(folder: Path) -> dict[str, Any]:
    """Return ``status.json``, and the current writer as ``running`` (host, pid, started; or None).

    ``left_out`` has one sentence per scenario with bad lines that are not played (``skip_bad``).
    ``live`` is what a running driver wrote last (``orchestrator.monitoring.snapshot.Snapshot``), or None. Counts are taken
    from the store if an attempt runs or was killed, or if ``status.json`` or a part is damaged (``damaged`` names these).
    Raises RunFolderError if the folder is no run folder.
    """
    running = lock.holder(folder)
    parts = [path.relative_to(folder).as_posix() for path in damaged_parts(folder)]
    about = {
        "damaged": [*checksums.damaged_files(folder), *parts],
        "left_out": [str(lines) for lines in read_bad_lines(folder)],
    }
    status = _read_status(folder)
    if status is not None and running is None and not parts and not _changed_since_status(folder):
        return {**status, "running": None, **about}
    if not (folder / PLAN).exists():
        raise RunFolderError(f"{folder} holds no run yet; `proactive-sweep run SWEEP --output {folder}` starts one")
    reasons = {cell["cell"]: cell["reason"] for cell in (status or {}).get("cells", ())}
    cells = _control_state(folder).mark_cells(_count_cells(folder, planned_cells(folder), reasons))
    attempt = {"running": running, "live": _read_json(folder / LIVE) if running is not None else None}
    return {**(status or {}), "finished": False, **attempt, **about, "cells": cells}


def _control_state(folder: Path) -> ControlState:
    """Return the state set by commands; the default state if the log is damaged, which ``damaged`` reports."""
    try:
        return read_control_state(folder)
    except RunFolderError:
        return ControlState()


def _changed_since_status(folder: Path) -> bool:
    """Return True if episodes or the plan changed after status.json was written, as after a kill."""
    if (folder / PLAN).exists() and not (folder / "episodes").is_dir():
        return True
    described = (_read_json(folder / STATUS) or {}).get("describes")
    if described is not None:
        return bool(described != _content_mark(folder))
    places = [folder / PLAN, folder / RESOLVED, folder / "episodes", *(folder / "episodes").glob("*.parquet")]
    newest = max((path.stat().st_mtime_ns for path in places if path.exists()), default=0)
    return newest > (folder / STATUS).stat().st_mtime_ns  # a status.json of an older version


def _content_mark(folder: Path) -> str:
    """Return a hash of the plan, the sweep, and the names and sizes of the episode parts; unlike times, these are reliable."""
    digest = hashlib.sha256()
    for path in (folder / PLAN, folder / KEYS, folder / RESOLVED, *sorted((folder / "episodes").glob("*.parquet"))):
        with contextlib.suppress(OSError):
            hash_content = path.parent == folder
            content = regular.read_bytes(path, checksums.LARGEST) if hash_content else b""
            digest.update(f"{path.name} {path.stat().st_size}\n".encode() + content)
    return digest.hexdigest()


def _count_cells(folder: Path, planned: Sequence[PlannedCell], reasons: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the cells with their durable episodes."""
    wrong = pl.col("ending").is_in(ERRORS).sum().alias("errors")
    given_up = pl.col("ending").eq(Ending.FAILED).any().alias("failed")
    counts = planned_episodes(folder).group_by("cell").agg(pl.len().alias("finished"), wrong, given_up).collect()
    counts_by_cell = {row[0]: row[1:] for row in counts.iter_rows()}
    rows = []
    for cell in planned:
        played, errors, failed = counts_by_cell.get(cell["cell"], (0, 0, False))
        finished = min(played, cell["planned"])
        state = _state(finished, cell["planned"], failed)
        reason = reasons.get(cell["cell"], "") if state == "partial" else ""
        count = {"planned": cell["planned"], "finished": finished, "errors": errors}
        rows.append({"cell": cell["cell"], **count, "state": state, "reason": reason})
    return rows


def _state(finished: int, planned: int, failed: bool) -> str:
    if finished == planned:
        return "failed" if failed else "complete"
    return "partial" if finished else "waiting"


def read_bad_lines(folder: Path) -> tuple[SkippedLines, ...]:
    """Return the bad lines that the folder's run leaves out. Raises RunFolderError if their file is damaged."""
    path = folder / BAD_LINES
    try:
        return parse_skipped_lines(parse_json(checksums.read_verified(path))["scenarios"])
    except FileNotFoundError:
        return ()
    except (OSError, TypeError, KeyError, ValueError, AttributeError) as problem:
        raise RunFolderError(f"{_damaged(path, problem)}, with --update") from None


def _record_bad_lines(folder: Path, left_out: Sequence[SkippedLines], before: Sequence[SkippedLines] | None) -> None:
    """Record the bad lines. Raises RunFolderError if they differ from ``before``, since the plan must be the same."""
    if before is not None and {lines.identity for lines in before} != {lines.identity for lines in left_out}:
        raise RunFolderError(
            f"{folder} was run without {_describe_left_out(before)}, but the data now leave out"
            f" {_describe_left_out(left_out)}. Restore the data, pass another --output, or --update to go on with the lines"
            " that are good now"
        )
    if left_out:
        checksums.write(folder / BAD_LINES, _to_json({"scenarios": [lines.as_json() for lines in left_out]}))
    else:
        (folder / BAD_LINES).unlink(missing_ok=True)


def _describe_left_out(left_out: Sequence[SkippedLines]) -> str:
    return ", ".join(f"{bad_line_count(lines.lines)} of {lines.scenario}" for lines in left_out) or "no bad line"


def _holds_parts(folder: Path) -> bool:
    """Return True if any table has or had a part; a folder without one accepts any sweep."""
    parts = (
        part for table in ("episodes", "turns", "verdicts", "damaged") for part in (folder / table).glob("*part-*")
    )
    return any(parts) or bool(checksums.removed_tables(folder))


def _stored_or_none(folder: Path, update: bool) -> Sweep | None:
    """Return the folder's sweep; None if it has none, or an unreadable one that ``update`` replaces."""
    if not (folder / RESOLVED).exists():
        return None
    try:
        return stored_sweep(folder)
    except RunFolderError as mistake:
        if update:
            return None
        raise RunFolderError(
            f"{mistake}, so whether the folder is of this sweep cannot be told; pass another --output, or --update to go on"
            " in this folder with the new configuration"
        ) from None


def _refusal(folder: Path, changed: Sequence[str]) -> str:
    rest = f"; and {len(changed) - SHOWN} more" if len(changed) > SHOWN else ""
    return (
        f"{folder} holds a run of another configuration: {'; '.join(changed[:SHOWN])}{rest}. Pass another --output, or "
        "--update to go on in this folder with the new configuration (finished episodes that still belong are kept)"
    )


def _model_identity(model: ModelSpec) -> dict[str, Any]:
    """Return the settings that change a model's answers, including engine and trust in remote code."""
    return {**model.identity, "backend": model.backend, "trust_remote_code": model.trust_remote_code}


def _flatten(nested: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, value in nested.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _shorten(value: Any) -> str:
    text = "not set" if value is None else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _read_json(path: Path) -> dict[str, Any] | None:
    try:
        content = parse_json(checksums.read_verified(path))
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) else None


def _read_status(folder: Path) -> dict[str, Any] | None:
    """Return ``status.json``; None if it is absent, damaged or edited."""
    status = _read_json(folder / STATUS)
    try:
        return None if status is None else {**status, "cells": CELLS.validate_python(status["cells"], strict=True)}
    except (KeyError, ValidationError):
        return None


def _damaged(path: Path, problem: BaseException) -> RunFolderError:
    return RunFolderError(f"{path} is damaged ({_reason(problem)}); the same `run` command writes it anew")


def _reason(problem: BaseException) -> str:
    return getattr(problem, "strerror", None) or str(problem).partition("\n")[0] or type(problem).__name__


def _to_json(content: Any) -> bytes:
    return (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode()
