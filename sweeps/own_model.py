"""Entries of models that no sweep names: a checkpoint's folder, a Hub id, a service's address, a file, or a known name."""

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from envs import regular
from sweeps.checkpoint import MAX_FILE_BYTES, Checkpoint, parse_config, read_checkpoint
from sweeps.model import ModelSpec
from sweeps.packages import policies
from sweeps.registry import registry
from sweeps.sweep_file import HUB_ID, SweepError, read_toml
from sweeps.values import slug

Entry = dict[str, Any] | str
WEIGHTS = (".safetensors", ".bin", ".pt", ".pth")
HEADROOM = 1.3
"""Bytes of a GPU that a byte of weights needs, with the engine's own and the cache."""


class Machine(NamedTuple):
    """What this machine can play a model on."""

    free_gpus: tuple[int, ...] = ()
    """Bytes of each GPU that is free."""
    has_vllm: bool = False


class Files(NamedTuple):
    """What a checkpoint's files say."""

    checkpoint: Checkpoint
    weight_bytes: int
    revision: str = ""


def read_entries(source: str, machine: Machine, read_hub: Callable[[str], Files]) -> list[Entry]:
    """Return the entries that ``--model`` names, tables or names of models that ship; raises SweepError.

    ``read_hub`` returns what the Hub says of a checkpoint that is not in its cache.
    """
    if source.endswith(".toml"):
        tables: list[Entry] = read_toml(Path(source)).get("model", [])
        if not tables:
            raise SweepError(f"{source} has no [[model]] table")
        return tables
    if "://" in source:
        return [_service(source)]
    if source in registry() or source in policies():
        return [source]
    if Path(source).is_dir():
        return [_local(slug(Path(source).resolve().name), os.path.abspath(source), read_folder(Path(source)), machine)]
    if HUB_ID.fullmatch(source):
        return [_local(slug(source.rpartition("/")[2]), source, cached_files(source) or read_hub(source), machine)]
    raise SweepError(
        f"--model {source} is no folder, Hub id (OWNER/NAME), address (http://HOST/v1#NAME) or name in `ls models`"
    )


def _service(address: str) -> Entry:
    base, _, name = address.partition("#")
    if not name or urlsplit(base).scheme not in ("http", "https"):
        raise SweepError(f"--model {address} must name the service's model too, as in http://HOST/v1#NAME")
    key = "OPENAI_API_KEY" if urlsplit(base).hostname == "api.openai.com" else ""
    return {"name": slug(name), "source": name, "endpoint": {"base_url": base, "key_env": key}}


def _local(name: str, source: str, files: Files, machine: Machine) -> Entry:
    """Return the entry of a checkpoint: that of the model that ships with this source, on the engine of this machine."""
    shipped = next((model for model in registry().values() if model.source == source), None)
    known: Mapping[str, Any] = shipped.model_dump(mode="json", exclude_defaults=True) if shipped else {}
    backend, gpus = choose_engine(files.weight_bytes, machine)
    entry = {"name": name, "source": source, **known, "backend": backend, "gpus": gpus}
    if files.checkpoint.architecture:
        entry["architecture"] = files.checkpoint.architecture
    return entry | ({"revision": files.revision} if files.revision else {})


def choose_engine(weight_bytes: int, machine: Machine) -> tuple[str, int]:
    """Return the engine and the number of GPUs for weights of this size: vLLM if it is there and a GPU is free."""
    if not machine.free_gpus:
        return "transformers", 0
    most = 1 << (len(machine.free_gpus).bit_length() - 1)
    sizes = sorted(machine.free_gpus, reverse=True)
    gpus = next((n for n in (1, 2, 4, 8) if n <= most and weight_bytes * HEADROOM <= sizes[n - 1] * n), most)
    return "vllm" if machine.has_vllm else "transformers", gpus


def read_folder(folder: Path) -> Files:
    """Return what the files of a checkpoint's folder say; raises SweepError if it holds no checkpoint."""
    try:
        config = parse_config(regular.read_bytes(folder / "config.json", MAX_FILE_BYTES))
    except OSError:
        raise SweepError(f"{folder} is a folder without config.json; name the folder of a checkpoint") from None
    if config is None:
        raise SweepError(f"{folder / 'config.json'} holds no JSON object; copy the checkpoint again")
    return Files(Checkpoint(config, folder), sum(_weights(folder)))


def cached_files(source: str) -> Files | None:
    """Return what a snapshot in the Hub's cache says of a checkpoint; None if there is none."""
    cached = read_checkpoint(ModelSpec(name="any", source=source, backend="transformers", gpus=0))
    return None if cached is None or cached.folder is None else Files(cached, sum(_weights(cached.folder)))


def _weights(folder: Path) -> Iterator[int]:
    return (path.stat().st_size for path in folder.iterdir() if path.suffix in WEIGHTS)
