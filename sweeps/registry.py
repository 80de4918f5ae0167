"""Models by name: those that ship, those of ``[[model]]`` tables, and policies of installed packages."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from envs.installed import missing_extra, offers
from sweeps import packages
from sweeps.checkpoint import with_limits
from sweeps.engine_options import unsafe_options
from sweeps.packages import BUILTIN, package_models
from sweeps.spec import ModelSpec
from sweeps.sweep_file import SweepError
from sweeps.validation import find_name, validate_table
from sweeps.values import read_table


def registry() -> dict[str, ModelSpec]:
    """Return every model that ships by name: baselines and the paper's models, newer ones, those of installed packages."""
    models = _read_models("models.toml") | _read_models("newer_models.toml")
    return models | _validate_models({name: model.table for name, model in package_models(models).items()})


def judges() -> dict[str, ModelSpec]:
    """Return every judge that ships with the project by name."""
    return _read_models("judges.toml")


@cache  # a sweep asks for them several times, in 8 ms each
def _read_models(name: str) -> dict[str, ModelSpec]:
    return _validate_models(read_table(name))


def _validate_models(tables: Mapping[str, Any]) -> dict[str, ModelSpec]:
    return {name: validate_table(ModelSpec, {"name": name, **table}, f"model {name}") for name, table in tables.items()}


def builtin_backends() -> dict[str, str]:
    """Return the backends of the models and judges that need no download, by source."""
    shipped = (*registry().values(), *judges().values())
    return {model.source: model.backend for model in shipped if model.source.startswith(BUILTIN)}


def read_model(table: Mapping[str, Any], where: str) -> ModelSpec:
    """Return the model that a table describes; a built-in source must exist."""
    model = validate_table(ModelSpec, table, where)
    unsafe = unsafe_options(model.backend, model.options, model.processor)
    if unsafe and not model.unsafe_options:
        remedy = "leave it out, or write unsafe_options = true in this entry"
        raise SweepError(f"{where}: {', '.join(unsafe)} of {model.name} can run code that nobody checked; {remedy}")
    if model.backend == "openai" or not (model.backend == "builtin" or model.source.startswith(BUILTIN)):
        return model
    source = BUILTIN + model.source.removeprefix(BUILTIN)
    backends = {**builtin_backends(), **{f"{BUILTIN}{name}": "builtin" for name in offers("policy")}}
    if source not in backends:
        remedy = missing_extra(source.removeprefix(BUILTIN)) or f"there are {', '.join(backends)}"
        raise SweepError(f"{where}: source = {model.source!r} is not built in; {remedy}")
    if (backends[source] == "builtin") != (model.backend == "builtin"):
        raise SweepError(f"{where}: backend = {model.backend!r} cannot play {source}; write {backends[source]!r}")
    return packages.pin_policy(model)


def resolve_model(entry: Any, models: Mapping[str, ModelSpec], where: str, kind: str = "model") -> ModelSpec:
    """Return the model of an entry, a table or a name, with the limits of its checkpoint; raises SweepError."""
    if isinstance(entry, dict):
        return with_limits(read_model(entry, f"{where}: {kind}s" if kind == "model" else f"{where}: {kind}.model"))
    models = {**registry(), **models}
    if isinstance(entry, str) and entry not in models and entry in offers("policy"):
        return packages.pin_policy(ModelSpec(name=entry, source=f"{BUILTIN}{entry}", backend="builtin"))
    return with_limits(models[find_name(entry, models, kind, where)])


def describe_requirements(model: ModelSpec) -> str:
    """Return a sentence about the packages that a model installs for itself; empty if there are none."""
    return f"{model.name} installs its own {', '.join(model.requirements)}" if model.requirements else ""


def describe_code(model: ModelSpec) -> str:
    """Return a sentence about the keys that let a model run unchecked code; empty if there are none."""
    keys = ["trust_remote_code"] * model.trust_remote_code
    keys += unsafe_options(model.backend, model.options, model.processor)
    return f"{model.name} may run code of its own ({', '.join(keys)})" if keys else ""
