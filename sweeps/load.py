"""Reads a sweep file as a ``Sweep``; an error is one sentence with the file, the key, and what to type."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator

from envs.installed import PackageError, load_function
from sweeps import packages
from sweeps.conditions import CONDITIONS, VARIANTS, Condition, OwnCondition
from sweeps.packages import BUILTIN, find_scenarios
from sweeps.protocol import ZERO_SHOT, Only, limit_reason, unplayable_reason
from sweeps.registry import builtin_backends, judges, read_model, registry, resolve_model
from sweeps.selections import read_selections
from sweeps.spec import Cell, Judge, ModelSpec, Protocol, Sweep
from sweeps.sweep_file import SweepError as SweepError
from sweeps.sweep_file import override_key, read_sweep
from sweeps.validation import drop_removed, find_name, read_named_tables, validate_table
from sweeps.values import Frozen, Names, slug, split_names

JUDGE = "qwen3-8b"
"""The paper's judge."""
Tables = tuple[dict[str, Any], ...]


class NamedParts(Frozen):
    """The keys of a sweep file whose values are names, or tables of its own that have names."""

    model: Tables = ()
    models: Annotated[tuple[str | dict[str, Any], ...], BeforeValidator(split_names)] | None = None
    scenarios: Names = ("all",)
    condition: Tables = ()
    conditions: Names | None = None
    protocol: Names | None = None
    measures: Names = ()
    only: tuple[Only, ...] = ()
    revisions: dict[str, str] = {}


def load(path: Path, overrides: Iterable[str] = (), entries: Sequence[Any] = ()) -> Sweep:
    """Read a sweep file, add models (names or tables), and apply ``key=value`` overrides.

    ``path`` may be the name of a sweep that ships (``sweeps.sweep_file``). Raises SweepError.
    """
    table = read_sweep(path)
    if entries and is_resolved(table):
        raise SweepError(f"{path} is the sweep of a run; add models to the file from which it was started")
    if entries:
        parts = _read_parts(table, str(path))
        # a file without ``models`` plays its own tables
        listed = [own.get("name", own) for own in parts.model] if parts.models is None else parts.models
        table["models"] = [*listed, *entries]
    for override in overrides:
        override_key(table, override)
    return build(table, str(path))


def build(table: Mapping[str, Any], where: str) -> Sweep:
    """Return the sweep of a file's table, or of a run folder's; ``where`` names the file in errors. Raises SweepError."""
    if is_resolved(table):
        sweep = validate_table(Sweep, drop_removed(table), where)
    else:
        try:
            packages.check_packages({*registry(), *judges(), *(s.removeprefix(BUILTIN) for s in builtin_backends())})
            sweep = _build(table, where)
        except PackageError as problem:
            raise SweepError(f"{where}: {problem}") from None
    if missing := packages.missing_rules(sweep.conditions):
        raise SweepError(f"{where}: {missing[0]}")
    services = (model for model in sweep.models_and_judge if model.backend == "openai")
    unpriced = [model.name for model in services if not (any(model.prices) or model.endpoint.base_url)]
    if sweep.cluster.max_cost is not None and unpriced:
        raise SweepError(f"{where}: cluster.max_cost needs prompt_price and reply_price of {unpriced[0]}'s endpoint")
    return sweep


def is_resolved(table: Mapping[str, Any]) -> bool:
    """Return True for the table of a ``RESOLVED`` file, whose models and conditions are tables instead of names."""
    conditions = table.get("conditions")
    return isinstance(conditions, list) and any(isinstance(entry, dict) for entry in conditions)


def _build(table: Mapping[str, Any], where: str) -> Sweep:
    if {"protocol", "protocols"} <= table.keys():
        raise SweepError(f"{where}: protocol and protocols are both there; keep protocol")
    fields = {"protocol" if key == "protocols" else key: value for key, value in table.items()}
    fields.pop("train", None)  # belongs to the command `train` of extras/learn
    parts = _read_parts(fields, where)
    fields = {key: value for key, value in fields.items() if key not in NamedParts.model_fields}
    own_models = read_named_tables(parts.model, "model", where, read_model)
    entries = list(own_models) if parts.models is None else parts.models
    models = [resolve_model(entry, own_models, where) for entry in entries]
    known = dict.fromkeys([*registry(), *judges(), *own_models, *(model.name for model in models)])
    for name in parts.revisions:
        find_name(name, known, "model", f"{where}: revisions")
    models = [_pin(model, parts.revisions, where) for model in models]
    if isinstance(judge := fields.get("judge"), dict):
        judge = _resolve_judge(judge, own_models, where)
        fields["judge"] = {**judge, "model": _pin(judge["model"], parts.revisions, where)}
    if fields.get("faithful") is True:
        models = [model.model_copy(update={"faithful": True}) if model.is_local else model for model in models]
    scenarios = find_scenarios(parts.scenarios, where)
    own_conditions = _read_conditions(parts, where)
    names = parts.conditions if parts.conditions is not None else list(own_conditions) or [ZERO_SHOT]
    by_name = {model.name: model for model in models}
    fields |= {
        "models": models,
        "scenarios": scenarios,
        "packages": packages.identities(scenarios),
        "conditions": _find_conditions(names, where, scenarios, own_conditions),
        "measures": _find_measures(parts.measures, where),
        "only": [_resolve_rule(rule, by_name, where, scenarios, own_conditions) for rule in parts.only],
    }
    if parts.protocol is not None:
        fields["protocols"] = list(dict.fromkeys(parts.protocol))
    fields |= read_selections(fields, where)
    fields.setdefault("name", slug(Path(where).stem, "sweep"))
    sweep = validate_table(Sweep, fields, where)
    _check_keys(table, sweep.protocols, where)
    _check_cells(sweep, where)
    return sweep.model_copy(update={"output": sweep.output or f"outputs/{sweep.name}"})


def _read_parts(table: Mapping[str, Any], where: str) -> NamedParts:
    return validate_table(NamedParts, {key: table[key] for key in NamedParts.model_fields if key in table}, where)


def _pin(model: ModelSpec, commits: Mapping[str, str], where: str) -> ModelSpec:
    """Return the model at its commit in ``[revisions]``, if it has one there."""
    if model.name not in commits:
        return model
    if not model.is_local:
        raise SweepError(f"{where}: revisions.{model.name}: {model.backend} loads no weights; leave it out")
    return model.model_copy(update={"revision": commits[model.name]})


def build_cell(
    scenario: str,
    condition: str,
    model: ModelSpec | None = None,
    protocol: Protocol = Protocol.MCQA,
    sweep: Path | None = None,
) -> Cell:
    """Return the cell of names on a command line; without a model, of a placeholder named ``any``.

    The condition may be a ``[[condition]]`` of the file ``sweep``. Raises SweepError or PackageError.
    """
    where = "the command line"
    if "all" in (scenario, condition):
        raise SweepError(f"{where}: a cell has one scenario and one condition; name them instead of all")
    own = {} if sweep is None else _read_conditions(_read_parts(read_sweep(sweep), str(sweep)), str(sweep))
    cell = Cell(
        model=model or ModelSpec(name="any", source="builtin:oracle", backend="builtin"),
        scenario=find_scenarios([scenario], where)[0],
        condition=_find_conditions([condition], where, (), own)[0],
        protocol=protocol,
    )
    if reason := unplayable_reason(cell.model, cell.scenario, cell.condition, protocol=protocol):
        raise SweepError(reason)
    return cell


def build_judge(table: Mapping[str, Any], where: str) -> Judge:
    """Return the judge of a ``[judge]`` table alone, as ``judge DIR --judge`` gives it; raises SweepError."""
    return validate_table(Judge, _resolve_judge(table, {}, where), where)


def _resolve_judge(table: Mapping[str, Any], models: Mapping[str, ModelSpec], where: str) -> dict[str, Any]:
    model = resolve_model(table.get("model", JUDGE), {**judges(), **models}, where, "judge")
    if "no chat template" in model.limits:
        raise SweepError(f"{where}: judge.model = {model.name!r} has no chat template, which it needs; name another")
    return {**table, "model": model}


def skipped_products(sweep: Sweep, name: str = "") -> list[str]:
    """Return why some combinations of the sweep, or of the model or condition of this name, are not cells: distinct sentences."""
    products = product(sweep.models, sweep.scenarios, sweep.conditions, sweep.protocols)
    reasons = (unplayable_reason(m, s, c, sweep.only, p) for m, s, c, p in products if name in ("", m.name, c.name))
    return list(dict.fromkeys(filter(None, reasons)))


def limited_products(sweep: Sweep) -> list[str]:
    """Return why models cannot take some conditions or protocols, one sentence each."""
    reasons = (limit_reason(*names) for names in product(sweep.models, sweep.conditions, sweep.protocols))
    return list(dict.fromkeys(filter(None, reasons)))


def _find_measures(names: Iterable[str], where: str) -> list[str]:
    measures = packages.measures()
    chosen = [find_name(name, measures, "measure", where) for name in dict.fromkeys(names)]
    for name in chosen:
        load_function("measure", name)
    return chosen


def _read_conditions(parts: NamedParts, where: str) -> dict[str, Condition]:
    def read(table: Mapping[str, Any], where: str) -> Condition:
        own = dict(validate_table(OwnCondition, table, where))
        return Condition(**own | {"scenarios": find_scenarios(own["scenarios"], where)})

    return read_named_tables(parts.condition, "condition", where, read)


def _find_conditions(
    names: Sequence[str], where: str, scenarios: Sequence[str], own: Mapping[str, Condition]
) -> list[Condition]:
    """Return the named conditions; ``all`` means the file's own and the paper's that exist for some of the scenarios."""
    by_name = {**CONDITIONS, **VARIANTS, **own}
    if list(names) == ["all"]:
        conditions = (*CONDITIONS.values(), *own.values())
        return [c for c in conditions if not c.scenarios or set(c.scenarios) & set(scenarios)]
    return [by_name[find_name(name, by_name, "condition", where)] for name in dict.fromkeys(names)]


def _resolve_rule(
    rule: Only, models: Mapping[str, ModelSpec], where: str, scenarios: Sequence[str], own: Mapping[str, Condition]
) -> Only:
    where, is_history = f"{where}: only", rule.models == ("in-history",)
    in_history = [name for name, model in models.items() if model.in_history]
    names = in_history if is_history else [find_name(name, models, "model", where) for name in rule.models]
    conditions = _find_conditions(rule.conditions, where, scenarios, own)
    return Only(conditions=tuple(condition.name for condition in conditions), models=tuple(names))


def _check_cells(sweep: Sweep, where: str) -> None:
    """Check that every condition and model makes a cell, unless a limit excludes it."""
    cells = sweep.cells()
    makes_cell = {cell.condition.name for cell in cells} | {cell.model.name for cell in cells}
    limited = [c for c in sweep.conditions if any(limit_reason(m, c, p) for m in sweep.models for p in sweep.protocols)]
    names = [*(c.name for c in sweep.conditions if c not in limited), *(model.name for model in sweep.models)]
    if unused := [name for name in names if name not in makes_cell]:
        raise SweepError(f"{where}: {unused[0]} makes no cell here: {skipped_products(sweep, unused[0])[0]}")


def _check_keys(table: Mapping[str, Any], protocols: Sequence[Protocol], where: str) -> None:
    """Check that every table of a selection or sampling is for a protocol of the sweep."""
    # reports compare with the paper's filtered or unfiltered figures, whatever is played
    keys = [key for key in ("selection", "sampling") if set(table.get(key) or ()) - {"filtered"}]
    if keys and all(protocol.is_open_ended for protocol in protocols):
        key = keys[0]
        raise SweepError(f"{where}: {key} is for multiple choice, which is not played; write open_ended.{key}")
    if table.get("open_ended") and not any(protocol.is_open_ended for protocol in protocols):
        raise SweepError(f'{where}: open_ended is played by protocol = "oeg"; add it, or leave the table out')
