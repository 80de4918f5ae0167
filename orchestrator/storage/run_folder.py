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
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, NotRequired, TypeVar

import polars as pl
import tomli_w
from polars.io.plugins import register_io_source
from pydantic import Field, TypeAdapter
from typing_extensions import TypedDict

from actors.text.printable import list_first
from actors.text.redaction import redact_address, redact_addresses
from envs.errors import DamagedRunError, RunFolderError
from envs.json_text import parse_json
from envs.plural import pluralize
from envs.samples import SkippedLines
from orchestrator.storage import checksums, lock, safe_write
from orchestrator.storage.episode_store import KEY, episodes, filter_planned, key_chunks
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


PLANNED_CELLS = TypeAdapter(list[PlannedCell])
Parsed = TypeVar("Parsed")


@contextlib.contextmanager
def claim(
    folder: Path, sweep: Sweep, update: bool = False, left_out: Sequence[SkippedLines] | None = None
) -> Iterator[None]:
    """Lock a run folder for this sweep in a block, and create it if needed.

    ``left_out`` are the bad lines of the data; None if the data was not read. Raises RunFolderError if another driver holds the
    folder, or if ``update`` is false and stored episodes belong to another configuration or other bad lines.
    """
    with lock.hold(folder):
        update = update or not _has_parts(folder)
        old = _stored_or_none(folder, update)
        if old is not None and not update and (changed := differences(settings(old), settings(sweep))):
            raise RunFolderError(
                f"{folder} holds a run of another configuration: {list_first(changed, MAX_DIFFERENCES, '; ')}. Pass another"
                " --output, or --update to continue in this folder with the new configuration (finished episodes that still"
                " belong are kept)"
            )
        if left_out is not None:
            _record_bad_lines(folder, left_out, None if old is None or update else read_bad_lines(folder))
        checksums.write(folder / RESOLVED, sweep_toml(sweep).encode())
        yield


def sweep_toml(sweep: Sweep) -> str:
    """Return the sweep as TOML with every default and without passwords in addresses."""
    content = sweep.model_dump(mode="json", exclude_none=True)
    content["tracking"]["uri"] = redact_address(content["tracking"]["uri"])
    return redact_addresses(tomli_w.dumps(content))


def settings(sweep: Sweep) -> dict[str, Any]:
    """Return the settings that identify a run, flat: ``{"seed": 0, "sampling.max_tokens": 50}``."""
    models = {
        model.name: {
            **model.identity,
            "backend": model.backend,
            "trust_remote_code": model.trust_remote_code,
            **({"requirements": model.requirements} if model.requirements else {}),
        }
        for model in sweep.models
    }
    conditions = {condition.name: condition.model_dump(mode="json") for condition in sweep.conditions}
    nested = {**sweep.model_dump(mode="json", exclude=NOT_IDENTITY), "models": models, "conditions": conditions}
    return {"models": list(models), "conditions": list(conditions), **dict(flatten(nested))}


def differences(old: Mapping[str, Any], new: Mapping[str, Any], between: str = ", this sweep says ") -> list[str]:
    """Return one sentence per changed key: ``sampling.max_tokens was 50, this sweep says 64``.

    ``between`` stands between the two values. A model or condition that only one sweep has changes only the list of names.
    """
    unshared = {kind: set(old.get(kind, ())) ^ set(new.get(kind, ())) for kind in ("models", "conditions")}
    prefixes = tuple(f"{kind}.{name}." for kind, names in unshared.items() for name in names)
    return [
        f"{key} was {_shorten(old.get(key))}{between}{_shorten(new.get(key))}"
        for key in sorted(old.keys() | new.keys())
        if old.get(key) != new.get(key) and not key.startswith(prefixes)
    ]


def check_distinct(folders: Iterable[Path]) -> None:
    """Raise RunFolderError if a folder is named twice, also by different paths."""
    named = [os.path.realpath(folder) for folder in folders]
    if len(set(named)) < len(named):
        raise RunFolderError("a folder is named twice; type each folder once")


def write_plan(folder: Path, planned: pl.DataFrame, keys: Iterable[str] | None = None) -> None:
    """Write ``plan.json`` from one row per cell (the fields of ``PlannedCell``).

    ``keys`` of all episodes go into ``plan.parquet``, so that the plan is known without the data folder.
    """
    if keys is not None:
        checksums.write(folder / KEYS, register_io_source(lambda *options: key_chunks(keys), schema=KEY))
    content = {"planned": int(planned["planned"].sum()), "cells": planned.to_dicts()}
    checksums.write(folder / PLAN, to_json(content))


def planned_cells(folder: Path) -> list[PlannedCell]:
    """Return the cells of ``plan.json``. Raises RunFolderError if it is absent or damaged."""
    path = folder / PLAN
    try:
        return _read(path, lambda content: PLANNED_CELLS.validate_python(parse_json(content)["cells"], strict=True))
    except FileNotFoundError:
        raise RunFolderError(f"{path} is not there: the run has not begun to play yet") from None


def planned_keys(folder: Path) -> pl.LazyFrame | None:
    """Return one column ``key`` with the planned episodes of the last attempt; None if the file is absent.

    Raises RunFolderError if it is damaged: without it, episodes of an earlier configuration would count.
    """
    try:
        keys = _read(folder / KEYS, lambda content: pl.read_parquet(content, columns=["key"]).cast(KEY))
    except FileNotFoundError:
        return None
    return keys.lazy()


def stored_sweep(folder: Path) -> Sweep:
    """Return the sweep of a run folder. Raises RunFolderError if it holds no readable sweep."""
    safe_write.refuse_links(folder)
    try:
        return _read(
            folder / RESOLVED, lambda content: Sweep(**drop_removed(tomllib.loads(content.decode()))), " with --update"
        )
    except FileNotFoundError:
        raise missing_run(folder) from None


def missing_run(folder: Path) -> RunFolderError:
    """Return the error of a folder without a run; it names a run beside it that has a similar name."""
    try:
        runs = [path.name for path in folder.absolute().parent.iterdir() if (path / RESOLVED).is_file()]
    except OSError:
        runs = []
    (nearest,) = get_close_matches(folder.name, runs, 1) or ("",)
    remedy = f"did you mean {folder.with_name(nearest)}? " if nearest and folder.name else ""
    return RunFolderError(
        f"{folder} holds no run; {remedy}`proactive-sweep run SWEEP --output {shlex.quote(str(folder))}` starts one"
    )


def planned_episodes(folder: Path) -> pl.LazyFrame:
    """Scan the stored episodes that belong to the plan of the last attempt."""
    return filter_planned(episodes(folder), planned_keys(folder))


def read_bad_lines(folder: Path) -> tuple[SkippedLines, ...]:
    """Return the bad lines that the folder's run leaves out. Raises RunFolderError if their file is damaged."""
    try:
        return _read(folder / BAD_LINES, _BAD_LINES.validate_json, " with --update")["scenarios"]
    except FileNotFoundError:
        return ()


def _read(path: Path, parse: Callable[[bytes], Parsed], with_option: str = "") -> Parsed:
    """Return what a file of a run folder holds. Raises FileNotFoundError, or DamagedRunError with a remedy."""
    try:
        return parse(checksums.read_verified(path))
    except FileNotFoundError:
        raise
    except (*UNREADABLE, ValueError, KeyError, TypeError, AttributeError, RecursionError) as problem:
        reason = getattr(problem, "strerror", None) or str(problem).partition("\n")[0] or type(problem).__name__
        raise DamagedRunError(
            f"{path} is damaged or of another version ({reason}); rerun the same `run` command{with_option} to rewrite it"
        ) from None


def _record_bad_lines(folder: Path, left_out: Sequence[SkippedLines], before: Sequence[SkippedLines] | None) -> None:
    """Record the bad lines. Raises RunFolderError if they differ from ``before``, since the plan must be the same."""
    if before is not None and set(before) != set(left_out):
        raise RunFolderError(
            f"{folder} was run without {_describe_left_out(before)}, but the data now leave out"
            f" {_describe_left_out(left_out)}. Restore the data, pass another --output, or --update to continue with the lines"
            " that are good now"
        )
    if left_out:
        checksums.write(folder / BAD_LINES, to_json({"scenarios": [asdict(lines) for lines in left_out]}))
    else:
        checksums.record_removals(folder, [folder / BAD_LINES])
        safe_write.remove(folder / BAD_LINES)


def _describe_left_out(left_out: Sequence[SkippedLines]) -> str:
    return ", ".join(f"{pluralize(lines.lines, 'bad line')} of {lines.scenario}" for lines in left_out) or "no bad line"


def _has_parts(folder: Path) -> bool:
    """Return True if any table has or had a part; a folder without one accepts any sweep."""
    return any(folder.glob("*/*part-*")) or any("/" in name for name in checksums.read_sums(folder))


def _stored_or_none(folder: Path, update: bool) -> Sweep | None:
    """Return the folder's sweep; None if it has none, or an unreadable one that ``update`` replaces."""
    if not (folder / RESOLVED).exists():
        return None
    try:
        return stored_sweep(folder)
    except DamagedRunError:
        if update:
            return None
        raise


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
