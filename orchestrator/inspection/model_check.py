"""``models check``: problems of models that are visible without a GPU or an engine: source, class, memory, license.

A cell starts with ``ok``, ``no`` or ``unknown``; facts that cannot be read (offline, a gated model) are unknown.
"""

from __future__ import annotations

import os
import urllib.error
import urllib.request
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from http.client import HTTPException
from pathlib import Path
from typing import Any

from actors.embedded import EMBEDDED, resolve_embedded
from actors.engine.baselines import POLICIES
from envs.json_text import parse_json
from orchestrator.datasets.hub import Repository, cached_folder
from orchestrator.datasets.remote_files import FetchError
from orchestrator.inspection import packages
from orchestrator.inspection.architectures import architectures
from orchestrator.inspection.model_config import (
    MAX_CONFIG_BYTES,
    Config,
    attention_heads,
    bytes_in_memory,
    cache_bytes_per_token,
    class_name,
    context_length,
    parse_config,
    read_config,
)  # fmt: skip
from sweeps.spec import ModelSpec

GPUS = {
    "b200": 180, "mi300x": 192, "h200": 141, "h100": 80, "a100": 80, "a100-40": 40, "l40s": 48, "a6000": 48, "v100": 32,
    "rtx5090": 32, "rtx4090": 24, "a10": 24, "l4": 24, "t4": 16,
}  # fmt: skip
"""Nominal memory in GB."""
USABLE = 0.9
"""Share of it that an engine takes by default."""
OVERHEAD = 3.0
"""GB for activations and pictures, a rule of thumb."""
MAX_PROMPT_TOKENS = 32_768
"""Prompt length that the cache must hold, if the model allows more."""


@dataclass(frozen=True)
class Check:
    """One row of the table."""

    model: str
    source: str
    architecture: str
    images: str
    fit: str
    license: str
    packages: str = "-"
    """Missing packages; ``-`` if not checked."""
    required_packages: tuple[str, ...] = ()
    """Packages of its processor and adapter."""

    @property
    def cells(self) -> tuple[str, ...]:
        """The texts of the row, in the order of the columns."""
        return self.model, self.source, self.architecture, self.images, self.fit, self.packages, self.license

    @property
    def ok(self) -> bool:
        """Return True if no cell reports a problem."""
        return not any(cell.startswith("no:") for cell in self.cells[1:])


@dataclass(frozen=True)
class ModelFacts:
    """The facts about a model that are known without loading it."""

    source: str
    """Cell of the table."""
    config: Config | None = None
    weights: int = 0
    """Bytes on disk; 0 if unknown."""
    license: str = "unknown"


def check(models: Sequence[ModelSpec], gpu: str = "h200", imports: bool = False) -> list[Check]:
    """Return one row per model; ``gpu`` is one of ``GPUS``.

    ``imports`` also imports the packages that the models need, which takes seconds.
    """
    with ThreadPoolExecutor(8) as pool:
        rows = list(pool.map(lambda model: _row(model, gpu), models))
    if not imports:
        return rows
    import_errors = packages.import_errors(sorted({name for row in rows for name in row.required_packages}))
    return [
        replace(row, packages=packages.package_cell(model, row.required_packages, import_errors))
        for model, row in zip(models, rows, strict=True)
    ]


def _row(model: ModelSpec, gpu: str) -> Check:
    if model.backend == "openai":
        images = _images(model, {})
        return Check(model.name, _service(model), "ok: the service's", images, "ok: no GPU", "the provider's terms")
    if model.backend == "builtin":
        return Check(model.name, _policy(model), "ok: no model", "ok", "ok: no GPU", "ok: MIT")
    facts = _facts(resolve_embedded(model))
    config = facts.config or {}
    return Check(
        model.name, _adapter_fault(model) or facts.source, _architecture(model, config), _images(model, config),
        _fit(model, facts, gpu), _license(model, facts),
        required_packages=packages.required(model, class_name(config) or model.architecture),
    )  # fmt: skip


def _policy(model: ModelSpec) -> str:
    """Return the source cell of a built-in policy."""
    name = model.source.removeprefix("builtin:")
    if name in POLICIES:
        return "ok: ships with the tree"
    if model.source == EMBEDDED:
        return 'no: the embedded model is not a policy; its backend is "transformers"'
    return f"no: unknown policy {name!r}; choose from {', '.join(POLICIES)}"


def local_fault(model: ModelSpec) -> str:
    """Return the fault of a model's key, policy, folder or adapter, without a request; empty if none."""
    if model.backend == "openai":
        cell = _key_fault(model)
    elif model.backend == "builtin":
        cell = _policy(model)
    else:
        local = resolve_embedded(model)
        cell = _adapter_fault(local) or (_facts(local).source if _is_folder(local.source) else "")
    return cell.removeprefix("no: ") if cell.startswith("no: ") else ""


# -- the source --------------------------------------------------------------------------------------------------------
def _facts(model: ModelSpec) -> ModelFacts:
    folder = Path(model.source)
    if folder.is_dir():
        return _on_disk(folder, "ok: on disk")
    if _is_folder(model.source):
        return ModelFacts(f"no: folder {model.source} does not exist")
    if copy := cached_folder(model.source, model.revision):
        return _on_disk(copy, "ok: in the Hub's cache")
    try:
        return _on_hub(model)
    except FetchError as problem:
        text = str(problem)
        missing = any(word in text.lower() for word in ("404", "not found", "invalid username"))
        return ModelFacts(f"{'no' if missing else 'unknown'}: {text[:120]}")


def _adapter_fault(model: ModelSpec) -> str:
    """Return the fault of a LoRA adapter in a local folder; empty if none."""
    exists = (Path(model.lora) / "adapter_config.json").is_file()
    return f"no: adapter {model.lora} does not exist" if _is_folder(model.lora) and not exists else ""


def _is_folder(name: str) -> bool:
    """Return True if this is a path, not a name of the Hub."""
    return Path(name).is_absolute() or name.startswith(".")


def _on_disk(folder: Path, source: str) -> ModelFacts:
    config = read_config(folder)
    if config is None:
        return ModelFacts(f"no: {folder} has no readable config.json")
    weights = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
    return ModelFacts(source, config, weights, "ok: yours" if source.endswith("disk") else "unknown")


def _on_hub(model: ModelSpec) -> ModelFacts:
    repository = Repository(model.source, model.revision or "main", "model")
    files = {file.path: file for file in repository.files()}
    if "config.json" not in files:
        return ModelFacts("no: it has no config.json")
    with repository.open(files["config.json"]) as remote:
        config = parse_config(remote.read(MAX_CONFIG_BYTES))
    weights = sum(file.size for path, file in files.items() if path.endswith(".safetensors") and "/" not in path)
    pinned = "" if model.revision else ", no revision pinned"
    return ModelFacts(f"ok: on the Hub{pinned}", config, weights, _hub_license(repository.info))


def _hub_license(info: Any) -> str:
    """Return the license cell from a model card, with a note on gated access."""
    name = next((tag.removeprefix("license:") for tag in info.tags or () if tag.startswith("license:")), "not stated")
    return f"ok: {name}" + ("; gated: request access on its page" if getattr(info, "gated", False) else "")


def _key_fault(model: ModelSpec) -> str:
    """Return the fault of a service's key or address, without a request; empty if none."""
    variable, address = model.endpoint.key_env, model.endpoint.base_url
    key = os.environ.get(variable, "") if variable else ""
    if address and not address.lower().startswith(("http://", "https://")):
        return f"no: base_url {address} must start with http:// or https://"
    if variable and not key:
        empty = ": set it, or empty key_env in its entry if the service needs no key" if address else ""
        return f"no: {variable} is not set{empty}"
    if not (key.isascii() and key.isprintable()):
        return f"no: {variable} has a line break or a character that no key has"
    return ""


def _service(model: ModelSpec) -> str:
    """Return the source cell of a service: its list of models is requested, except from OpenAI."""
    variable, address = model.endpoint.key_env, model.endpoint.base_url
    if fault := _key_fault(model):
        return fault
    if not address:
        return f"ok: {variable} is set (no request was sent)"
    key = os.environ.get(variable, "") if variable else ""
    request = urllib.request.Request(
        f"{address.rstrip('/')}/models", headers={"Authorization": f"Bearer {key or 'none'}"}
    )
    try:
        with urllib.request.urlopen(request, timeout=5) as response:
            served = [entry.get("id") for entry in parse_json(response.read(MAX_CONFIG_BYTES)).get("data", ())]
    except urllib.error.HTTPError as problem:
        return f"no: {address} answers {problem.code}"
    except (OSError, ValueError, AttributeError, TypeError, HTTPException) as problem:
        return f"no: {address} does not answer ({getattr(problem, 'reason', problem)})"
    if model.source in served:
        return "ok: it answers"
    return f"no: it serves {', '.join(map(str, served[:3]))}, not {model.source}"


# -- the configuration -------------------------------------------------------------------------------------------------
def _architecture(model: ModelSpec, config: Config) -> str:
    if not (name := class_name(config)):
        return "unknown"
    supported, source = architectures(model.backend)
    if name in supported:
        return f"ok: {name}"
    if config.get("auto_map") and model.trust_remote_code and model.backend == "transformers":
        return f"ok: {name}, its own code"
    return f"no: {model.backend} does not run {name} ({source})"


def _images(model: ModelSpec, config: Config) -> str:
    if model.max_images == 1:
        return "ok: one picture; no history, no examples"
    length = context_length(model, config)
    return f"ok: {model.max_images or 'any number'}" + (f" in {length:,} tokens" if length else "")


def _fit(model: ModelSpec, facts: ModelFacts, gpu: str) -> str:
    if not model.gpus:
        return "ok: no GPU"
    config, usable = facts.config or {}, USABLE * GPUS[gpu] * model.gpus
    weights = bytes_in_memory(facts.weights, model, config) / 1e9
    per_token = cache_bytes_per_token(config)
    if not weights or not per_token:
        estimate = (model.parameters or 0) * 2
        about = f"about {estimate:.0f} GB of weights for {usable:.0f} GB"
        return f"no: {about}" if estimate > usable else f"unknown; {about}" if estimate else "unknown"
    heads = attention_heads(config)
    if heads % max(1, model.gpus):
        return f"no: {heads} attention heads do not divide by {model.gpus:g} GPUs"
    cache = per_token * min(context_length(model, config) or MAX_PROMPT_TOKENS, MAX_PROMPT_TOKENS) / 1e9
    verdict = "ok" if weights + cache + OVERHEAD <= usable else "no"
    return (
        f"{verdict}: {weights:.1f} GB weights + {cache:.1f} GB cache, {usable:.0f} GB usable on {model.gpus:g} x {gpu}"
    )


def _license(model: ModelSpec, facts: ModelFacts) -> str:
    if (facts.config or {}).get("auto_map") and not model.trust_remote_code:
        return f"{facts.license}; brings remote code (trust_remote_code is false)"
    return facts.license + ("; runs its remote code" if model.trust_remote_code else "")
