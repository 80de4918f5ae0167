"""``models check``: problems of models that are visible without a GPU or an engine: source, class, memory, license.

A cell starts with ``ok``, ``no`` or ``unknown``; facts that cannot be read (offline, a gated model) are unknown.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from actors.engine.baselines import POLICIES
from orchestrator.datasets.checkpoint_listing import read_model
from orchestrator.datasets.remote_files import FetchError
from orchestrator.inspection import packages
from orchestrator.inspection.architectures import engine_cell, engine_has_template
from orchestrator.inspection.decoding_contract import decoding_cell
from orchestrator.inspection.model_config import bytes_in_memory, cache_bytes_per_token, context_length
from orchestrator.inspection.service_check import service_cell
from sweeps.checkpoint import Checkpoint, checkpoint_folder, positive, read_checkpoint
from sweeps.package_models import find_package_model, missing_package, resolve_source
from sweeps.sampling import Sampling
from sweeps.spec import ModelSpec, Sweep

GPUS = {
    "b200": 180, "mi300x": 192, "h200": 141, "h100": 80, "a100": 80, "a100-40": 40, "l40s": 48, "a6000": 48, "v100": 32,
    "rtx5090": 32, "rtx4090": 24, "a10": 24, "l4": 24, "t4": 16,
}  # fmt: skip
"""Nominal memory in GB."""
USABLE = 0.9
"""Share of a GPU's memory that an engine uses by default."""
OVERHEAD = 3.0
"""GB for activations and pictures, a rule of thumb."""
MAX_PROMPT_TOKENS = 32_768
"""Prompt length that the cache must hold if the model's context is longer."""


@dataclass(frozen=True)
class Check:
    """One row of the table."""

    model: str
    source: str
    architecture: str
    images: str
    fit: str
    license: str
    template: str = "-"
    """Functions and start token of its chat template; ``-`` for a service or a policy."""
    decoding: str = "-"
    """How its ``generation_config.json`` decodes; ``-`` for a service or a policy."""
    packages: str = "-"
    """Missing packages; ``-`` if not checked."""
    required_packages: tuple[str, ...] = ()
    """Packages that its processor and adapter need."""

    @property
    def cells(self) -> dict[str, str]:
        """Return what was checked -> its outcome."""
        return {
            "source": self.source, "architecture": self.architecture, "pictures": self.images, "template": self.template,
            "decoding": self.decoding, "memory": self.fit, "packages": self.packages, "license": self.license,
        }  # fmt: skip

    @property
    def summary(self) -> tuple[str, ...]:
        """Return the row of the table."""
        facts = (cell.removeprefix("ok: ") for cell in (self.images, self.fit, self.license))
        return self.model, "yes" if self.ok else "no", *facts

    @property
    def faults(self) -> list[str]:
        """Return a line for each problem, and for each fact that is unknown for a reason."""
        return [
            f"{self.model}: {name} {cell}" for name, cell in self.cells.items() if cell.startswith(("no:", "unknown:"))
        ]

    @property
    def ok(self) -> bool:
        """Return True if no cell reports a problem."""
        return not any(cell.startswith("no:") for cell in self.cells.values())


@dataclass(frozen=True)
class ModelFacts:
    """The facts about a model that are known without loading it."""

    source: str
    """The table's cell ``source``."""
    checkpoint: Checkpoint | None = None
    weights: int = 0
    """Bytes on disk; 0 if unknown."""
    license: str = "unknown"


def check(
    models: Sequence[ModelSpec], gpu: str = "h200", imports: bool = False, sweep: Sweep | None = None
) -> list[Check]:
    """Return one row per model; ``gpu`` is one of ``GPUS``, ``sweep`` states how their replies are decoded.

    ``imports`` also imports the packages that the models need, which takes seconds.
    """
    with ThreadPoolExecutor(8) as pool:
        rows = list(pool.map(lambda model: _row(model, gpu, sweep.samplings(model.name) if sweep else ()), models))
    if not imports:
        return rows
    import_errors = packages.import_errors(sorted({name for row in rows for name in row.required_packages}))
    return [
        replace(row, packages=packages.package_cell(model, row.required_packages, import_errors))
        for model, row in zip(models, rows, strict=True)
    ]


def _row(model: ModelSpec, gpu: str, samplings: Sequence[Sampling]) -> Check:
    if model.backend == "openai":
        images = _images(model, Checkpoint({}))
        return Check(model.name, service_cell(model), "ok: the service's", images, "ok: no GPU", "the provider's terms")
    if model.backend == "builtin":
        return Check(model.name, _policy(model), "ok: no model", "ok", "ok: no GPU", "ok: MIT")
    facts = ModelFacts(fault) if (fault := _unfetched(model)) else _facts(resolve_source(model))
    checkpoint = facts.checkpoint or Checkpoint({})
    return Check(
        model.name, _adapter_fault(model) or facts.source, _architecture(model, checkpoint), _images(model, checkpoint),
        _fit(model, facts, gpu), _license(model, facts), template=_template(model, checkpoint),
        decoding=decoding_cell(checkpoint, samplings),
        required_packages=packages.required(model, facts.checkpoint),
    )  # fmt: skip


def _policy(model: ModelSpec) -> str:
    """Return the source cell of a built-in policy."""
    name = model.source.removeprefix("builtin:")
    if name in POLICIES:
        return "ok: ships with the tree"
    if find_package_model(model.model_copy(update={"backend": "transformers"})):
        return f'no: {name} is not a policy; its backend is "transformers"'
    return f"no: unknown policy {name!r}; choose from {', '.join(POLICIES)}"


def local_fault(model: ModelSpec, samplings: Sequence[Sampling] = ()) -> str:
    """Return why a model cannot play from this machine: its packages, service, policy, files or decoding; empty if it can."""
    if model.backend == "openai":
        cell = service_cell(model)
    elif model.backend == "builtin":
        cell = _policy(model)
    else:
        cell = _unfetched(model) or _checkpoint_fault(resolve_source(model), samplings)
    return cell.removeprefix("no: ") if cell.startswith("no: ") else packages.missing_engine(model)


def _unfetched(model: ModelSpec) -> str:
    """Return the source cell of a built-in model whose weights are not on this machine; empty for every other model."""
    if missing := missing_package(model):
        return f"no: {missing}"
    offer = find_package_model(model)
    if offer is None or offer.folder().is_dir():
        return ""
    size = f"{offer.download}, {offer.license}"
    return f"no: not on this machine ({size}); type `proactive-sweep models fetch {model.name}`"


def _checkpoint_fault(model: ModelSpec, samplings: Sequence[Sampling]) -> str:
    """Return the first cell that reports a problem of a model's files on this disk; empty if none."""
    checkpoint = read_checkpoint(model)
    if checkpoint is None:
        return _adapter_fault(model) or (_facts(model).source if _is_folder(model.source) else "")
    missing_package = packages.missing(model, checkpoint)
    cells = (
        _adapter_fault(model),
        _file_fault(model, checkpoint),
        _architecture(model, checkpoint),
        _template_fault(model, checkpoint),
        decoding_cell(checkpoint, samplings),
        f"no: {missing_package}" * bool(missing_package),
    )
    return next((cell for cell in cells if cell.startswith("no: ")), "")


# -- the source --------------------------------------------------------------------------------------------------------
def _facts(model: ModelSpec) -> ModelFacts:
    folder = checkpoint_folder(model)
    if folder is None and _is_folder(model.source):
        return ModelFacts(f"no: folder {model.source} does not exist")
    if folder is not None:
        return _on_disk(model, folder)
    try:
        return _on_hub(model)
    except FetchError as problem:
        text = str(problem)
        missing = any(word in text.lower() for word in ("404", "not found", "invalid username"))
        return ModelFacts(f"{'no' if missing else 'unknown'}: {text[:120]}")


def _file_fault(model: ModelSpec, checkpoint: Checkpoint) -> str:
    """Return the cell of an unreadable settings file or of a folder without tokenizer; empty if neither."""
    if damaged := checkpoint.damaged_files:
        return f"no: {checkpoint.folder}/{damaged[0]} is no readable JSON object"
    is_own = checkpoint.folder == Path(model.source)  # a file missing from the Hub's cache would be downloaded
    lacks_tokenizer = is_own and checkpoint.lacks_tokenizer
    return f"no: {checkpoint.folder} has no tokenizer.json or other vocabulary" if lacks_tokenizer else ""


def _adapter_fault(model: ModelSpec) -> str:
    """Return the fault of a LoRA adapter in a local folder; empty if none."""
    exists = (Path(model.lora) / "adapter_config.json").is_file()
    return f"no: adapter {model.lora} does not exist" if _is_folder(model.lora) and not exists else ""


def _is_folder(name: str) -> bool:
    """Return True if this is a path, not a name on the Hub."""
    return Path(name).is_absolute() or name.startswith(".")


def _on_disk(model: ModelSpec, folder: Path) -> ModelFacts:
    checkpoint, own = read_checkpoint(model), folder == Path(model.source)
    if checkpoint is None:
        return ModelFacts(f"no: {folder} has no readable config.json")
    if fault := _file_fault(model, checkpoint):
        return ModelFacts(fault, checkpoint)
    weights = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
    source, license_cell = ("ok: on disk", "ok: yours") if own else ("ok: in the Hub's cache", "unknown")
    return ModelFacts(source, checkpoint, weights, license_cell)


def _on_hub(model: ModelSpec) -> ModelFacts:
    repository = read_model(model.source, model.revision)
    if "config.json" not in repository.sizes:
        return ModelFacts("no: it has no config.json")
    sizes = repository.sizes.items()
    weights = sum(size for path, size in sizes if path.endswith(".safetensors") and "/" not in path)
    pinned = "" if model.revision else ", no revision pinned"
    checkpoint = Checkpoint(repository.config or {})
    return ModelFacts(f"ok: on the Hub{pinned}", checkpoint, weights, _hub_license(repository.info))


def _hub_license(info: Any) -> str:
    """Return the license cell from a model card, with a note on gated access."""
    name = next((tag.removeprefix("license:") for tag in info.tags or () if tag.startswith("license:")), "not stated")
    return f"ok: {name}" + ("; gated: request access on its page" if getattr(info, "gated", False) else "")


# -- the configuration -------------------------------------------------------------------------------------------------
def _architecture(model: ModelSpec, checkpoint: Checkpoint) -> str:
    if not (name := checkpoint.architecture):
        return "unknown"
    if model.requirements:
        return f"unknown: {name}; `models try` loads it with its own packages"
    cell = engine_cell(model.backend, name)
    if not cell.startswith("ok") and "auto_map" in checkpoint.config and model.trust_remote_code:
        return f"ok: {name}, its own code"
    return cell


def _images(model: ModelSpec, checkpoint: Checkpoint) -> str:
    length = context_length(model, checkpoint)
    room = f" in {length:,} tokens" if length else ""
    if "no pictures" in (*model.limits, *checkpoint.limits(model)):
        return f"ok: none, it reads text only{room}"
    if model.max_images == 1 or "no chat template" in (*model.limits, *checkpoint.limits(model)):
        return "ok: one picture; no history, no examples"
    return f"ok: {model.max_images or 'any number'}{room}"


def _template(model: ModelSpec, checkpoint: Checkpoint) -> str:
    """Return the cell of the chat template: whether it takes functions, and what writes the start token."""
    if (template := checkpoint.template) is None:
        return "unknown"
    if not template:
        return _template_fault(model, checkpoint) or "ok: none, one question with one picture"
    functions = "with functions" if "tools" in template else "no functions"
    start = {"both": "start token written twice, sent once", "": "no start token"}
    by = checkpoint.start_token_by
    return f"{'no' if 'no functions' in checkpoint.limits(model) else 'ok'}: {functions}, {start.get(by, f'start token by {by}')}"


def _template_fault(model: ModelSpec, checkpoint: Checkpoint) -> str:
    """Return the fault of a checkpoint without chat template on an engine that needs one; empty if none."""
    needed = model.backend == "vllm" and checkpoint.template == "" and not engine_has_template(checkpoint)
    return 'no: it has no chat template, which vLLM needs; write backend = "transformers"' if needed else ""


def _fit(model: ModelSpec, facts: ModelFacts, gpu: str) -> str:
    if not model.gpus:
        return "ok: no GPU"
    checkpoint, usable = facts.checkpoint or Checkpoint({}), USABLE * GPUS[gpu] * model.gpus
    weights = bytes_in_memory(facts.weights, model, checkpoint) / 1e9
    per_token = cache_bytes_per_token(checkpoint)
    if not weights or not per_token:
        estimate = (model.parameters or 0) * 2
        about = f"about {estimate:.0f} GB of weights for {usable:.0f} GB"
        return f"no: {about}" if estimate > usable else f"unknown; {about}" if estimate else "unknown"
    heads = positive(checkpoint.text_config, "num_attention_heads")
    width = max(1, model.gpus / model.stages)
    if heads % width:
        return f"no: {heads} attention heads do not divide by {width:g} GPUs"
    cache = per_token * min(context_length(model, checkpoint) or MAX_PROMPT_TOKENS, MAX_PROMPT_TOKENS) / 1e9
    verdict = "ok" if weights + cache + OVERHEAD <= usable else "no"
    return (
        f"{verdict}: {weights:.1f} GB weights + {cache:.1f} GB cache, {usable:.0f} GB usable on {model.gpus:g} x {gpu}"
    )


def _license(model: ModelSpec, facts: ModelFacts) -> str:
    if offer := find_package_model(model):
        return f"ok: {offer.license}"
    if facts.checkpoint and "auto_map" in facts.checkpoint.config and not model.trust_remote_code:
        return f"{facts.license}; brings remote code (trust_remote_code is false)"
    return facts.license + ("; runs its remote code" if model.trust_remote_code else "")
