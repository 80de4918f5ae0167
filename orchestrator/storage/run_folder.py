"""The files of a run folder beside its tables: configuration, plan and status.

A run folder belongs to one configuration and one driver: another of either is refused, with what to type instead.

``sweep.resolved.toml``, ``plan.json`` and ``status.json`` are replaced whole, with their sums; none of them holds a secret.
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

from actors.redaction import redact_address, redact_addresses
from envs import regular
from envs.bad_lines import LeftOut, counted, from_json
from envs.types import ERRORS, Ending
from orchestrator.storage import checksums, lock
from orchestrator.storage.control_log import Standing, standing
from orchestrator.storage.episode_store import UNREADABLE, episodes
from orchestrator.storage.episode_store import damaged as damaged_parts
from orchestrator.storage.lock import RunFolderError
from orchestrator.storage.planned_episodes import KEY, key_frames, planned_only
from orchestrator.storage.software import commit, versions
from sweeps.spec import ModelSpec, Sweep

__all__ = [
    "RunFolderError",
    "bad_lines",
    "claim",
    "differences",
    "read_status",
    "settings",
    "stored_sweep",
    "write_plan",
    "write_status",
]

RESOLVED, PLAN, KEYS, STATUS, LIVE = "sweep.resolved.toml", "plan.json", "plan.parquet", "status.json", "live.json"
BAD_LINES = "bad_lines.json"
"""What ``skip_bad`` left out of the data; not there where no line was."""
NOT_IDENTITY = {"output", "tracking", "cluster", "staging", "judge", "measures", "precision", "models", "conditions"}
"""Keys of a sweep that do not identify a run, or are compared entry by entry."""
SHOWN = 8
"""Differences that a refusal lists; a person fixes the first ones first."""


class PlannedCell(TypedDict):
    """A cell of ``plan.json``."""

    model: str
    scenario: str
    condition: str
    protocol: str
    cell: str
    planned: Annotated[int, Field(ge=0, lt=2**53)]
    full: NotRequired[Annotated[int, Field(ge=0, lt=2**53)]]
    """Of a sweep that stops by precision: the episodes of the cell's whole set; more than ``planned`` where it has stopped."""


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
    folder: Path, sweep: Sweep, update: bool = False, left_out: Sequence[LeftOut] | None = None
) -> Iterator[None]:
    """Hold a run folder for this sweep, made if it is not there; ``left_out``: the bad lines of its data, where they were read.

    Raises RunFolderError when another driver holds it, or when ``update`` is false, something was played, and it is of
    another configuration or of data of which other lines were left out.
    """
    with lock.held(folder, "driver"):
        update = update or not _holds_anything(folder)
        old = check(folder, sweep, update)
        checksums.settle(folder)
        if left_out is not None:
            _keep_bad_lines(folder, left_out, None if old is None or update else bad_lines(folder))
        checksums.write(folder / RESOLVED, resolved(sweep).encode())
        yield


def check(folder: Path, sweep: Sweep, update: bool) -> Sweep | None:
    """The sweep that the folder is of, None where it has none; raises RunFolderError as ``claim``, which locks it first."""
    old = _stored(folder, update)
    if old is not None and not update and (changed := differences(settings(old), settings(sweep))):
        raise RunFolderError(_refusal(folder, changed))
    return old


def resolved(sweep: Sweep) -> str:
    """The whole sweep as TOML, every default written out, passwords in addresses left out."""
    content = sweep.model_dump(mode="json", exclude_none=True)
    content["tracking"]["uri"] = redact_address(content["tracking"]["uri"])
    return redact_addresses(tomli_w.dumps(content))


def settings(sweep: Sweep) -> dict[str, Any]:
    """What identifies a run, flat: ``{"seed": 0, "sampling.max_tokens": 50, "models.qwen.revision": "..."}``."""
    nested = {
        **sweep.model_dump(mode="json", exclude=NOT_IDENTITY, exclude_none=True),
        "models": {model.name: _identity(model) for model in sweep.models},
        "conditions": {c.name: c.model_dump(mode="json", exclude={"name"}) for c in sweep.conditions},
    }
    lists = {"models": list(nested["models"]), "conditions": list(nested["conditions"])}
    return {**lists, **dict(_flat(nested, ""))}


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """One sentence a key: ``sampling.max_tokens was 50, this sweep says 64``.

    A model or condition that only one of the two has is named once, in its list.
    """
    alone = {
        f"{kind}.{name}."
        for kind in ("models", "conditions")
        for name in set(old.get(kind, ())) ^ set(new.get(kind, ()))
    }
    keys = [key for key in sorted(old.keys() | new.keys()) if old.get(key) != new.get(key)]
    return [
        f"{key} was {_value(old.get(key))}, this sweep says {_value(new.get(key))}"
        for key in keys
        if not key.startswith(tuple(alone))
    ]


def write_plan(folder: Path, planned: pl.DataFrame, keys: Iterable[str] | None = None) -> None:
    """``plan.json`` from one row a cell: cell, model, scenario, condition, protocol, planned, and ``full`` of ``PlannedCell``.

    ``keys`` of all episodes go into ``plan.parquet``: so that what belongs to the plan is known without the data folder.
    """
    if keys is not None:
        checksums.write_table(folder / KEYS, register_io_source(lambda *asked: key_frames(keys), schema=KEY))
    content = {"planned": int(planned["planned"].sum()), "cells": planned.to_dicts()}
    checksums.write(folder / PLAN, _json(content))


def planned_cells(folder: Path) -> list[PlannedCell]:
    """The cells of ``plan.json``; raises RunFolderError where it is absent or damaged."""
    path = folder / PLAN
    try:
        return PLANNED_CELLS.validate_python(json.loads(checksums.content(path))["cells"], strict=True)
    except FileNotFoundError:
        raise RunFolderError(f"{path} is not there: the run has not begun to play yet") from None
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as problem:
        raise _damaged(path, problem) from None


def planned_keys(folder: Path) -> pl.LazyFrame | None:
    """One column ``key``: every episode that the folder's last attempt was to play; None where the file is absent.

    Raises RunFolderError where it is damaged: without it episodes of an earlier configuration would count.
    """
    path = folder / KEYS
    try:
        return pl.read_parquet(checksums.content(path), columns=["key"]).select(pl.col("key").cast(pl.String)).lazy()
    except FileNotFoundError:
        return None
    except UNREADABLE as problem:
        raise _damaged(path, problem) from None


def stored_sweep(folder: Path) -> Sweep:
    """The sweep that a run folder is of; raises RunFolderError when it is none."""
    path = folder / RESOLVED
    try:
        return Sweep(**tomllib.loads(checksums.content(path).decode()))
    except FileNotFoundError:
        raise RunFolderError(
            f"{folder} holds no run; `proactive-sweep run SWEEP --output {folder}` starts one"
        ) from None
    except (OSError, ValueError, TypeError, RecursionError) as problem:
        raise RunFolderError(f"{path} is no sweep that this version reads ({_reason(problem)})") from None


def asked(folder: Path) -> pl.LazyFrame:
    """The stored episodes that belong to the plan of the folder's last attempt."""
    return planned_only(episodes(folder), planned_keys(folder))


def write_status(folder: Path, cells: Sequence[Mapping[str, Any]], finished: bool) -> None:
    """``status.json``: how the attempt was started, with which versions, and the state of each cell.

    ``finished`` is false when somebody stopped the attempt.
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
    checksums.write(folder / STATUS, _json(content))


def read_status(folder: Path) -> dict[str, Any]:
    """How far a run folder is: ``status.json``, and who writes there now as ``running`` (host, pid, started; or None).

    ``left_out``: a sentence a scenario with bad lines that are not played (``skip_bad``).
    ``live`` is what a running driver wrote last (``orchestrator.monitoring.snapshot.Snapshot``), or None. Counts are taken
    afresh from the store when an attempt runs or was killed (kill -9), and where ``status.json`` or a part is damaged.
    ``damaged`` names such files.
    Raises RunFolderError when the folder is no run folder.
    """
    running = lock.holder(folder)
    parts = [path.relative_to(folder).as_posix() for path in damaged_parts(folder)]
    about = {"damaged": [*checksums.damaged(folder), *parts], "left_out": [str(one) for one in bad_lines(folder)]}
    status = _read_status(folder)
    if status is not None and running is None and not parts and not _changed_since_status(folder):
        return {**status, "running": None, **about}
    if not (folder / PLAN).exists():
        raise RunFolderError(f"{folder} holds no run yet; `proactive-sweep run SWEEP --output {folder}` starts one")
    reasons = {cell["cell"]: cell["reason"] for cell in (status or {}).get("cells", ())}
    cells = _standing(folder).marked(_counted(folder, planned_cells(folder), reasons))
    now = {"running": running, "live": _read(folder / LIVE) if running is not None else None}
    return {**(status or {}), "finished": False, **now, **about, "cells": cells}


def _standing(folder: Path) -> Standing:
    """What was asked of the run; nothing where the log is damaged, which ``damaged`` names."""
    try:
        return standing(folder)
    except RunFolderError:
        return Standing()


def _changed_since_status(folder: Path) -> bool:
    """Whether episodes or the plan changed after status.json was written, as when an attempt was killed."""
    if (folder / PLAN).exists() and not (folder / "episodes").is_dir():
        return True
    described = (_read(folder / STATUS) or {}).get("describes")
    if described is not None:
        return bool(described != _content_mark(folder))
    places = [folder / PLAN, folder / RESOLVED, folder / "episodes", *(folder / "episodes").glob("*.parquet")]
    newest = max((path.stat().st_mtime_ns for path in places if path.exists()), default=0)
    return newest > (folder / STATUS).stat().st_mtime_ns  # a status.json of an older version


def _content_mark(folder: Path) -> str:
    """Hash of the plan, the sweep, and the names and sizes of the parts of episodes: clocks may go back, these do not."""
    found = hashlib.sha256()
    for path in (folder / PLAN, folder / KEYS, folder / RESOLVED, *sorted((folder / "episodes").glob("*.parquet"))):
        with contextlib.suppress(OSError):
            whole = path.parent == folder
            content = regular.content(path, checksums.LARGEST) if whole else b""
            found.update(f"{path.name} {path.stat().st_size}\n".encode() + content)
    return found.hexdigest()


def _counted(folder: Path, planned: Sequence[PlannedCell], reasons: Mapping[str, str]) -> list[dict[str, Any]]:
    """Cells with what is durable now."""
    wrong = pl.col("ending").is_in(ERRORS).sum().alias("errors")
    given_up = pl.col("ending").eq(Ending.FAILED).any().alias("failed")
    counts = asked(folder).group_by("cell").agg(pl.len().alias("finished"), wrong, given_up).collect()
    found = {row[0]: row[1:] for row in counts.iter_rows()}
    rows = []
    for cell in planned:
        played, errors, failed = found.get(cell["cell"], (0, 0, False))
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


def bad_lines(folder: Path) -> tuple[LeftOut, ...]:
    """The bad lines of the data that the folder's run leaves out; raises RunFolderError where their file is damaged."""
    path = folder / BAD_LINES
    try:
        return from_json(json.loads(checksums.content(path))["scenarios"])
    except FileNotFoundError:
        return ()
    except (OSError, TypeError, KeyError, ValueError, AttributeError, RecursionError) as problem:
        raise RunFolderError(f"{_damaged(path, problem)}, with --update") from None


def _keep_bad_lines(folder: Path, found: Sequence[LeftOut], before: Sequence[LeftOut] | None) -> None:
    """Write down what is left out; raises RunFolderError where ``before`` it was something else: the plan must be the same."""
    if before is not None and {one.same for one in before} != {one.same for one in found}:
        raise RunFolderError(
            f"{folder} was run without {_said(before)}, and of the data as they are now {_said(found)} would be left out; put"
            " the data back as they were, pass another --output, or --update to go on with what is good now"
        )
    if found:
        checksums.write(folder / BAD_LINES, _json({"scenarios": [one.as_json() for one in found]}))
    else:
        (folder / BAD_LINES).unlink(missing_ok=True)


def _said(left_out: Sequence[LeftOut]) -> str:
    return ", ".join(f"{counted(one.lines)} of {one.scenario}" for one in left_out) or "no bad line"


def _holds_anything(folder: Path) -> bool:
    """Whether a part of any table is there or was: a folder without one may become any sweep's."""
    parts = (
        part for place in ("episodes", "turns", "verdicts", "damaged") for part in (folder / place).glob("*part-*")
    )
    return any(parts) or bool(checksums.removed(folder))


def _stored(folder: Path, update: bool) -> Sweep | None:
    """The sweep that the folder is of; None when it has none, or one that nobody can read and ``update`` replaces."""
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
    more = f"; and {len(changed) - SHOWN} more" if len(changed) > SHOWN else ""
    return (
        f"{folder} holds a run of another configuration: {'; '.join(changed[:SHOWN])}{more}. Pass another --output, or "
        "--update to go on in this folder with the new configuration (finished episodes that still belong are kept)"
    )


def _identity(model: ModelSpec) -> dict[str, Any]:
    """What changes a model's answers, the engine and the trust in its code included."""
    return {**model.identity, "backend": model.backend, "trust_remote_code": model.trust_remote_code}


def _flat(nested: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, value in nested.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _value(value: Any) -> str:
    text = "not set" if value is None else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _read(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(checksums.content(path))
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _read_status(folder: Path) -> dict[str, Any] | None:
    """``status.json`` as it was written; None where it is absent, damaged or edited."""
    status = _read(folder / STATUS)
    try:
        return None if status is None else {**status, "cells": CELLS.validate_python(status["cells"], strict=True)}
    except (KeyError, ValidationError):
        return None


def _damaged(path: Path, problem: BaseException) -> RunFolderError:
    return RunFolderError(f"{path} is damaged ({_reason(problem)}); the same `run` command writes it anew")


def _reason(problem: BaseException) -> str:
    return getattr(problem, "strerror", None) or str(problem).partition("\n")[0] or type(problem).__name__


def _json(content: Any) -> bytes:
    return (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode()
