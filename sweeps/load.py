"""Reads a sweep file as a ``Sweep``; an error is one sentence with the file, the key, and what to type."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from envs.installed import PackageError, load_function
from sweeps import packages
from sweeps.checkpoint import with_limits
from sweeps.conditions import CONDITIONS, VARIANTS, Condition, OwnCondition, find_rules
from sweeps.package_models import BUILTIN
from sweeps.packages import find_scenarios
from sweeps.protocol import ZERO_SHOT
from sweeps.registry import builtin_backends, judges, read_models, registry, resolve_model
from sweeps.selections import read_selections
from sweeps.spec import Cell, Judge, ModelSpec, Protocol, Sweep
from sweeps.sweep_file import RESOLVED, override_key, read_sweep, read_toml
from sweeps.sweep_file import SweepError as SweepError
from sweeps.unplayable import limit_reason, unplayable_reason
from sweeps.validation import as_list, drop_removed, find_name, read_named_tables, require_tables, validate_table
from sweeps.values import slug

JUDGE = "qwen3-8b"
"""The paper's judge."""
SHARED = ("selection.filtered",)
"""Multiple-choice keys that also affect other protocols: reports compare with the paper's filtered or unfiltered figures."""


def load(path: Path, overrides: Iterable[str] = (), entries: Iterable[Any] = ()) -> Sweep:
    """Read a sweep file, add models (names, tables, files), and apply ``key=value`` overrides.

    ``path`` may be the name of a sweep that ships (``sweeps.shipped``). Raises SweepError.
    """
    table = read_sweep(path)
    _add_models(table, list(entries), str(path))
    for override in overrides:
        override_key(table, override)
    if path.name == RESOLVED:
        table["output"] = str(path.parent)
    return build(table, str(path))


def build(table: Mapping[str, Any], where: str) -> Sweep:
    """Return the sweep of a file's table, or of a run folder's; ``where`` names the file in errors. Raises SweepError."""
    if is_resolved(table):
        return validate_table(Sweep, drop_removed(table), where)
    try:
        packages.check_packages({*registry(), *judges(), *(s.removeprefix(BUILTIN) for s in builtin_backends())})
        return _build(table, where)
    except PackageError as problem:
        raise SweepError(f"{where}: {problem}") from None


def is_resolved(table: Mapping[str, Any]) -> bool:
    """Return True for the table of a ``RESOLVED`` file, whose models and conditions are tables instead of names."""
    conditions = table.get("conditions")
    return isinstance(conditions, list) and any(isinstance(entry, dict) for entry in conditions)


def _build(table: Mapping[str, Any], where: str) -> Sweep:
    fields = dict(table)
    fields.pop("train", None)  # belongs to the command `train` of extras/learn
    own_models = read_models(fields.pop("model", []), where)
    entries = as_list(fields.pop("models", list(own_models)), "models", where)
    fields["models"] = [resolve_model(entry, own_models, where) for entry in entries]
    fields["scenarios"] = find_scenarios(fields.get("scenarios", "all"), where)
    fields["packages"] = packages.identities(fields["scenarios"])
    if "measures" in fields:
        fields["measures"] = _find_measures(fields["measures"], where)
    own_conditions = _read_conditions(fields.pop("condition", []), where)
    names = fields.get("conditions", list(own_conditions) or [ZERO_SHOT])
    fields["conditions"] = _find_conditions(names, where, fields["scenarios"], own_conditions)
    if "only" in fields:
        fields["only"] = _read_rules(fields["only"], fields["models"], where, own_conditions)
    if isinstance(fields.get("judge"), dict):
        fields["judge"] = _resolve_judge(fields["judge"], own_models, where)
    _pin(fields, {*registry(), *judges(), *own_models}, where)
    if fields.get("faithful") is True:
        models = fields["models"]
        fields["models"] = [m.model_copy(update={"faithful": True}) if m.is_local else m for m in models]
    _read_protocols(fields, where)
    fields |= read_selections(fields, where)
    fields.setdefault("name", slug(Path(where).stem, "sweep"))
    sweep = validate_table(Sweep, fields, where)
    _check_keys(table, sweep.protocols, where)
    _check_cells(sweep, where)
    _check_turn_judge(sweep, where)
    return sweep.model_copy(update={"output": sweep.output or f"outputs/{sweep.name}"})


def _pin(fields: dict[str, Any], known: Collection[str], where: str) -> None:
    """Set the commits of ``[revisions]`` in the models and the judge; it may name any ``known`` model. Raises SweepError."""
    table, judge = fields.pop("revisions", {}), fields.get("judge")
    if not isinstance(table, dict) or not all(isinstance(value, str) and value for value in table.values()):
        raise SweepError(f"{where}: revisions is a table of models and commits, each in quotes")

    def pin(model: ModelSpec) -> ModelSpec:
        if model.name in table and not model.is_local:
            reason = f"its backend is {model.backend}, which loads no weights; leave it out"
            raise SweepError(f"{where}: revisions.{model.name}: {reason}")
        return model.model_copy(update={"revision": table[model.name]}) if model.name in table else model

    for name in table:
        find_name(name, dict.fromkeys([*known, *(m.name for m in fields["models"])]), "model", f"{where}: revisions")
    fields["models"] = [pin(model) for model in fields["models"]]
    if isinstance(judge, dict):
        fields["judge"] = {**judge, "model": pin(judge["model"])}


def _add_models(table: dict[str, Any], entries: Sequence[Any], where: str) -> None:
    """Add models, names or tables, to the table of a sweep file; raises SweepError."""
    if entries and is_resolved(table):
        raise SweepError(f"{where} is the sweep of a run; add models to the file from which it was started")
    for entry in entries:
        own_tables = table.get("model", [])
        names = as_list(table.get("models", []), "models", where) or list(read_models(own_tables, where))
        tables = read_toml(entry).get("model", []) if isinstance(entry, Path) else [entry]
        table["models"] = [*names, *(each["name"] if isinstance(each, dict) else each for each in tables)]
        table["model"] = [*own_tables, *(each for each in tables if isinstance(each, dict))]


def build_cell(
    scenario: str,
    condition: str,
    model: str | ModelSpec = "",
    protocol: Protocol = Protocol.MCQA,
    sweep: Path | None = None,
) -> Cell:
    """Return the cell of names on a command line; without a model, of a placeholder named ``any``.

    The condition may be a ``[[condition]]`` of the file ``sweep``. Raises SweepError.
    """
    own = {} if sweep is None else _read_conditions(read_sweep(sweep).get("condition", []), str(sweep))
    any_model = ModelSpec(name="any", source="builtin:oracle", backend="builtin")
    cell = Cell(
        model=model if isinstance(model, ModelSpec) else resolve_model(model, {}, "--model") if model else any_model,
        scenario=find_scenarios([scenario], "the command line")[0],
        condition=_find_conditions([condition], "--condition", (), own)[0],
        protocol=protocol,
    )
    if reason := unplayable_reason(cell.model, cell.scenario, cell.condition, protocol=protocol):
        raise SweepError(reason)
    return cell


def find_models(names: Sequence[str], sweep: Path | None = None, judging: bool = False) -> list[ModelSpec]:
    """Return the named models of a sweep file or, without one, of those that ship; no names means all. Raises SweepError.

    ``judging`` adds the judge of the file, or the judges that ship.
    """
    if sweep is None:
        models = {**registry(), **(judges() if judging else {})}
    else:
        loaded = load(sweep)
        judge = (loaded.judge.model,) if judging and loaded.judge else ()
        models = {model.name: model for model in (*judge, *loaded.models)}
    named = [models[find_name(name, models, "model", "the command line")] for name in names]
    return list(map(with_limits, named or models.values()))


def build_judge(table: Mapping[str, Any], where: str) -> Judge:
    """Return the judge of a ``[judge]`` table alone, as ``judge DIR --judge`` gives it; raises SweepError."""
    return validate_table(Judge, _resolve_judge(table, {}, where), where)


def _resolve_judge(table: Mapping[str, Any], models: Mapping[str, ModelSpec], where: str) -> dict[str, Any]:
    model = resolve_model(table.get("model", JUDGE), {**judges(), **models}, where, "judge")
    if "no chat template" in model.limits:
        raise SweepError(f"{where}: judge.model = {model.name!r} has no chat template, which it needs; name another")
    return {**table, "model": model}


def skipped_products(sweep: Sweep) -> list[str]:
    """Return why some combinations of the sweep are not cells, one sentence each, in the sweep's order."""
    reasons = (
        unplayable_reason(model, scenario, condition, sweep.only, protocol)
        for model in sweep.models
        for scenario in sweep.scenarios
        for condition in sweep.conditions
        for protocol in sweep.protocols
    )
    return list(dict.fromkeys(reason.partition(", not for ")[0] for reason in reasons if reason))


def limited_products(sweep: Sweep) -> list[str]:
    """Return those sentences of ``skipped_products`` that are about what a model cannot take."""
    products = ((m, c, p) for m in sweep.models for c in sweep.conditions for p in sweep.protocols)
    return list(dict.fromkeys(filter(None, (limit_reason(*product) for product in products))))


def _find_measures(value: Any, where: str) -> list[str]:
    """Return the distinct measures of installed packages; each one must be importable."""
    measures = packages.measures()
    names = dict.fromkeys(find_name(name, measures, "measure", where) for name in as_list(value, "measures", where))
    return [name for name in names if load_function("measure", name)]


def _read_conditions(tables: Any, where: str) -> dict[str, Condition]:
    def read_table(table: Mapping[str, Any], where: str) -> Condition:
        if "scenarios" in table:
            table = {**table, "scenarios": find_scenarios(table["scenarios"], where)}
        return Condition(**dict(validate_table(OwnCondition, table, where)))

    return read_named_tables(tables, "condition", where, read_table)


def _find_conditions(value: Any, where: str, scenarios: Sequence[str], own: Mapping[str, Condition]) -> list[Condition]:
    """Return the named conditions; ``all`` means the file's own and the paper's that exist for some of the scenarios."""
    if value == "all":
        conditions = (*CONDITIONS.values(), *own.values())
        return [c for c in conditions if not c.scenarios or set(c.scenarios) & set(scenarios)]
    by_name = {**CONDITIONS, **VARIANTS, **own}
    names = (find_name(name, by_name, "condition", where) for name in as_list(value, "conditions", where))
    chosen = [by_name[name] for name in dict.fromkeys(names)]
    for condition in chosen:
        if condition.rules:
            find_rules(condition)
    return chosen


def _read_protocols(fields: dict[str, Any], where: str) -> None:
    """Replace the key ``protocol``, a name or a list of them, by the distinct ``protocols``."""
    if "protocol" in fields and "protocols" in fields:
        raise SweepError(f"{where}: protocol and protocols are both there; keep protocol")
    if (names := fields.pop("protocol", fields.get("protocols"))) is not None:
        fields["protocols"] = list(dict.fromkeys(as_list(names, "protocol", where)))


def _read_rules(
    tables: Any, models: Sequence[ModelSpec], where: str, own: Mapping[str, Condition]
) -> list[dict[str, Any]]:
    """Return ``[[only]]`` tables with the names of ``models = "in-history"``; every name must exist."""
    message = f"{where}: only is written as [[only]] tables with the keys conditions and models"
    by_name, rules = {model.name: model for model in models}, []
    for table in require_tables(tables, message):
        names = table.get("models", [])
        if names == "in-history":
            names = [model.name for model in models if model.in_history]
        names = [find_name(name, by_name, "model", f"{where}: only") for name in as_list(names, "only.models", where)]
        conditions = _find_conditions(table.get("conditions", []), f"{where}: only", (), own)
        rules.append({**table, "models": names, "conditions": [condition.name for condition in conditions]})
    return rules


def _check_cells(sweep: Sweep, where: str) -> None:
    """Check that every condition and model makes a cell, unless a limit excludes it, and that models have distinct names."""
    cells = sweep.cells()
    makes_cell = {cell.condition.name for cell in cells} | {cell.model.name for cell in cells}
    limited = [c for c in sweep.conditions if any(limit_reason(m, c, p) for m in sweep.models for p in sweep.protocols)]
    names = [*(c.name for c in sweep.conditions if c not in limited), *(model.name for model in sweep.models)]
    if unused := [name for name in names if name not in makes_cell]:
        reasons = skipped_products(sweep)
        reason = next((reason for reason in reasons if unused[0] in reason.split()), reasons[0])
        raise SweepError(f"{where}: {unused[0]} makes no cell here: {reason}")
    names = [model.name for model in sweep.models]
    if duplicates := sorted(name for name in names if names.count(name) > 1):
        raise SweepError(f"{where}: a model is named twice in models: {duplicates[0]!r}")


def _check_keys(table: Mapping[str, Any], protocols: Sequence[Protocol], where: str) -> None:
    """Check that every table of a selection or sampling is for a protocol of the sweep."""
    kinds = {protocol.is_open_ended for protocol in protocols}
    if Protocol.MCQA not in protocols and "replicates" in table:
        raise SweepError(f"{where}: replicates repeat multiple choice, which is not played here; leave them out")
    keys = [f"{part}.{name}" for part in ("selection", "sampling") for name in _names(table.get(part))]
    if False not in kinds and (wrong := [key for key in keys if key not in SHARED]):
        raise SweepError(
            f"{where}: {wrong[0]} is for multiple choice, which is not played; write open_ended.{wrong[0]}"
        )
    open_ended = table.get("open_ended") or {}
    if True not in kinds and open_ended:
        key = next(f"{part}.{name}" for part in open_ended for name in [*_names(open_ended[part]), "..."])
        raise SweepError(
            f'{where}: open_ended.{key} is for open-ended generation, which is not played; write {key}, or add "oeg" to protocol'
        )


def _names(table: Any) -> list[str]:
    return list(table) if isinstance(table, dict) else [] if table is None else ["..."]


def _check_turn_judge(sweep: Sweep, where: str) -> None:
    """Check that ``oeg-multi`` has a judge that can read answers while their episodes wait."""
    if Protocol.OEG_MULTI in sweep.protocols and sweep.judge is None:
        raise SweepError(
            f'{where}: protocol = "oeg-multi" needs a judge between turns; add [judge] with a model, or with "rule-judge"'
        )
    if sweep.turn_judge and sweep.turn_judge.instruction != "ours":
        raise SweepError(
            f'{where}: judge.instruction = "paper" is for one-turn answers; write "ours" for protocol = "oeg-multi"'
        )
