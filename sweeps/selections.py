"""Reads the selections of samples, whose ids are given in the sweep file or in a JSON file (``ids_file``).

The ids of a file are stored in the run folder's sweep, so that you can delete the file once a run has started.
"""

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
    if not isinstance(table, dict):
        return table
    if "ids_file" in table:
        return _insert_ids(table, scenarios, where, key)
    if isinstance(table.get("ids"), dict):
        return {**table, "ids": _resolve_ids(table["ids"], scenarios, f"{where}: {key}.ids")}
    return table


def _resolve_ids(table: Mapping[str, Any], scenarios: Sequence[str], where: str) -> dict[str, Any]:
    ids: dict[str, Any] = {}
    for name, numbers in table.items():
        (scenario,) = find_scenarios([name], where)
        if scenario not in scenarios:
            raise SweepError(f"{where}: {name} is not among the scenarios of this sweep; add it there, or drop its ids")
        if scenario in ids:
            raise SweepError(f"{where}: {scenario} is named twice; give all its ids in one list")
        if numbers == []:
            raise SweepError(f"{where}.{name} = []: names no sample; give at least one id, or drop the key")
        ids[scenario] = numbers
    return ids


def _insert_ids(table: Mapping[str, Any], scenarios: Sequence[str], where: str, key: str) -> dict[str, Any]:
    """Replace the name of an ids file with the ids in it; a selection with such a file is unfiltered by default."""
    if "ids" in table:
        raise SweepError(f"{where}: {key}.ids and {key}.ids_file are both there; keep one")
    name, file_key = table["ids_file"], f"{where}: {key}.ids_file"
    if not isinstance(name, str) or not name:
        raise SweepError(f"{file_key} = {name!r} must be the name of a JSON file")
    path = resolve_sweep(Path(where)).parent / name
    if not path.exists():
        path = Path(name)
    ids = {find_scenarios([scenario], file_key)[0]: numbers for scenario, numbers in _read_ids(path, file_key).items()}
    for scenario in scenarios:
        if not ids.get(scenario):
            reason = "names no sample of" if scenario in ids else "has no ids for"
            raise SweepError(f"{where}: {path} {reason} {scenario}; leave it out of scenarios, or add its ids there")
    rest = {name: value for name, value in table.items() if name != "ids_file"}
    return {"filtered": False, **rest, "ids": {scenario: ids[scenario] for scenario in scenarios}}


def _read_ids(path: Path, where: str) -> dict[str, list[int]]:
    try:
        return IDS.validate_json(regular.read_bytes(path, LARGEST), strict=True)
    except FileNotFoundError:
        raise SweepError(
            f"{where}: there is no file {path}; `proactive-sweep report DIR --filter 25 --output {path}` writes one"
        ) from None
    except OSError as problem:
        raise SweepError(f"{where}: {path} cannot be read: {problem.strerror or problem}") from None
    except ValidationError:
        raise SweepError(
            f'{where}: {path} must be JSON with lists of whole numbers by scenario, such as {{"ROD": [0, 4]}}'
        ) from None
