"""What another version of a sweep changes in a running one: the sweep that would be played, and the difference in sentences.

Where a run plays (data, output, cluster, tracking) is what it was started with; what it plays may change.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from actors.prompts import version
from actors.turn_judge import turn_judge_key
from orchestrator.datasets.sources import address
from orchestrator.storage import control_log
from orchestrator.storage.control_log import Command, Entry
from orchestrator.storage.lock import RunFolderError
from orchestrator.storage.run_folder import PlannedCell, resolved, stored_sweep
from sweeps.load import judges, registry
from sweeps.spec import Cell, ModelSpec, Protocol, Sweep

KEPT = ("name", "data", "output", "tracking", "cluster", "staging")
"""Keys of the running sweep that another version does not change."""
FIXED = ("seed", "skip_bad", "selection", "open_ended.selection")
"""Keys that say which samples are played and how they are drawn: with other ones hardly an episode would stay."""
SHOWN = 12
"""Lines of a kind that a person is shown."""


def toml(sweep: Sweep) -> str:
    """A sweep as a command carries it; raises RunFolderError where it holds a password, which no run folder keeps."""
    text = resolved(sweep)
    if _played(read(text)) != _played(sweep):
        raise RunFolderError(
            "the sweep holds a password in an address, and a run folder keeps none; name it by key_env"
        )
    return text


def read(text: str) -> Sweep:
    """The sweep that a command carries; raises RunFolderError where it is none."""
    try:
        return Sweep(**tomllib.loads(text))
    except (ValueError, TypeError, RecursionError) as problem:
        raise RunFolderError(f"it carries no sweep that this version reads ({_first_line(problem)})") from None


def same(one: Sweep, other: Sweep) -> bool:
    """Whether two sweeps play the same, wherever they do."""
    return _played(one) == _played(other)


def changed(running: Sweep, wanted: Sweep) -> Sweep:
    """The running sweep as the wanted one would have it; raises RunFolderError where a running sweep cannot become that."""
    _check_data(running, wanted)
    before, after = _flat(_played(running)), _flat(_played(wanted))
    for key in sorted(before.keys() | after.keys()):
        if key.startswith(FIXED) and before.get(key) != after.get(key):
            raise RunFolderError(
                f"{key} was {_told(before.get(key))}, this sweep says {_told(after.get(key))}: which samples are played is"
                " not changed while a sweep runs; give the other sweep an --output of its own"
            )
    _check_trust(running, wanted)
    kept = {name: getattr(running, name) for name in KEPT}
    return read(resolved(wanted.model_copy(update=kept)))


def _check_data(running: Sweep, wanted: Sweep) -> None:
    if running.data != wanted.data and not _is_at(wanted.data, running.data):
        raise RunFolderError(
            f"data was {running.data}, this sweep says {wanted.data}: a running sweep stays with its data;"
            f" --set data={running.data} applies the rest"
        )


def _is_at(unpinned: str, pinned: str) -> bool:
    """Whether one address is the other one less its commit, to which a run pins it."""
    there, here = address(unpinned), address(pinned)
    if there is None or here is None or there.revision not in ("", "main", here.revision):
        return False
    return (here.scheme, here.place, here.folder) == (there.scheme, there.place, there.folder)


def _check_trust(running: Sweep, wanted: Sweep) -> None:
    """What a file in a run folder may not bring about: foreign code, or a key that goes to somebody new."""
    known = [*_models(running), *registry().values(), *judges().values()]
    code = {(one.source, one.revision) for one in known if one.trust_remote_code}
    keys = {(one.endpoint.base_url, one.endpoint.key_env) for one in known if one.backend == "openai"}
    for one in _models(wanted):
        if one.trust_remote_code and (one.source, one.revision) not in code:
            what = f"runs code of {one.source}"
        elif (
            one.backend == "openai"
            and one.endpoint.key_env
            and (one.endpoint.base_url, one.endpoint.key_env) not in keys
        ):
            what = f"sends what {one.endpoint.key_env} holds to {one.endpoint.base_url or 'OpenAI'}"
        else:
            continue
        raise RunFolderError(
            f"{one.name} {what}, which neither the running sweep nor an entry that ships does: stop the sweep and `run` the"
            " file with --update, which only who may start it can"
        )


def _models(sweep: Sweep) -> Iterator[ModelSpec]:
    yield from sweep.models
    if sweep.judge:
        yield sweep.judge.model


# -- which of them counts --------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Standing:
    """What a log's applies mean for a sweep that is about to be played."""

    sweep: Sweep
    by: Command | None = None
    """Whose sweep it is, where it is not the one that was given."""
    unknown: Entry | None = None
    """The last apply, where the given sweep is one that the folder never had: if it is taken, the apply counts no more."""


def standing(given: Sweep, applies: Sequence[Entry], update: bool) -> Standing:
    """The last applied sweep counts for whoever gives one that the folder had before; another one, or ``update``, replaces it.

    Raises RunFolderError where the log holds a sweep that this version does not read.
    """
    last = applies[-1] if applies else None
    if last is None or last.command is None or same(given, applied := read(last.command.sweep)):
        return Standing(given)
    had = (text for entry in applies if entry.command for text in (entry.before, entry.command.sweep) if text)
    if update or not any(same(given, read(text)) for text in had):
        return Standing(given, unknown=last)
    kept = {name: getattr(given, name) for name in KEPT}
    return Standing(read(resolved(applied.model_copy(update=kept))), by=last.command)


def under_way(folder: Path) -> Command | None:
    """The apply that a run folder's driver has taken and that has no effect yet; raises RunFolderError as ``history``."""
    last = next((entry for entry in reversed(control_log.history(folder)) if entry.applies), None)
    if last is None or last.command is None or same(stored_sweep(folder), read(last.command.sweep)):
        return None
    return last.command


# -- the difference --------------------------------------------------------------------------------------------------------
def lines(running: Sweep, new: Sweep, planned: Sequence[PlannedCell]) -> list[str]:
    """What changes, for who is to decide; ``planned`` are the cells of the running sweep's ``plan.json``. None: nothing."""
    if same(running, new):
        return []
    return [*_named(running, new), *_knobs(running, new), *_counts(running, new, planned)]


def _named(running: Sweep, new: Sweep) -> Iterator[str]:
    """``models: + qwen-7b, - uniform``."""
    for kind in ("models", "conditions", "scenarios"):
        before, after = ([getattr(one, "name", one) for one in getattr(s, kind)] for s in (running, new))
        signs = [*(f"+ {n}" for n in after if n not in before), *(f"- {n}" for n in before if n not in after)]
        if signs:
            yield f"{kind}: {', '.join(signs[:SHOWN])}" + (", ..." if signs[SHOWN:] else "")


def _knobs(running: Sweep, new: Sweep) -> list[str]:
    """``sampling.max_tokens was 50, becomes 64``; entries that only one has are named already."""
    before, after = _flat(_by_name(running)), _flat(_by_name(new))
    alone = tuple(
        f"{kind}.{name}."
        for kind in ("models", "conditions")
        for name in _by_name(running)[kind].keys() ^ _by_name(new)[kind].keys()
    )
    found = [
        f"{key} was {_told(before.get(key))}, becomes {_told(after.get(key))}"
        for key in sorted(before.keys() | after.keys())
        if before.get(key) != after.get(key) and not key.startswith((*alone, "scenarios", "packages"))
    ]
    return [*found[:SHOWN], *([f"and {len(found) - SHOWN} keys more"] if found[SHOWN:] else [])]


def _counts(running: Sweep, new: Sweep, planned: Sequence[PlannedCell]) -> Iterator[str]:
    """``new: 12 cells, 1,200 episodes``; then what leaves the plan, what is played anew, what stays."""
    before, after = _identities(running), _identities(new)
    sizes = {row["cell"]: row.get("full", row["planned"]) for row in planned}
    of_scenario = {(row["scenario"], Protocol(row["protocol"]).in_words): sizes[row["cell"]] for row in planned}
    kinds = Counter[str]()
    episodes = Counter[str]()
    unknown = Counter[str]()
    for key in [*after, *(key for key in before if key not in after)]:
        cell = (after.get(key) or before[key])[0]
        kind = _kind(before.get(key), after.get(key))
        size = sizes.get(key, of_scenario.get((cell.scenario, cell.protocol.in_words)))
        kinds[kind] += 1
        episodes[kind] += size or 0
        unknown[kind] += size is None
    for kind in ("new", "no more planned", "played anew", "as before"):
        if kinds[kind]:
            more = f" and those of {_cells(unknown[kind])} of a new scenario" if unknown[kind] else ""
            yield f"{kind}: {_cells(kinds[kind])}, {episodes[kind]:,} episodes{more}"
    if kinds["no more planned"] or kinds["played anew"]:
        yield "what is stored of cells that leave the plan stays in the folder and counts no more, unless they come back"


def _kind(before: tuple[Cell, str] | None, after: tuple[Cell, str] | None) -> str:
    if before is None:
        return "new"
    if after is None:
        return "no more planned"
    return "as before" if before[1] == after[1] else "played anew"


def _identities(sweep: Sweep) -> dict[str, tuple[Cell, str]]:
    """Cell's key -> the cell, and what its episodes' keys depend on beside their samples."""
    reader = turn_judge_key(sweep.turn_judge) if sweep.turn_judge else ""
    return {
        cell.key: (
            cell,
            cell.fingerprint(version(cell.protocol, cell.condition))
            + (reader if cell.protocol is Protocol.OEG_MULTI else ""),
        )
        for cell in sweep.cells()
    }


def _played(sweep: Sweep) -> dict[str, Any]:
    return sweep.model_dump(mode="json", exclude_none=True, exclude=set(KEPT))


def _by_name(sweep: Sweep) -> dict[str, Any]:
    """What is played, with models and conditions by name."""
    found = _played(sweep)
    return {**found, **{kind: {one["name"]: one for one in found[kind]} for kind in ("models", "conditions")}}


def _flat(nested: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in nested.items():
        found |= _flat(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {f"{prefix}{name}": value}
    return found


def _told(value: Any) -> str:
    text = "not set" if value is None else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _cells(count: int) -> str:
    return f"{count:,} cell{'' if count == 1 else 's'}"


def _first_line(problem: BaseException) -> str:
    return str(problem).partition("\n")[0] or type(problem).__name__
