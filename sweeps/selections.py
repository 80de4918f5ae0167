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
from sweeps.sweep_file import SweepError, resolve_sweep

LARGEST = 4 << 20
"""Most bytes of an ids file; all 17,909 ids of the benchmark take about 100,000."""
IDS = TypeAdapter(dict[str, list[int]])


def read_selections(fields: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the selections of a sweep's fields, with ids by the short names of the sweep's scenarios."""
    read, scenarios, open_ended = dict[str, Any](), fields["scenarios"], fields.get("open_ended")
    if "selection" in fields:
        read["selection"] = _read_selection(fields["selection"], scenarios, where, "selection")
    if isinstance(open_ended, dict) and "selection" in open_ended:
        selection = _read_selection(open_ended["selection"], scenarios, where, "open_ended.selection")
        read["open_ended"] = {**open_ended, "selection": selection}
    return read


def _read_selection(table: Any, scenarios: Sequence[str], where: str, key: str) -> Any:
    """Return the table with ids by short names; one with a file of ids is unfiltered by default."""
    if not isinstance(table, dict) or not table.keys() & {"ids", "ids_file"}:
        return table
    if {"ids", "ids_file"} <= table.keys():
        raise SweepError(f"{where}: {key}.ids and {key}.ids_file are both there; keep one")
    source = f"{where}: {key}.{'ids' if 'ids' in table else 'ids_file'}"
    listed = table["ids"] if "ids" in table else _read_ids(table["ids_file"], where, source)
    if not isinstance(listed, dict):
        return table
    names = [find_scenarios([name], source)[0] for name in listed]
    ids = dict(zip(names, listed.values(), strict=True))
    if len(ids) < len(names) or [] in ids.values():
        raise SweepError(f"{source} names a scenario twice or without ids; give at least one id, in one list")
    if "ids" in table:
        if foreign := sorted(ids.keys() - set(scenarios)):
            raise SweepError(f"{source}: {foreign[0]} is not among the scenarios; add it there, or drop its ids")
        return {**table, "ids": ids}
    if missing := [scenario for scenario in scenarios if scenario not in ids]:
        raise SweepError(f"{source} names no sample of {missing[0]}; leave it out of scenarios, or add its ids there")
    rest = {name: value for name, value in table.items() if name != "ids_file"}
    return {"filtered": False, **rest, "ids": {scenario: ids[scenario] for scenario in scenarios}}


def _read_ids(name: Any, where: str, key: str) -> dict[str, list[int]]:
    """Return the ids of the file that a selection names, beside the sweep file or in the working folder."""
    path = resolve_sweep(Path(where)).parent / str(name)
    try:
        return IDS.validate_json(regular.read_bytes(path if path.exists() else Path(str(name)), LARGEST), strict=True)
    except FileNotFoundError:
        remedy = f"`proactive-sweep report DIR --filter 25 --output {shlex.quote(str(name))}` writes one"
        raise SweepError(f"{key}: there is no file {name}; {remedy}") from None
    except OSError as problem:
        raise SweepError(f"{key}: {name} cannot be read: {problem.strerror or problem}") from None
    except ValidationError:
        form = 'JSON with lists of whole numbers by scenario, such as {"ROD": [0, 4]}'
        raise SweepError(f"{key}: {name} must be {form}") from None
