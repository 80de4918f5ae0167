"""``models check``: problems of models that are visible without a GPU or an engine: source, class, memory, license.

A cell starts with ``ok``, ``no`` or ``unknown``; facts that cannot be read (offline, a gated model) are unknown.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from actors.engine.backend import Message
from actors.engine.baselines import POLICIES
from actors.engine.decoding import unfollowed_fields
from envs.types import ImageRef
from orchestrator.datasets.checkpoint_listing import read_model
from orchestrator.datasets.remote_files import FetchError
from orchestrator.inspection import engines
from orchestrator.inspection.overflow import context_length
from orchestrator.inspection.service_check import service_cell
from sweeps import package_models
from sweeps.checkpoint import Checkpoint, checkpoint_folder, read_checkpoint
from sweeps.package_models import find_package_model, resolve_source
from sweeps.sampling import Sampling
from sweeps.spec import ModelSpec, Sweep

GPUS = {
    "b200": 180, "mi300x": 192, "h200": 141, "h100": 80, "a100": 80, "a100-40": 40, "l40s": 48, "a6000": 48, "v100": 32,
    "rtx5090": 32, "rtx4090": 24, "a10": 24, "l4": 24, "t4": 16,
}  # fmt: skip
"""Nominal memory in GB."""
USABLE = 0.9
"""Share of a GPU's memory that an engine uses by default."""
OVERHEAD = 5.0
"""GB for the cache of a long prompt, activations and pictures: a rule of thumb."""
CELLS = ("source", "architecture", "images", "template", "decoding", "fit", "packages", "license")


class Check(NamedTuple):
    """One row of the table."""

    model: str
    cells: dict[str, str]
    """Each of ``CELLS`` that was looked at -> its outcome."""

    @property
    def ok(self) -> bool:
        return not self.fault

    @property
    def fault(self) -> str:
        """Return the first problem; empty if there is none."""
        return next((cell.removeprefix("no: ") for cell in self.cells.values() if cell.startswith("no:")), "")

    @property
    def summary(self) -> tuple[str, ...]:
        facts = (self.cells[name].removeprefix("ok: ") for name in ("images", "fit", "license"))
        return self.model, "yes" if self.ok else "no", *facts

    @property
    def lines(self) -> list[str]:
        """Return a line for each problem, and for each fact that is unknown for a reason."""
        cells = self.cells.items()
        return [f"{self.model}: {name} {cell}" for name, cell in cells if cell.startswith(("no:", "unknown:"))]


class ModelFacts(NamedTuple):
    """The facts about a model that are known without loading it."""

    source: str
    """The table's cell ``source``."""
    checkpoint: Checkpoint = Checkpoint({})
    weights: int = 0
    """Bytes on disk; 0 if unknown."""
    license: str = "unknown"


def check(
    models: Sequence[ModelSpec], gpu: str = "h200", packages: bool = False, sweep: Sweep | None = None
) -> list[Check]:
    """Return one row per model; ``gpu`` is one of ``GPUS``, ``sweep`` states how their replies are decoded.

    Models that are not on this disk are looked up on the Hub; ``packages`` also looks for the packages that they need.
    """

    def row(model: ModelSpec) -> Check:
        cells = _cells(model, sweep.samplings(model.name) if sweep else (), gpu, packages)
        cells |= {} if packages else {"packages": "-"}
        return Check(model.name, {name: cells.get(name, "-") for name in CELLS})

    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(row, models))


def local_fault(model: ModelSpec, samplings: Sequence[Sampling] = ()) -> str:
    """Return why a model cannot play from this machine: its packages, service, policy, files or decoding; empty if it can."""
    cells = _cells(model, samplings)
    return Check("", cells).fault or engines.install_sentence(model, engines.missing_package(model, None))


def _cells(model: ModelSpec, samplings: Sequence[Sampling], gpu: str = "", renders: bool = False) -> dict[str, str]:
    """Return the cells of a model; without a GPU type, only those that this disk and a service tell.

    ``renders`` tries the chat template, for which transformers is imported.
    """
    if not model.is_local:
        is_service = model.backend == "openai"
        terms = "the provider's terms" if is_service else "ok: MIT"
        cells = {"source": service_cell(model) if is_service else _policy(model), "license": terms}
        images = _images(model, Checkpoint({}))
        return {**cells, "architecture": "ok: no checkpoint", "images": images, "fit": "ok: no GPU"}
    if fault := _unfetched(model) or _adapter_fault(model):
        facts = ModelFacts(fault)
    else:
        model = resolve_source(model)
        facts = _facts(model, hub=bool(gpu))
    checkpoint = facts.checkpoint
    return {
        "source": facts.source,
        "architecture": _architecture(model, checkpoint),
        "images": _images(model, checkpoint),
        "template": _template(model, checkpoint, renders),
        "decoding": _decoding(checkpoint, samplings),
        "fit": _fit(model, facts.weights, gpu) if gpu else "unknown",
        "packages": _packages(model, checkpoint),
        "license": _license(model, facts),
    }


# -- the source --------------------------------------------------------------------------------------------------------
def _policy(model: ModelSpec) -> str:
    """Return the source cell of a built-in policy."""
    name = model.source.removeprefix("builtin:")
    return (
        "ok: ships with the tree"
        if name in POLICIES
        else f"no: unknown policy {name!r}; choose from {', '.join(POLICIES)}"
    )


def _unfetched(model: ModelSpec) -> str:
    """Return the source cell of a built-in model whose weights are not on this machine; empty for every other model."""
    if missing := package_models.missing_package(model):
        return f"no: {missing}"
    offer = find_package_model(model)
    if offer is None or offer.folder().is_dir():
        return ""
    size = f"{offer.download}, {offer.license}"
    return f"no: not on this machine ({size}); type `proactive-sweep models fetch {model.name}`"


def _adapter_fault(model: ModelSpec) -> str:
    """Return the fault of a LoRA adapter in a local folder; empty if none."""
    exists = (Path(model.lora) / "adapter_config.json").is_file()
    return f"no: adapter {model.lora} does not exist" if _is_folder(model.lora) and not exists else ""


def _is_folder(name: str) -> bool:
    """Return True if this is a path, not a name on the Hub."""
    return Path(name).is_absolute() or name.startswith(".")


def _facts(model: ModelSpec, hub: bool = True) -> ModelFacts:
    folder = checkpoint_folder(model)
    if folder is None and _is_folder(model.source):
        return ModelFacts(f"no: folder {model.source} does not exist")
    if folder is not None:
        return _on_disk(model, folder)
    try:
        return _on_hub(model) if hub else ModelFacts("unknown")
    except FetchError as problem:
        text = str(problem)
        missing = any(word in text.lower() for word in ("404", "not found", "invalid username"))
        return ModelFacts(f"{'no' if missing else 'unknown'}: {text[:120]}")


def _on_disk(model: ModelSpec, folder: Path) -> ModelFacts:
    checkpoint, is_own = read_checkpoint(model), folder == Path(model.source)
    if checkpoint is None:
        return ModelFacts(f"no: {folder} has no readable config.json")
    if damaged := checkpoint.damaged_files:
        return ModelFacts(f"no: {folder}/{damaged[0]} is no readable JSON object", checkpoint)
    if is_own and checkpoint.lacks_tokenizer:  # a file missing from the Hub's cache would be downloaded
        return ModelFacts(f"no: {folder} has no tokenizer.json or other vocabulary", checkpoint)
    weights = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
    source, terms = ("ok: on disk", "ok: yours") if is_own else ("ok: in the Hub's cache", "unknown")
    return ModelFacts(source, checkpoint, weights, terms)


def _on_hub(model: ModelSpec) -> ModelFacts:
    repository = read_model(model.source, model.revision)
    if "config.json" not in repository.sizes:
        return ModelFacts("no: it has no config.json")
    sizes, tags = repository.sizes.items(), repository.info.tags or ()
    weights = sum(size for path, size in sizes if path.endswith(".safetensors") and "/" not in path)
    pinned = "" if model.revision else ", no revision pinned"
    terms = next((tag.removeprefix("license:") for tag in tags if tag.startswith("license:")), "not stated")
    gate = "; gated: request access on its page" if getattr(repository.info, "gated", False) else ""
    return ModelFacts(f"ok: on the Hub{pinned}", Checkpoint(repository.config), weights, f"ok: {terms}{gate}")


# -- the configuration -------------------------------------------------------------------------------------------------
def _architecture(model: ModelSpec, checkpoint: Checkpoint) -> str:
    if not (name := checkpoint.architecture):
        return "unknown"
    if model.requirements:
        return f"unknown: {name}; `models try` loads it with its own packages"
    cell = engines.engine_cell(model.backend, name)
    if not cell.startswith("ok") and "auto_map" in checkpoint.config and model.trust_remote_code:
        return f"ok: {name}, its own code"
    return cell


def _packages(model: ModelSpec, checkpoint: Checkpoint) -> str:
    if model.requirements:
        return f"unknown: own packages ({', '.join(model.requirements)}), which `models try` installs"
    name = engines.missing_package(model, checkpoint)
    verdict = "unknown" if name in engines.ENGINES.get(model.backend, ()) else "no"
    return f"{verdict}: {engines.install_sentence(model, name)}" if name else "ok"


def _images(model: ModelSpec, checkpoint: Checkpoint) -> str:
    length, limits = context_length(model, checkpoint), (*model.limits, *checkpoint.limits(model))
    room = f" in {length:,} tokens" if length else ""
    if "no pictures" in limits:
        return f"ok: none, it reads text only{room}"
    if model.max_images == 1 or "no chat template" in limits:
        return "ok: one picture; no history, no examples"
    return f"ok: {model.max_images or 'any number'}{room}"


def _template(model: ModelSpec, checkpoint: Checkpoint, renders: bool) -> str:
    """Return the cell of the chat template: whether there is one, and whether it takes functions."""
    if (template := checkpoint.template) is None:
        return "unknown"
    if not template:
        return "ok: none, one question with one picture"
    if renders and _drops_pictures(model, checkpoint):
        return "no: the prompt has no token for its pictures: the chat template drops them"
    functions = "with functions" if "tools" in template else "no functions"
    return f"{'no' if 'no functions' in checkpoint.limits(model) else 'ok'}: {functions}"


def _drops_pictures(model: ModelSpec, checkpoint: Checkpoint) -> bool:
    """Return True if the chat template renders a question alike with and without its picture, on transformers."""
    if model.backend != "transformers" or checkpoint.reads_text_only:
        return False
    try:
        from actors.engine.hf.template import template_text

        shown, bare = (template_text(model, [Message("user", "?", images)]) for images in ((ImageRef("a"),), ()))
    except Exception:  # transformers is missing, or the template raises without a picture
        return False
    return shown is not None and shown == bare


def _decoding(checkpoint: Checkpoint, samplings: Sequence[Sampling]) -> str:
    """Return how a checkpoint decodes by itself: ``no`` if a sweep decodes by fields that no engine follows."""
    if checkpoint.folder is None:
        return "unknown"
    samples = bool(checkpoint.generation.get("do_sample"))
    for sampling in (sampling for sampling in samplings if sampling.checkpoint):
        try:
            fault = ", ".join(unfollowed_fields(checkpoint.generation, bool(sampling.sampled or samples)))
        except (TypeError, ValueError):  # a value of the wrong type, which the engine rejects too
            fault = "the values"
        if fault:
            remedy = "state the sampling in the sweep"
            return f'no: sampling = "checkpoint" cannot follow {fault} of generation_config.json; {remedy}'
    return "ok: sampled" if samples else "ok: greedy"


def _fit(model: ModelSpec, weights: int, gpu: str) -> str:
    if not model.gpus:
        return "ok: no GPU"
    usable, size = USABLE * GPUS[gpu] * model.gpus, weights / 1e9 or 2 * (model.parameters or 0)
    if not size:
        return "unknown"
    verdict = "ok" if size + OVERHEAD <= usable else "no"
    return f"{verdict}: about {size:.1f} GB of weights, {usable:.0f} GB usable on {model.gpus:g} x {gpu}"


def _license(model: ModelSpec, facts: ModelFacts) -> str:
    if offer := find_package_model(model):
        return f"ok: {offer.license}"
    if "auto_map" in facts.checkpoint.config and not model.trust_remote_code:
        return f"{facts.license}; brings remote code (trust_remote_code is false)"
    return facts.license + ("; runs its remote code" if model.trust_remote_code else "")
