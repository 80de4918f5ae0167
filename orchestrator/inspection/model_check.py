"""``models check``: what would stop a model, from its configuration alone, before a sweep starts; no GPU, no engine.

A cell starts with ``ok``, ``no`` or ``unknown``. What cannot be asked (offline, a gated model) is unknown, never a crash.
"""

from __future__ import annotations

import os
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from http.client import HTTPException
from pathlib import Path
from typing import Any

from actors.embedded import EMBEDDED, resolve_embedded
from actors.engine.baselines import POLICIES
from envs.json_text import parse_json
from orchestrator.datasets.hub import FetchError, Repository, cached_folder
from orchestrator.inspection import packages
from orchestrator.inspection.architectures import architectures
from sweeps.spec import ModelSpec

GPUS = {
    "b200": 180, "mi300x": 192, "h200": 141, "h100": 80, "a100": 80, "a100-40": 40, "l40s": 48, "a6000": 48, "v100": 32,
    "rtx5090": 32, "rtx4090": 24, "a10": 24, "l4": 24, "t4": 16,
}  # fmt: skip
"""Memory in GB, as sold."""
USABLE = 0.9
"""Share of it that an engine takes by default."""
OVERHEAD = 3.0
"""GB for activations and pictures on their way; a rule of thumb."""
LONGEST = 32_768
"""Tokens of the longest prompt that the cache must hold, where the model allows more."""
BYTES = {"float32": 4, "float16": 2, "bfloat16": 2, "half": 2, "float": 4}
LARGEST_CONFIG = 1 << 22


@dataclass(frozen=True)
class Check:
    """One row of the table."""

    model: str
    source: str
    architecture: str
    images: str
    fit: str
    licence: str
    packages: str = "-"
    """Missing packages of its processor and adapter; ``-`` if not checked."""
    needs: tuple[str, ...] = ()
    """Those packages."""

    @property
    def cells(self) -> tuple[str, ...]:
        """The row as it is printed."""
        return self.model, self.source, self.architecture, self.images, self.fit, self.packages, self.licence

    @property
    def ok(self) -> bool:
        """Return True if nothing is known to be wrong."""
        return not any(cell.startswith("no:") for cell in self.cells[1:])


@dataclass(frozen=True)
class ModelFacts:
    """The facts about a model that are known without loading it."""

    where: str
    config: Mapping[str, Any] | None = None
    weights: int = 0
    """Bytes on disk; 0 where unknown."""
    licence: str = "unknown"


def check(models: Sequence[ModelSpec], gpu: str = "h200", imports: bool = False) -> list[Check]:
    """One row a model, in order; raises KeyError for a GPU that ``GPUS`` does not list.

    ``imports`` tries the packages that the models need on this machine, which takes seconds.
    """
    memory = GPUS[gpu]
    with ThreadPoolExecutor(8) as pool:
        rows = list(pool.map(lambda model: _row(model, gpu, memory), models))
    if not imports:
        return rows
    import_errors = packages.problems(sorted({name for row in rows for name in row.needs}))
    package_cells = (packages.told(model, row.needs, import_errors) for model, row in zip(models, rows, strict=True))
    return [replace(row, packages=cell) for row, cell in zip(rows, package_cells, strict=True)]


def _row(model: ModelSpec, gpu: str, memory: int) -> Check:
    if model.backend == "openai":
        return Check(
            model.name, _endpoint(model), "ok: the service's", _images(model, {}), "ok: no GPU", "the provider's terms"
        )
    if model.backend == "builtin":
        return Check(model.name, _policy(model), "ok: no model", "ok", "ok: no GPU", "ok: MIT")
    facts = _facts(resolve_embedded(model))
    config = facts.config or {}
    return Check(
        model.name, _adapter(model) or facts.where, _architecture(model, config), _images(model, config),
        _fit(model, facts, gpu, memory), _licence(model, facts),
        needs=packages.needed(model, _class(config) or model.architecture),
    )  # fmt: skip


def _policy(model: ModelSpec) -> str:
    """Return True if the policy of a built-in player is one that ships."""
    name = model.source.removeprefix("builtin:")
    if name in POLICIES:
        return "ok: ships with the tree"
    if model.source == EMBEDDED:
        return 'no: the embedded model is no policy; its backend is "transformers"'
    return f"no: there is no policy {name!r}; {', '.join(POLICIES)} exist"


def wrong_here(model: ModelSpec) -> str:
    """Return what keeps a model from starting here (key, policy, folder, adapter), without a request; empty if nothing."""
    if model.backend == "openai":
        cell = _unkeyed(model)
    elif model.backend == "builtin":
        cell = _policy(model)
    else:
        local = resolve_embedded(model)
        cell = _adapter(local) or (_facts(local).where if _is_folder(local.source) else "")
    return cell.removeprefix("no: ") if cell.startswith("no: ") else ""


# -- the source --------------------------------------------------------------------------------------------------------
def _facts(model: ModelSpec) -> ModelFacts:
    folder = Path(model.source)
    if folder.is_dir():
        return _on_disk(folder, "ok: on disk")
    if _is_folder(model.source):
        return ModelFacts(f"no: there is no folder {model.source}")
    if copy := cached_folder(model.source, model.revision):
        return _on_disk(copy, "ok: in the Hub's cache")
    try:
        return _on_hub(model)
    except FetchError as problem:
        text = str(problem)
        missing = any(word in text.lower() for word in ("404", "not found", "invalid username"))
        return ModelFacts(f"{'no' if missing else 'unknown'}: {text[:120]}")


def _adapter(model: ModelSpec) -> str:
    """Return the fault of a LoRA adapter in a local folder; empty if none."""
    there = (Path(model.lora) / "adapter_config.json").is_file()
    return f"no: there is no adapter {model.lora}" if _is_folder(model.lora) and not there else ""


def _is_folder(name: str) -> bool:
    """Return True if this can only be a folder, not a name of the Hub."""
    return Path(name).is_absolute() or name.startswith(".")


def _on_disk(folder: Path, where: str) -> ModelFacts:
    config = _parsed(folder / "config.json")
    if config is None:
        return ModelFacts(f"no: {folder} holds no config.json that can be read")
    weights = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
    return ModelFacts(where, config, weights, "ok: yours" if where.endswith("disk") else "unknown")


def _on_hub(model: ModelSpec) -> ModelFacts:
    source = Repository(model.source, model.revision or "main", "model")
    files = {file.path: file for file in source.files()}
    if "config.json" not in files:
        return ModelFacts("no: it has no config.json")
    with source.open(files["config.json"]) as remote:
        config = _table(remote.read(LARGEST_CONFIG))
    weights = sum(file.size for path, file in files.items() if path.endswith(".safetensors") and "/" not in path)
    pinned = "" if model.revision else ", no revision pinned"
    return ModelFacts(f"ok: on the Hub{pinned}", config, weights, _told(source.info))


def _told(info: Any) -> str:
    """The licence that a model card names, and whether one has to ask for access."""
    named = next((tag.removeprefix("license:") for tag in info.tags or () if tag.startswith("license:")), "not stated")
    return f"ok: {named}" + ("; gated, ask for access on its page" if getattr(info, "gated", False) else "")


def _unkeyed(model: ModelSpec) -> str:
    """Return the fault of a service's key or address, without a request; empty if none."""
    variable, address = model.endpoint.key_env, model.endpoint.base_url
    key = os.environ.get(variable, "") if variable else ""
    if address and not address.lower().startswith(("http://", "https://")):
        return f"no: base_url {address} must start with http:// or https://"
    if variable and not key:
        empty = ": set it, or empty key_env in its entry if the service wants none" if address else ""
        return f"no: {variable} is not set{empty}"
    if not (key.isascii() and key.isprintable()):
        return f"no: {variable} holds a line break or a character that no key has"
    return ""


def _endpoint(model: ModelSpec) -> str:
    """Return True if the service answers; OpenAI's own is not asked, only its key is looked for."""
    variable, address = model.endpoint.key_env, model.endpoint.base_url
    if wrong := _unkeyed(model):
        return wrong
    if not address:
        return f"ok: {variable} is set (the service is not asked)"
    key = os.environ.get(variable, "") if variable else ""
    request = urllib.request.Request(
        f"{address.rstrip('/')}/models", headers={"Authorization": f"Bearer {key or 'none'}"}
    )
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            served = [entry.get("id") for entry in parse_json(answer.read(LARGEST_CONFIG)).get("data", ())]
    except urllib.error.HTTPError as problem:
        return f"no: {address} says {problem.code}"
    except (OSError, ValueError, AttributeError, TypeError, HTTPException) as problem:
        return f"no: {address} does not answer ({getattr(problem, 'reason', problem)})"
    return (
        "ok: it answers"
        if model.source in served
        else f"no: it serves {', '.join(map(str, served[:3]))}, not {model.source}"
    )


# -- the configuration -------------------------------------------------------------------------------------------------
def _class(config: Mapping[str, Any]) -> str:
    """The class that the configuration names first; empty where it names none."""
    names = config.get("architectures")
    return names[0] if isinstance(names, list) and names and isinstance(names[0], str) else ""


def _architecture(model: ModelSpec, config: Mapping[str, Any]) -> str:
    if not (name := _class(config)):
        return "unknown"
    known, how = architectures(model.backend)
    if name in known:
        return f"ok: {name}"
    if config.get("auto_map") and model.trust_remote_code and model.backend == "transformers":
        return f"ok: {name}, its own code"
    return f"no: {model.backend} does not run {name} ({how})"


def _images(model: ModelSpec, config: Mapping[str, Any]) -> str:
    if model.max_images == 1:
        return "ok: one picture; no history, no examples"
    length = context_length(model, config)
    return f"ok: {model.max_images or 'any number'}" + (f" in {length:,} tokens" if length else "")


def _fit(model: ModelSpec, facts: ModelFacts, gpu: str, memory: int) -> str:
    if not model.gpus:
        return "ok: no GPU"
    config, room = facts.config or {}, USABLE * memory * model.gpus
    text = _text(config)
    guess = (model.parameters or 0) * 2
    weights = _scaled(facts.weights, model, config, text) / 1e9
    per_token = _cache(text)
    if not weights or not per_token:
        about = f"; about {guess:.0f} GB of weights for {room:.0f} GB" if guess else ""
        return f"no: {about[2:]}" if guess > room else f"unknown{about}"
    heads = text.get("num_attention_heads")
    if isinstance(heads, int) and heads % max(1, model.gpus):
        return f"no: {heads} attention heads do not divide by {model.gpus:g} GPUs"
    held = per_token * min(context_length(model, config) or LONGEST, LONGEST) / 1e9
    need = weights + held + OVERHEAD
    verdict = "ok" if need <= room else "no"
    return f"{verdict}: {weights:.1f} GB weights + {held:.1f} GB cache, {room:.0f} GB usable on {model.gpus:g} x {gpu}"


def _licence(model: ModelSpec, facts: ModelFacts) -> str:
    if (facts.config or {}).get("auto_map") and not model.trust_remote_code:
        return f"{facts.licence}; brings remote code (trust_remote_code is false)"
    return facts.licence + ("; runs its remote code" if model.trust_remote_code else "")


def _text(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The language model's part of a configuration."""
    for name in ("text_config", "llm_config", "language_config"):
        if isinstance(config.get(name), dict):
            return {**config, **config[name]}
    return config


def _cache(text: Mapping[str, Any]) -> int:
    """Bytes of cache a token needs, keys and values in 16 bits; 0 where the configuration does not say."""
    layers, heads, width = (_number(text, key) for key in ("num_hidden_layers", "num_attention_heads", "hidden_size"))
    if not (layers and heads and width):
        return 0
    shared = _number(text, "num_key_value_heads") or heads
    return 2 * 2 * layers * shared * (_number(text, "head_dim") or width // heads)


def config_on_disk(model: ModelSpec) -> Mapping[str, Any] | None:
    """The model's ``config.json`` where its files are on this disk; nothing is fetched."""
    folder = Path(model.source)
    copy = folder if folder.is_dir() else cached_folder(model.source, model.revision)
    return _parsed(copy / "config.json") if copy else None


def context_length(model: ModelSpec, config: Mapping[str, Any]) -> int:
    """Tokens that prompt and reply may have: by the entry's ``max_model_len``, else by its configuration; 0 unknown."""
    asked = model.options.get("max_model_len")
    return asked if isinstance(asked, int) else _number(_text(config), "max_position_embeddings")


def _scaled(weights: int, model: ModelSpec, config: Mapping[str, Any], text: Mapping[str, Any]) -> float:
    """Bytes in memory: the file's, in the number format that the engine will use."""
    stored = str(config.get("dtype") or config.get("torch_dtype") or text.get("torch_dtype") or "bfloat16")
    used = stored if model.dtype == "auto" else model.dtype
    return weights * BYTES.get(used, 2) / BYTES.get(stored, 2)


def _number(table: Mapping[str, Any], key: str) -> int:
    value = table.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _parsed(path: Path) -> dict[str, Any] | None:
    try:
        return _table(path.read_bytes()[:LARGEST_CONFIG])
    except OSError:
        return None


def _table(content: bytes) -> dict[str, Any] | None:
    try:
        table = parse_json(content)
    except ValueError:
        return None
    return table if isinstance(table, dict) else None
