"""The configuration and plan files of a run folder.

A run folder belongs to one configuration and one driver; any other is refused, with what to type instead.

``sweep.resolved.toml`` and ``plan.json`` are replaced atomically, with their sums, and hold no secrets.
"""

import contextlib
import json
import os
import shlex
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, NotRequired, TypeVar

import polars as pl
import tomli_w
from pydantic import Field, TypeAdapter
from typing_extensions import TypedDict

from actors.text.printable import list_first
from actors.text.redaction import redact_address, redact_addresses
from envs.errors import DamagedRunError, RunFolderError
from envs.plural import pluralize
from envs.samples import SkippedLines
from orchestrator.storage import checksums, lock, safe_write
from orchestrator.storage.episode_store import KEY, episodes, filter_planned, key_frame
from orchestrator.storage.schemas import UNREADABLE
from sweeps.spec import Sweep
from sweeps.sweep_file import RESOLVED as RESOLVED
from sweeps.validation import drop_removed

PLAN, KEYS = "plan.json", "plan.parquet"
BAD_LINES = "bad_lines.json"
_BAD_LINES = TypeAdapter(dict[str, tuple[SkippedLines, ...]])
"""The data lines that ``skip_bad`` left out; absent if there are none."""
NOT_IDENTITY = {
    "output", "tracking", "cluster", "staging", "judge", "measures", "precision", "evidence", "models", "conditions"
}  # fmt: skip
"""Keys of a sweep that do not identify a run; models and conditions do, but are compared by name."""
MAX_DIFFERENCES = 8
"""Most differences that an error message lists."""


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


class PlanFile(TypedDict):
    cells: list[PlannedCell]


_PLAN_FILE = TypeAdapter(PlanFile)
Parsed = TypeVar("Parsed")


@contextlib.contextmanager
def claim(folder: Path, sweep: Sweep, update: bool = False, left_out: Sequence[SkippedLines] = ()) -> Iterator[None]:
    """Lock a run folder for this sweep in a block, and create it if needed; ``left_out`` are the bad lines of the data.

    Raises RunFolderError if another driver holds the folder, or if ``update`` is false and stored episodes belong to another
    configuration or other bad lines.
    """
    with lock.hold(folder):
        had_parts = any(folder.glob("*/*part-*")) or any("/" in name for name in checksums.read_sums(folder))
        if not update and had_parts and (folder / RESOLVED).exists():  # else the folder accepts any sweep
            _check_same_run(folder, sweep, left_out)
        if left_out:
            checksums.write(folder / BAD_LINES, to_json({"scenarios": [asdict(lines) for lines in left_out]}))
        else:
            checksums.record_removals(folder, [folder / BAD_LINES])
            safe_write.remove(folder / BAD_LINES)
        checksums.write(folder / RESOLVED, sweep_toml(sweep).encode())
        yield


def _check_same_run(folder: Path, sweep: Sweep, left_out: Sequence[SkippedLines]) -> None:
    """Raise RunFolderError if the folder's episodes were played with other settings, or from other good lines."""
    if changed := differences(settings(stored_sweep(folder)), settings(sweep)):
        raise RunFolderError(
            f"{folder} holds a run of another configuration: {list_first(changed, MAX_DIFFERENCES, '; ')}. Pass another"
            " --output, or --update to continue in this folder with the new configuration (finished episodes that still"
            " belong are kept)"
        )
    before = read_bad_lines(folder)
    if set(before) != set(left_out):
        raise RunFolderError(
            f"{folder} was run without {_describe_left_out(before)}, but the data now leave out"
            f" {_describe_left_out(left_out)}. Restore the data, pass another --output, or --update to continue with the lines"
            " that are good now"
        )


def _describe_left_out(left_out: Sequence[SkippedLines]) -> str:
    return ", ".join(f"{pluralize(lines.lines, 'bad line')} of {lines.scenario}" for lines in left_out) or "no bad line"


def sweep_toml(sweep: Sweep) -> str:
    """Return the sweep as TOML with every default and without passwords in addresses."""
    content = sweep.model_dump(mode="json", exclude_none=True)
    content["tracking"]["uri"] = redact_address(content["tracking"]["uri"])
    return redact_addresses(tomli_w.dumps(content))


def settings(sweep: Sweep) -> dict[str, Any]:
    """Return the settings that identify a run, flat: ``{"seed": 0, "sampling.max_tokens": 50}``."""
    others = {"backend", "trust_remote_code", "requirements"}
    models = {model.name: {**model.identity, **model.model_dump(include=others)} for model in sweep.models}
    conditions = {condition.name: condition.model_dump(mode="json") for condition in sweep.conditions}
    nested = {**sweep.model_dump(mode="json", exclude=NOT_IDENTITY), "models": models, "conditions": conditions}
    return {"models": list(models), "conditions": list(conditions), **dict(flatten(nested))}


def differences(
    old: Mapping[str, Any], new: Mapping[str, Any], between: str = ", this sweep says ", was: str = " was "
) -> list[str]:
    """Return one sentence per changed key: ``sampling.max_tokens was 50, this sweep says 64``.

    ``was`` stands before the two values, ``between`` between them. A model or condition that only one sweep has changes
    only the list of names.
    """
    unshared = {kind: set(old.get(kind, ())) ^ set(new.get(kind, ())) for kind in ("models", "conditions")}
    prefixes = tuple(f"{kind}.{name}." for kind, names in unshared.items() for name in names)
    return [
        f"{key}{was}{_shorten(old.get(key))}{between}{_shorten(new.get(key))}"
        for key in sorted(old.keys() | new.keys())
        if old.get(key) != new.get(key) and not key.startswith(prefixes)
    ]


def check_distinct(folders: Iterable[Path]) -> None:
    """Raise RunFolderError if a folder is named twice, also by different paths."""
    named = [os.path.realpath(folder) for folder in folders]
    if len(set(named)) < len(named):
        raise RunFolderError("a folder is named twice; type each folder once")


def name_runs(folders: Sequence[Path]) -> dict[str, Path]:
    """Return a name for each folder: the last parts of its path, as many as tell all apart. Raises as ``check_distinct``."""
    check_distinct(folders)
    paths, count, named = [folder.resolve().parts for folder in folders], 0, dict[str, Path]()
    while len(named) < len(folders):
        count += 1
        named = {"/".join(parts[-count:]): folder for parts, folder in zip(paths, folders, strict=True)}
    return named


def write_plan(folder: Path, cells: Sequence[Mapping[str, Any]], keys: Iterable[str] | None = None) -> None:
    """Write ``plan.json`` from one row per cell (the fields of ``PlannedCell``).

    ``keys`` of all episodes go into ``plan.parquet``, so that the plan is known without the data folder.
    """
    if keys is not None:
        checksums.write(folder / KEYS, key_frame(keys))  # all of them, since a write that waits for room begins again
    checksums.write(folder / PLAN, to_json({"planned": sum(cell["planned"] for cell in cells), "cells": cells}))


def planned_cells(folder: Path) -> list[PlannedCell]:
    """Return the cells of ``plan.json``. Raises RunFolderError if it is absent or damaged."""
    path = folder / PLAN
    cells = _read(path, lambda content: _PLAN_FILE.validate_json(content, strict=True)["cells"])
    if cells is None:
        raise RunFolderError(f"{path} is not there: the run has not begun to play yet")
    return cells


def planned_keys(folder: Path) -> pl.LazyFrame | None:
    """Return one column ``key`` with the planned episodes of the last attempt; None if the file is absent.

    Raises RunFolderError if it is damaged: without it, episodes of an earlier configuration would count.
    """
    return _read(folder / KEYS, lambda content: pl.read_parquet(content, columns=["key"]).cast(KEY).lazy())


def stored_sweep(folder: Path) -> Sweep:
    """Return the sweep of a run folder. Raises RunFolderError if it holds no readable sweep."""
    safe_write.refuse_links(folder)
    sweep = _read(folder / RESOLVED, lambda content: Sweep(**drop_removed(tomllib.loads(content.decode()))))
    if sweep is None:
        raise missing_run(folder)
    return sweep


def missing_run(folder: Path) -> RunFolderError:
    """Return the error of a folder without a run."""
    return RunFolderError(
        f"{folder} holds no run; `proactive-sweep run SWEEP --output {shlex.quote(str(folder))}` starts one"
    )


def planned_episodes(folder: Path) -> pl.LazyFrame:
    """Scan the stored episodes that belong to the plan of the last attempt."""
    return filter_planned(episodes(folder), planned_keys(folder))


def read_bad_lines(folder: Path) -> tuple[SkippedLines, ...]:
    """Return the bad lines that the folder's run leaves out. Raises RunFolderError if their file is damaged."""
    return _read(folder / BAD_LINES, lambda content: _BAD_LINES.validate_json(content)["scenarios"]) or ()


def _read(path: Path, parse: Callable[[bytes], Parsed]) -> Parsed | None:
    """Return what a file of a run folder holds; None if it is absent. Raises DamagedRunError with a remedy."""
    try:
        return parse(checksums.read_verified(path))
    except FileNotFoundError:
        return None
    except (*UNREADABLE, ValueError, KeyError, TypeError, AttributeError, RecursionError) as problem:
        reason = getattr(problem, "strerror", None) or str(problem).partition("\n")[0] or type(problem).__name__
        raise DamagedRunError(
            f"{path} is damaged or of another version ({reason}); rerun the same `run` command with --update to rewrite it"
        ) from None


def flatten(nested: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of nested tables under their names, joined by dots."""
    for name, value in nested.items():
        if isinstance(value, Mapping):
            yield from flatten(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _shorten(value: Any) -> str:
    text = "not set" if value is None else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:77]}..."


def to_json(content: Any) -> bytes:
    """Return indented JSON with a final newline."""
    return (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode()
