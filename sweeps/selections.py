"""Reads the selections of samples, whose ids are given in the sweep file or in a JSON file (``ids_file``).

The ids of a file are stored in the run folder's sweep, so that you can delete the file once a run has started.
"""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from envs import regular
from sweeps.packages import find_scenarios
from sweeps.shipped import resolve_sweep
from sweeps.sweep_file import SweepError

LARGEST = 4 << 20
"""Most bytes of an ids file; all 17,909 ids of the benchmark take about 100,000."""
IDS = TypeAdapter(dict[str, list[int]])


def read_selections(fields: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the selections of a sweep's fields, with ids by the short names of the sweep's scenarios."""
    scenarios, selections = fields["scenarios"], {}
    if "selection" in fields:
        selections["selection"] = _read_selection(fields["selection"], scenarios, where, "selection")
    if isinstance(open_ended := fields.get("open_ended"), dict) and "selection" in open_ended:
        selection = _read_selection(open_ended["selection"], scenarios, where, "open_ended.selection")
        selections["open_ended"] = {**open_ended, "selection": selection}
    return selections


def _read_selection(table: Any, scenarios: Sequence[str], where: str, key: str) -> Any:
    """Return the table with ids by short names; one with a file of ids is unfiltered by default."""
    if not isinstance(table, dict) or not table.keys() & {"ids", "ids_file"}:
        return table
    if "ids_file" not in table:
        return {**table, "ids": _by_short_name(table["ids"], scenarios, f"{where}: {key}.ids")}
    if "ids" in table:
        raise SweepError(f"{where}: {key}.ids and {key}.ids_file are both there; keep one")
    file_key = f"{where}: {key}.ids_file"
    ids = {find_scenarios([name], file_key)[0]: numbers for name, numbers in _read_ids(table, where, file_key).items()}
    if missing := [scenario for scenario in scenarios if not ids.get(scenario)]:
        raise SweepError(f"{file_key} names no sample of {missing[0]}; leave it out of scenarios, or add its ids there")
    rest = {name: value for name, value in table.items() if name != "ids_file"}
    return {"filtered": False, **rest, "ids": {scenario: ids[scenario] for scenario in scenarios}}


def _by_short_name(table: Any, scenarios: Sequence[str], where: str) -> Any:
    if not isinstance(table, dict):
        return table
    ids: dict[str, Any] = {}
    for name, numbers in table.items():
        (scenario,) = find_scenarios([name], where)
        if scenario not in scenarios:
            raise SweepError(f"{where}: {name} is not among the scenarios of this sweep; add it there, or drop its ids")
        if scenario in ids or numbers == []:
            raise SweepError(
                f"{where}.{name}: {scenario} is named twice or without ids; give at least one id, in one list"
            )
        ids[scenario] = numbers
    return ids


def _read_ids(table: Mapping[str, Any], where: str, key: str) -> dict[str, list[int]]:
    """Return the ids of the file that a selection names, beside the sweep file or in the working folder."""
    if not isinstance(name := table["ids_file"], str):
        raise SweepError(f"{key} = {name!r} must be the name of a JSON file")
    path = resolve_sweep(Path(where)).parent / name
    try:
        return IDS.validate_json(regular.read_bytes(path if path.exists() else Path(name), LARGEST), strict=True)
    except FileNotFoundError:
        remedy = f"`proactive-sweep report DIR --filter 25 --output {shlex.quote(name)}` writes one"
        raise SweepError(f"{key}: there is no file {name}; {remedy}") from None
    except OSError as problem:
        raise SweepError(f"{key}: {name} cannot be read: {problem.strerror or problem}") from None
    except ValidationError:
        form = 'JSON with lists of whole numbers by scenario, such as {"ROD": [0, 4]}'
        raise SweepError(f"{key}: {name} must be {form}") from None
