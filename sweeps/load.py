"""A sweep file becomes a ``Sweep`` or one clear sentence: what is wrong, in which file, at which key, what to type."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from envs import SCENARIOS
from envs.installed import PackageError, load_function
from sweeps import packages
from sweeps.conditions import CONDITIONS, VARIANTS, Condition, OwnCondition
from sweeps.ids_file import KEY as IDS_FILE
from sweeps.ids_file import insert_ids
from sweeps.packages import BUILTIN
from sweeps.protocol import ZERO_SHOT
from sweeps.protocol_keys import check_keys_played, check_turn_judge
from sweeps.spec import Cell, Judge, ModelSpec, Protocol, Sweep, unplayable_reason
from sweeps.sweep_file import SweepError as SweepError
from sweeps.sweep_file import override_key, read_sweep, read_toml
from sweeps.validation import validate_table

MODELS = Path(__file__).with_name("models.toml")
JUDGES = Path(__file__).with_name("judges.toml")

JUDGE = "qwen3-8b"
"""The paper's judge."""


def load(
    path: Path, overrides: Iterable[str] = (), more: Iterable[Path] = (), keys: Mapping[str, Any] | None = None
) -> Sweep:
    """Read a sweep file, apply ``key=value`` overrides and add the ``[[model]]`` of ``more`` files; raises SweepError.

    ``path`` may be the name of a sweep that ships (``sweeps.shipped``); ``keys`` replace those of its table.
    """
    table = {**read_sweep(path), **(keys or {})}
    for file in more:
        _add_models(table, file)
    for override in overrides:
        override_key(table, override)
    return build(table, str(path))


def build(table: Mapping[str, Any], where: str) -> Sweep:
    """A sweep from its table; ``where`` names the file in errors. Raises SweepError."""
    try:
        packages.check_packages({*registry(), *judges(), *(source.removeprefix(BUILTIN) for source in _builtin())})
        return _built(table, where)
    except PackageError as problem:
        raise SweepError(f"{where}: {problem}") from None


def _built(table: Mapping[str, Any], where: str) -> Sweep:
    fields = dict(table)
    fields.pop("train", None)  # of the command `train`, which reads it (orchestrator.learning.settings)
    own = _own_models(fields.pop("model", []), where)
    named = fields.pop("models", list(own))
    fields["models"] = [_model(entry, own, where) for entry in _listed(named, "models", where)]
    fields["scenarios"] = find_scenarios(fields.get("scenarios", "all"), where)
    fields["packages"] = packages.identities(fields["scenarios"])
    if "measures" in fields:
        fields["measures"] = _measures(fields["measures"], where)
    mine = read_conditions(fields.pop("condition", []), where)
    fields["conditions"] = _conditions(
        fields.get("conditions", list(mine) or [ZERO_SHOT]), where, fields["scenarios"], mine
    )
    if "only" in fields:
        fields["only"] = _only(fields["only"], fields["models"], where, mine)
    if isinstance(fields.get("judge"), dict):
        fields["judge"] = _judge(fields["judge"], own, where)
    fields |= _protocols(fields.pop("protocol", None), fields.get("protocols"), where)
    fields |= _selections(fields, where)
    fields.setdefault("name", Path(where).stem)
    sweep = validate_table(Sweep, fields, where)
    check_keys_played(table, sweep.protocols, where)
    sweep = sweep.model_copy(update={"output": sweep.output or f"outputs/{sweep.name}"})
    _all_used(sweep, where)
    check_turn_judge(sweep, where)
    return sweep


def _add_models(table: dict[str, Any], file: Path) -> None:
    """Have a sweep's table play the ``[[model]]`` of another file too; raises SweepError."""
    found = _own_models(read_toml(file).get("model", []), str(file))
    if not found:
        raise SweepError(f"{file} has no [[model]] table; `train` writes one as model.toml")
    named = _listed(table.get("models", []), "models", str(file))
    own = table.get("model", [])
    table["models"] = [*(named or [entry["name"] for entry in own]), *found]
    table["model"] = [*own, *read_toml(file)["model"]]


def build_cell(
    scenario: str, condition: str, model: str = "", protocol: Protocol = Protocol.MCQA, sweep: Path | None = None
) -> Cell:
    """The cell that these names make, as a command line gives them; any model that can play it if none is named.

    The condition may be a ``[[condition]]`` of the file ``sweep``.
    """
    own = {} if sweep is None else read_conditions(read_sweep(sweep).get("condition", []), str(sweep))
    entry = _model(model, {}, "--model") if model else ModelSpec(name="any", source="builtin:oracle", backend="builtin")
    cell = Cell(
        model=entry,
        scenario=find_scenarios([scenario], "the command line")[0],
        condition=_conditions([condition], "--condition", (), own)[0],
        protocol=protocol,
    )
    if reason := unplayable_reason(cell.model, cell.scenario, cell.condition, protocol=protocol):
        raise SweepError(reason)
    return cell


def find_models(names: Sequence[str], sweep: Path | None = None) -> list[ModelSpec]:
    """The models of a sweep file, or all that ship; ``names`` picks some of them. Raises SweepError."""
    known = registry() if sweep is None else {model.name: model for model in load(sweep).models}
    return [known[_known(name, known, "model", "the command line")] for name in names] or list(known.values())


def find_model(entry: Any, tables: Any, where: str) -> ModelSpec:
    """A model by its name, among those that ship and the ``[[model]]`` tables of a file; raises SweepError."""
    return _model(entry, _own_models(tables, where), where)


def registry() -> dict[str, ModelSpec]:
    """Every model that ships with the project, by name."""
    return _entries(MODELS)


def judges() -> dict[str, ModelSpec]:
    """Every judge that ships with the project, by name."""
    return _entries(JUDGES)


def build_judge(table: Mapping[str, Any], where: str) -> Judge:
    """A ``[judge]`` table by itself, as ``judge DIR --judge`` gives it; raises SweepError."""
    return validate_table(Judge, _judge(table, {}, where), where)


def _entries(path: Path) -> dict[str, ModelSpec]:
    return {name: _entry({"name": name, **table}, str(path)) for name, table in read_toml(path).items()}


def _judge(table: Mapping[str, Any], own: Mapping[str, ModelSpec], where: str) -> dict[str, Any]:
    return {**table, "model": _model(table.get("model", JUDGE), {**judges(), **own}, where, "judge")}


def skipped_products(sweep: Sweep) -> list[str]:
    """Why some products of the sweep are no cells, one sentence each, in the order of the sweep."""
    reasons = (
        unplayable_reason(model, scenario, condition, sweep.only, protocol)
        for model in sweep.models
        for scenario in sweep.scenarios
        for condition in sweep.conditions
        for protocol in sweep.protocols
    )
    return list(dict.fromkeys(reason.partition(", not for ")[0] for reason in reasons if reason))


def _listed(value: Any, key: str, where: str) -> list[Any]:
    if isinstance(value, list):
        return value
    if isinstance(value, str):
        return [value]
    raise SweepError(f"{where}: {key} must be a list of names, not {value!r}")


def _own_models(tables: Any, where: str) -> dict[str, ModelSpec]:
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise SweepError(f"{where}: models of your own are written as [[model]] tables")
    found: dict[str, ModelSpec] = {}
    for number, table in enumerate(tables, 1):
        entry = _own(table, f"{where}: model {number}")
        if entry.name in found:
            raise SweepError(f"{where}: two [[model]] tables have the name {entry.name!r}; give each a name of its own")
        found[entry.name] = entry
    return found


def _own(table: Mapping[str, Any], where: str) -> ModelSpec:
    """A model that the sweep itself describes; what it takes of the built-in ones must exist."""
    entry = _entry(table, where)
    if entry.backend == "openai" or not (entry.backend == "builtin" or entry.source.startswith(BUILTIN)):
        return entry
    source = BUILTIN + entry.source.removeprefix(BUILTIN)
    known = {**_builtin(), **{f"{BUILTIN}{name}": "builtin" for name in packages.policies()}}
    if source not in known:
        raise SweepError(f"{where}: source = {entry.source!r} is not built in; there are {', '.join(known)}")
    if (known[source] == "builtin") != (entry.backend == "builtin"):
        raise SweepError(
            f"{where}: backend = {entry.backend!r} cannot play {source}; write backend = {known[source]!r}"
        )
    return packages.pin_policy(entry)


def _builtin() -> dict[str, str]:
    """Source -> backend of the models and judges that need no download."""
    tables = [table for path in (MODELS, JUDGES) for table in read_toml(path).values()]
    return {table["source"]: table["backend"] for table in tables if table["source"].startswith(BUILTIN)}


def _entry(table: Mapping[str, Any], where: str) -> ModelSpec:
    return validate_table(ModelSpec, table, where)


def _model(entry: Any, own: Mapping[str, ModelSpec], where: str, kind: str = "model") -> ModelSpec:
    if isinstance(entry, dict):
        return _own(entry, f"{where}: {kind}s" if kind == "model" else f"{where}: {kind}.model")
    known = {**registry(), **own}
    if isinstance(entry, str) and entry not in known and (offered := packages.policy_model(entry)) and kind == "model":
        return offered
    return known[_known(entry, known, kind, where)]


def find_scenarios(value: Any, where: str) -> list[str]:
    if value == "all":
        return list(SCENARIOS)
    names = packages.scenario_names()
    return list(
        dict.fromkeys(names[_known(name, names, "scenario", where)] for name in _listed(value, "scenarios", where))
    )


def _measures(value: Any, where: str) -> list[str]:
    """The measures of installed packages that the value names, each one importable."""
    known = packages.measures()
    names = list(dict.fromkeys(_known(name, known, "measure", where) for name in _listed(value, "measures", where)))
    for name in names:
        load_function("measure", name)
    return names


def read_conditions(tables: Any, where: str) -> dict[str, Condition]:
    """The ``[[condition]]`` tables of a sweep file, by name; raises SweepError."""
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise SweepError(f"{where}: conditions of your own are written as [[condition]] tables")
    found: dict[str, Condition] = {}
    for number, table in enumerate(tables, 1):
        place = f"{where}: condition {number}"
        named = {**table, "scenarios": find_scenarios(table["scenarios"], place)} if "scenarios" in table else table
        entry = validate_table(OwnCondition, named, place).plain
        if entry.name in found:
            raise SweepError(f"{where}: two [[condition]] tables have the name {entry.name!r}")
        found[entry.name] = entry
    return found


def _conditions(
    value: Any, where: str, scenarios: Sequence[str] = (), own: Mapping[str, Condition] | None = None
) -> list[Condition]:
    """The conditions named; ``all`` means the paper's that exist for some of the scenarios, and the file's ``own``."""
    mine = dict(own or {})
    if value == "all":
        every = (*CONDITIONS.values(), *mine.values())
        return [c for c in every if not c.scenarios or set(c.scenarios) & set(scenarios)]
    names, known = _listed(value, "conditions", where), {**CONDITIONS, **VARIANTS, **mine}
    return [known[name] for name in dict.fromkeys(_known(name, known, "condition", where) for name in names)]


def _protocols(one: Any, many: Any, where: str) -> dict[str, Any]:
    """The protocols named under either key, each once; nothing if neither is there."""
    if one is None and many is None:
        return {}
    if one is not None and many is not None:
        raise SweepError(f"{where}: protocol and protocols are both there; keep protocol")
    names, known = _listed(many if one is None else one, "protocol", where), [protocol.value for protocol in Protocol]
    if not names:
        raise SweepError(
            f"{where}: protocol = []: names nothing; give at least one of {' and '.join(map(repr, known))}"
        )
    for name in names:
        if name not in known:
            raise SweepError(f"{where}: protocol = {name!r} does not exist; there are {' and '.join(map(repr, known))}")
    return {"protocols": list(dict.fromkeys(names))}


def _selections(fields: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The selections that the fields give, their ids by the short names of scenarios that the sweep plays."""
    scenarios, found = fields["scenarios"], {}
    if "selection" in fields:
        found["selection"] = _selection(fields["selection"], scenarios, where, "selection")
    if isinstance(open_ended := fields.get("open_ended"), dict) and "selection" in open_ended:
        pick = _selection(open_ended["selection"], scenarios, where, "open_ended.selection")
        found["open_ended"] = {**open_ended, "selection": pick}
    return found


def _selection(table: Any, scenarios: Sequence[str], file: str, place: str) -> Any:
    if isinstance(table, dict) and IDS_FILE in table:
        return insert_ids(
            table, scenarios, lambda name: find_scenarios([name], f"{file}: {place}.{IDS_FILE}")[0], file, place
        )
    if not isinstance(table, dict) or not isinstance(table.get("ids"), dict):
        return table
    where, ids = f"{file}: {place}.ids", dict[str, Any]()
    for name, numbers in table["ids"].items():
        (scenario,) = find_scenarios([name], where)
        if scenario not in scenarios:
            raise SweepError(f"{where}: {name} is not among the scenarios of this sweep; add it there, or drop its ids")
        if scenario in ids:
            raise SweepError(f"{where}: {scenario} is named twice; give all its ids in one list")
        if numbers == []:
            raise SweepError(f"{where}.{name} = []: names no sample; give at least one id, or drop the key")
        ids[scenario] = numbers
    return {**table, "ids": ids}


def _only(tables: Any, models: Sequence[ModelSpec], where: str, own: Mapping[str, Condition]) -> list[dict[str, Any]]:
    """``[[only]]`` tables with ``models = "in-history"`` written out; names that do not exist are mistakes."""
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise SweepError(f"{where}: only is written as [[only]] tables with the keys conditions and models")
    rules = []
    for table in tables:
        names = table.get("models", [])
        if names == "in-history":
            names = [model.name for model in models if model.in_history]
        known = {model.name: model for model in models}
        chosen = [_known(name, known, "model", f"{where}: only") for name in _listed(names, "only.models", where)]
        conditions = [c.name for c in _conditions(table.get("conditions", []), f"{where}: only", (), own)]
        rules.append({**table, "models": chosen, "conditions": conditions})
    return rules


def _known(name: Any, known: Mapping[str, Any], kind: str, where: str) -> str:
    if isinstance(name, str) and name in known:
        return name
    if not isinstance(name, str):
        raise SweepError(f"{where}: a {kind} is given by its name in quotes, not by {name!r}")
    close = get_close_matches(name, list(known), n=1)
    meant = f"did you mean {close[0]!r}?" if close else f"`proactive-sweep ls {kind}s` lists them"
    raise SweepError(f"{where}: there is no {kind} {name!r}; {meant}")


def _all_used(sweep: Sweep, where: str) -> None:
    """Every condition and model must make at least one cell."""
    cells = sweep.cells()
    for condition in sweep.conditions:
        if not any(cell.condition == condition for cell in cells):
            raise SweepError(f"{where}: {condition.name} makes no cell here: {skipped_products(sweep)[0]}")
    for model in sweep.models:
        if not any(cell.model == model for cell in cells):
            raise SweepError(f"{where}: {model.name} makes no cell here: {skipped_products(sweep)[0]}")
    names = [model.name for model in sweep.models]
    if len(set(names)) < len(names):
        raise SweepError(
            f"{where}: a model is named twice in models: {sorted(n for n in names if names.count(n) > 1)[0]!r}"
        )
