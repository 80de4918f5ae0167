"""A JSON file of sample ids becomes the ``ids`` of a selection, or one sentence that names the file and the mistake.

What the file says is kept in the run folder's own sweep: the file may go once a run has begun.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from envs import regular
from sweeps.shipped import resolve_sweep
from sweeps.sweep_file import SweepError

KEY = "ids_file"
LARGEST = 4 << 20
"""Bytes; the 17,909 ids of the whole benchmark have about 100,000."""


def insert_ids(
    table: Mapping[str, Any], scenarios: Sequence[str], resolved: Callable[[str], str], where: str, place: str
) -> dict[str, Any]:
    """A selection's table with the ids of its ``ids_file`` in place of the file's name, unfiltered unless it says otherwise.

    ``resolved`` gives the short name of a scenario or raises SweepError; ``place`` is the table's name in messages.
    Raises SweepError where the file cannot be read, or says nothing of one of the ``scenarios``.
    """
    if "ids" in table:
        raise SweepError(f"{where}: {place}.ids and {place}.{KEY} are both there; keep one")
    if not isinstance(name := table[KEY], str) or not name:
        raise SweepError(f"{where}: {place}.{KEY} = {name!r} must be the name of a JSON file")
    path = _beside(name, where)
    ids = {resolved(scenario): numbers for scenario, numbers in _read(path, f"{where}: {place}.{KEY}").items()}
    for scenario in scenarios:
        if not ids.get(scenario):
            told = "names no sample of" if scenario in ids else "says nothing of"
            raise SweepError(f"{where}: {path} {told} {scenario}; leave it out of scenarios, or name its ids there")
    rest = {key: value for key, value in table.items() if key != KEY}
    return {"filtered": False, **rest, "ids": {scenario: ids[scenario] for scenario in scenarios}}


def _beside(name: str, where: str) -> Path:
    """The file beside the sweep file where it is there, else as it stands (of the working folder)."""
    first = resolve_sweep(Path(where)).parent / name
    return first if first.exists() else Path(name)


def _read(path: Path, where: str) -> dict[str, Any]:
    try:
        table = json.loads(regular.read_bytes(path, LARGEST))
    except FileNotFoundError:
        raise SweepError(
            f"{where}: there is no file {path}; `proactive-sweep filter DIR --into {path}` writes one"
        ) from None
    except OSError as problem:
        raise SweepError(f"{where}: {path} cannot be read: {problem.strerror or problem}") from None
    except (ValueError, RecursionError):
        raise SweepError(f"{where}: {path} is not JSON") from None
    if not isinstance(table, dict) or not all(_whole(numbers) for numbers in table.values()):
        raise SweepError(f'{where}: {path} must hold lists of whole numbers by scenario, such as {{"ROD": [0, 4]}}')
    return table


def _whole(numbers: Any) -> bool:
    return isinstance(numbers, list) and all(type(number) is int for number in numbers)
