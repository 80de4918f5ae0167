"""Entries of models that no sweep names: a checkpoint's folder, a Hub id, a service's address, a file, or a known name."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from envs.installed import offers
from sweeps.checkpoint import Checkpoint, read_checkpoint, source_fault, with_limits
from sweeps.load import NamedParts, load
from sweeps.model import LOCAL, ModelSpec
from sweeps.registry import judges, read_model, registry, resolve_model
from sweeps.sweep_file import HUB_ID, SweepError, read_toml
from sweeps.validation import read_named_tables, validate_table
from sweeps.values import host_of, slug

Entry = dict[str, Any] | str
HEADROOM = 1.3
"""Bytes of a GPU that a byte of weights needs, with the engine's own and the cache."""


class Machine(NamedTuple):
    """What this machine can play a model on."""

    free_gpus: tuple[int, ...] = ()
    """Bytes of each GPU that is free."""
    has_vllm: bool = False


def read_entries(source: str, machine: Machine, read_hub: Callable[[str], Checkpoint]) -> list[Entry]:
    """Return the entries that ``--model`` names, tables or names of models that ship; raises SweepError.

    ``read_hub`` returns what the Hub says of a checkpoint that is not in its cache.
    """
    if source.endswith(".toml"):
        tables = validate_table(NamedParts, {"model": read_toml(Path(source)).get("model", ())}, source).model
        if not tables:
            raise SweepError(f"{source} has no [[model]] table")
        read_named_tables(tables, "model", source, read_model)  # refuses a mistake
        return list(tables)
    if "://" in source:
        return [_service(source)]
    if source in registry() or source in offers("policy"):
        return [source]
    if Path(source).is_dir():
        return [_local(os.path.abspath(source), None, machine)]
    if Path(source).is_file():
        raise SweepError(f"--model {source} is a file; name its folder {Path(source).absolute().parent}")
    if HUB_ID.fullmatch(source):
        return [_local(source, read_hub, machine)]
    raise SweepError(f"--model {source} is no folder, OWNER/NAME, http://HOST/v1#NAME or name in `ls models`")


def _service(address: str) -> Entry:
    base, _, name = address.partition("#")
    if not name or not host_of(base) or not base.lower().startswith(("http://", "https://")):
        raise SweepError(f"--model {address} must name the service's model too, as in http://HOST/v1#NAME")
    key = "OPENAI_API_KEY" if host_of(base) == "api.openai.com" else ""
    return {"name": slug(name), "source": name, "endpoint": {"base_url": base, "key_env": key}}


def _local(source: str, read_hub: Callable[[str], Checkpoint] | None, machine: Machine) -> dict[str, Any]:
    """Return the entry of a checkpoint: that of the model that ships with this source, on the engine of this machine."""
    model = ModelSpec(name="any", source=source, backend="transformers", gpus=0)
    if (checkpoint := read_checkpoint(model)) is None:
        if fault := source_fault(model):
            raise SweepError(f"{fault}; name the folder of a checkpoint" if read_hub is None else fault)
        assert read_hub is not None, "a folder is readable or not"
        checkpoint = read_hub(source)
    shipped = next((model for model in registry().values() if model.source == source), None)
    known: Mapping[str, Any] = shipped.model_dump(mode="json", exclude_defaults=True) if shipped else {}
    backend, gpus = choose_engine(checkpoint.weight_bytes, machine)
    entry = {"name": slug(Path(source).resolve().name), "source": source, **known, "backend": backend, "gpus": gpus}
    found = {"architecture": checkpoint.architecture, "revision": checkpoint.revision}
    return entry | {key: value for key, value in found.items() if value}


def choose_engine(weight_bytes: int, machine: Machine) -> tuple[str, int]:
    """Return the engine and the number of GPUs for weights of this size: vLLM if it is there and a GPU is free."""
    if not machine.free_gpus:
        return "transformers", 0
    most = 1 << (len(machine.free_gpus).bit_length() - 1)
    sizes = sorted(machine.free_gpus, reverse=True)
    gpus = next((n for n in (1, 2, 4, 8) if n <= most and weight_bytes * HEADROOM <= sizes[n - 1] * n), most)
    return "vllm" if machine.has_vllm else "transformers", gpus


def find_models(
    names: Sequence[str], sweep: Path | None = None, backend: str = "", judging: bool = False
) -> list[ModelSpec]:
    """Return the models of names or checkpoint folders; without names, those of a sweep file, or all that ship.

    ``judging`` adds the judge of the file, or the judges that ship; ``backend`` replaces their engine. Raises SweepError.
    """
    if backend not in ("", *LOCAL):
        raise SweepError(f"--backend must be {' or '.join(LOCAL)}, not {backend!r}")
    if sweep is None:
        own = registry() | (judges() if judging else {})
    else:
        loaded = load(sweep)
        own = {model.name: model for model in (loaded.models_and_judge if judging else loaded.models)}
    folders = {name: _local(name, None, Machine()) for name in names if name not in own and Path(name).is_dir()}
    models = (resolve_model(folders.get(name, name), own, "the command line") for name in names or own)
    return [with_limits(m.model_copy(update={"backend": backend, "limits": ()})) if backend else m for m in models]
