"""The files of a run folder beside its tables: configuration, plan and status.

A run folder belongs to one configuration and one driver: another of either is refused, with what to type instead.

``sweep.resolved.toml``, ``plan.json`` and ``status.json`` are replaced whole; none of them holds a secret.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import importlib.metadata
import json
import os
import platform
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import tomli_w
from pydantic import ValidationError

from actors.redaction import redact_address, redact_addresses
from envs.bad_lines import LeftOut, counted, from_json
from envs.types import ERRORS, Ending
from orchestrator.storage import atomic_write, lock
from orchestrator.storage.episode_store import UNREADABLE, episodes
from orchestrator.storage.lock import RunFolderError
from orchestrator.storage.planned_episodes import planned_only
from sweeps.spec import ModelSpec, Sweep

__all__ = [
    "RunFolderError",
    "bad_lines",
    "claim",
    "differences",
    "read_status",
    "settings",
    "write_plan",
    "write_status",
]

RESOLVED, PLAN, KEYS, STATUS, LIVE = "sweep.resolved.toml", "plan.json", "plan.parquet", "status.json", "live.json"
BAD_LINES = "bad_lines.json"
"""What ``skip_bad`` left out of the data; not there where no line was."""
NOT_IDENTITY = {"output", "tracking", "cluster", "staging", "judge", "models", "conditions"}
"""Keys of a sweep that do not identify a run, or are compared entry by entry."""
PACKAGES = (
    "proactive-sweep",
    "ray",
    "polars",
    "mlflow",
    "pillow",
    "numpy",
    "scipy",
    "vllm",
    "torch",
    "transformers",
    "openai",
)
DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)
"""What the system says of a disk that is full, limited, read-only or broken; polars has the number in its text."""
DENIED = (errno.EACCES, errno.EPERM, errno.EISDIR, errno.ENOTDIR, errno.EEXIST)
"""What it says of a place that is somebody else's, or of another kind than is wanted."""
SHOWN = 8
"""Differences that a refusal lists; a person fixes the first ones first."""


@contextlib.contextmanager
def claim(
    folder: Path, sweep: Sweep, update: bool = False, left_out: Sequence[LeftOut] | None = None
) -> Iterator[None]:
    """Hold a run folder for this sweep, made if it is not there; ``left_out``: the bad lines of its data, where they were read.

    Raises RunFolderError when another driver holds it, or when ``update`` is false and it is of another configuration or
    of data of which other lines were left out.
    """
    with lock.held(folder, "driver"):
        old = _stored(folder, update)
        changed = [] if old is None else differences(settings(old), settings(sweep))
        if changed and not update:
            raise RunFolderError(_refusal(folder, changed))
        if left_out is not None:
            _keep_bad_lines(folder, left_out, None if old is None or update else bad_lines(folder))
        atomic_write.write(folder / RESOLVED, resolved(sweep).encode())
        yield


@contextlib.contextmanager
def disk(folder: Path) -> Iterator[None]:
    """Turn the error of a disk that is full, failing or somebody else's into RunFolderError: one sentence, and what to do."""
    try:
        yield
    except (OSError, pl.exceptions.PolarsError) as problem:
        found = re.search(r"os error (\d+)", str(problem))
        number = int(found[1]) if found else getattr(problem, "errno", None)
        if number in DENIED and str(folder) in str(problem):
            raise RunFolderError(f"{folder} cannot be written ({problem}); copy it to a folder of your own") from None
        if number not in DISK:
            raise
        raise RunFolderError(
            f"{folder} cannot be written: {os.strerror(number)}. Make room; nothing that was stored is lost, and the same"
            " command goes on"
        ) from None


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
    """``plan.json`` from one row a cell: cell, model, scenario, condition, protocol, planned.

    ``keys`` of all episodes go into ``plan.parquet``: so that what belongs to the plan is known without the data folder.
    """
    if keys is not None:
        atomic_write.write_table(folder / KEYS, pl.DataFrame({"key": list(keys)}, schema={"key": pl.String}))
    content = {"planned": int(planned["planned"].sum()), "cells": planned.to_dicts()}
    atomic_write.write(folder / PLAN, _json(content))


def planned_keys(folder: Path) -> pl.LazyFrame | None:
    """One column ``key``: every episode that the folder's last attempt was to play; None where the file is absent or torn."""
    try:
        return pl.read_parquet(folder / KEYS, columns=["key"]).lazy()
    except UNREADABLE:
        return None


def asked(folder: Path) -> pl.LazyFrame:
    """The stored episodes that belong to the plan of the folder's last attempt."""
    return planned_only(episodes(folder), planned_keys(folder))


def write_status(folder: Path, cells: Sequence[Mapping[str, Any]], finished: bool) -> None:
    """``status.json``: how the attempt was started, with which versions, and the state of each cell.

    ``finished`` is false when somebody stopped the attempt.
    """
    content = {
        "argv": [redact_address(argument) for argument in sys.argv],
        "commit": _commit(),
        "python": platform.python_version(),
        "packages": _versions(),
        "finished": finished,
        "describes": _content_mark(folder),
        "cells": list(cells),
    }
    atomic_write.write(folder / STATUS, _json(content))


def read_status(folder: Path) -> dict[str, Any]:
    """How far a run folder is: ``status.json``, and who writes there now as ``running`` (host, pid, started; or None).

    ``left_out``: a sentence a scenario with bad lines that are not played (``skip_bad``).
    ``live`` is what a running driver wrote last (``orchestrator.monitoring.snapshot.Snapshot``), or None. Counts are taken
    afresh from the store when an attempt runs, or was killed (kill -9).
    Raises RunFolderError when the folder is no run folder.
    """
    running = lock.holder(folder)
    status, left_out = _read(folder / STATUS), [str(one) for one in bad_lines(folder)]
    if status is not None and running is None and not _changed_since_status(folder):
        return {**status, "running": None, "left_out": left_out}
    plan = _read(folder / PLAN)
    if plan is None:
        raise RunFolderError(f"{folder} holds no run yet; `proactive-sweep run SWEEP --output {folder}` starts one")
    reasons = {cell["cell"]: cell["reason"] for cell in (status or {}).get("cells", ())}
    cells = _counted(folder, plan["cells"], reasons)
    now = {"running": running, "live": _read(folder / LIVE) if running is not None else None}
    return {**(status or {}), "finished": False, **now, "left_out": left_out, "cells": cells}


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
            found.update(f"{path.name} {path.stat().st_size}\n".encode() + (path.read_bytes() if whole else b""))
    return found.hexdigest()


def _counted(folder: Path, planned: Sequence[Mapping[str, Any]], reasons: Mapping[str, str]) -> list[dict[str, Any]]:
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
    """The bad lines of the data that the folder's run leaves out; none where the file is not there or cannot be read."""
    try:
        return from_json(_read(folder / BAD_LINES)["scenarios"])  # type: ignore[index]
    except (TypeError, KeyError, ValueError):
        return ()


def _keep_bad_lines(folder: Path, found: Sequence[LeftOut], before: Sequence[LeftOut] | None) -> None:
    """Write down what is left out; raises RunFolderError where ``before`` it was something else: the plan must be the same."""
    if before is not None and {one.same for one in before} != {one.same for one in found}:
        raise RunFolderError(
            f"{folder} was run without {_said(before)}, and of the data as they are now {_said(found)} would be left out; put"
            " the data back as they were, pass another --output, or --update to go on with what is good now"
        )
    if found:
        atomic_write.write(folder / BAD_LINES, _json({"scenarios": [one.as_json() for one in found]}))
    else:
        (folder / BAD_LINES).unlink(missing_ok=True)


def _said(left_out: Sequence[LeftOut]) -> str:
    return ", ".join(f"{counted(one.lines)} of {one.scenario}" for one in left_out) or "no bad line"


def _stored(folder: Path, update: bool) -> Sweep | None:
    """The sweep that the folder is of; None when it has none, or one that nobody can read and ``update`` replaces."""
    path = folder / RESOLVED
    if not path.exists():
        return None
    try:
        return Sweep(**tomllib.loads(path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, ValidationError, TypeError):
        if update:
            return None
        raise RunFolderError(
            f"{path} is not a sweep that this version reads, so whether the folder is of this sweep cannot be told; "
            "pass another --output, or --update to go on in this folder with the new configuration"
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
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _json(content: Any) -> bytes:
    return (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode()


def _versions() -> dict[str, str]:
    installed = {}
    for name in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            installed[name] = importlib.metadata.version(name)
    return installed


def _commit() -> str | None:
    """The commit of the checkout that runs, with ``-dirty`` where files differ from it; None outside a checkout."""
    root = Path(__file__).parents[2]
    if not (root / ".git").exists():
        return None
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
