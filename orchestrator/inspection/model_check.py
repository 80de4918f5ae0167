"""``models check``: problems of models that are visible without a GPU or an engine: source, class, memory, license.

A cell starts with ``ok``, ``no`` or ``unknown``; facts that cannot be read (offline, a gated model) are unknown.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from actors.engine.baselines import POLICIES
from actors.engine.decoding import unfollowed_fields
from actors.engine.template_probe import find_template_fault
from envs.installed import offers
from orchestrator.datasets.sources import FetchError, read_hub
from orchestrator.inspection import engines
from orchestrator.inspection.overflow import context_length
from orchestrator.inspection.service_check import service_cell
from sweeps.checkpoint import Checkpoint, read_checkpoint, source_fault
from sweeps.packages import PackageModel, find_package_model, missing_package, resolve_source
from sweeps.sampling import Sampling
from sweeps.spec import ModelSpec, Sweep

GPUS: dict[str, int] = engines.FACTS["gpus"]
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
    """Cell -> its outcome; ``check`` gives all of ``CELLS``, ``-`` where nothing is to be said."""

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


def check(
    models: Sequence[ModelSpec], gpu: str = "h200", packages: bool = False, sweep: Sweep | None = None
) -> list[Check]:
    """Return one row per model; ``gpu`` is one of ``GPUS``, ``sweep`` states how their replies are decoded.

    Models that are not on this disk are looked up on the Hub; ``packages`` also looks for the packages that they need.
    """

    def row(model: ModelSpec) -> Check:
        cells = _cells(model, sweep.samplings(model.name) if sweep else (), gpu, packages)
        if not packages:
            cells["packages"] = "-"
        return Check(model.name, {name: cells.get(name, "-") for name in CELLS})

    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(row, models))


def local_fault(model: ModelSpec, samplings: Sequence[Sampling] = ()) -> str:
    """Return why a model cannot play from this machine: its packages, service, policy, files or decoding; empty if it can."""
    cells = _cells(model, samplings)
    return Check("", cells).fault or engines.install_sentence(model, engines.missing_package(model, None))


def _cells(model: ModelSpec, samplings: Sequence[Sampling], gpu: str = "", packages: bool = False) -> dict[str, str]:
    """Return the cells of a model; without a GPU type, only those that this disk and a service tell.

    ``packages`` also tries the chat template, for which transformers is imported.
    """
    if not model.is_local:
        is_service = model.backend == "openai"
        terms = "the provider's terms" if is_service else "ok: MIT"
        cells = {"source": service_cell(model) if is_service else _policy(model), "license": terms}
        images = _images(model, Checkpoint({}))
        return {**cells, "architecture": "ok: no checkpoint", "images": images, "fit": "ok: no GPU"}
    offer = find_package_model(model)
    source, checkpoint = _find_checkpoint(model, offer, hub=bool(gpu))
    terms = f"ok: {offer.license}" if offer else checkpoint.license
    if model.trust_remote_code:
        terms += "; runs its remote code"
    elif "auto_map" in checkpoint.config:
        terms += "; brings remote code (trust_remote_code is false)"
    return {
        "source": source,
        "architecture": _architecture(model, checkpoint),
        "images": _images(model, checkpoint),
        "template": _template(model, checkpoint, renders=packages),
        "decoding": _decoding(checkpoint, samplings),
        "fit": _fit(model, checkpoint.weight_bytes, gpu) if gpu else "unknown",
        "packages": _packages(model, checkpoint),
        "license": terms,
    }


# -- the source --------------------------------------------------------------------------------------------------------
def _policy(model: ModelSpec) -> str:
    """Return the source cell of a built-in policy, or of a person."""
    if model.backend == "human":
        return "no: a person plays with `proactive-sweep play`"
    name = model.source.removeprefix("builtin:")
    is_policy = name in POLICIES or name in offers("policy")
    return "ok: ships with the tree" if is_policy else f"no: unknown policy {name!r}; choose from {', '.join(POLICIES)}"


def _find_checkpoint(model: ModelSpec, offer: PackageModel | None, hub: bool) -> tuple[str, Checkpoint]:
    """Return the source cell of a model with weights, and what is known of its checkpoint."""
    unknown, is_path = Checkpoint({}), Path(model.lora).is_absolute() or model.lora.startswith(".")
    if missing := missing_package(model):
        return f"no: {missing}", unknown
    if offer and not offer.folder().is_dir():
        size = f"{offer.download}, {offer.license}"
        return f"no: not on this machine ({size}); type `proactive-sweep models fetch {model.name}`", unknown
    if is_path and not (Path(model.lora) / "adapter_config.json").is_file():
        return f"no: adapter {model.lora} does not exist", unknown
    model = resolve_source(model)
    if fault := source_fault(model):
        return f"no: {fault}", unknown
    if checkpoint := read_checkpoint(model):
        is_own = checkpoint.folder == Path(model.source)
        fault = checkpoint.find_fault(is_complete=is_own)
        place = "on disk" if is_own else "in the Hub's cache"
        return f"no: {fault}" if fault else f"ok: {place}", checkpoint
    if not hub:
        return "unknown", unknown
    try:
        pinned = "" if model.revision else ", no revision pinned"
        return f"ok: on the Hub{pinned}", read_hub(model.source, model.revision)
    except FetchError as problem:
        return f"{'no' if problem.is_missing else 'unknown'}: {str(problem)[:120]}", unknown


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
    verdict = "unknown" if name in engines.FACTS["packages"].get(model.backend, ()) else "no"
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
    if fault := find_template_fault(template):
        return f"no: {fault}"
    if renders and model.backend == "transformers" and not checkpoint.reads_text_only:
        with suppress(Exception):  # transformers is missing, or template or processor raise for another reason
            from actors.engine.hf.template import drops_pictures

            if drops_pictures(model, checkpoint.image_tokens):
                return "no: the prompt has no token for its pictures: the chat template drops them"
    functions = "with functions" if "tools" in template else "no functions"
    return f"{'no' if 'no functions' in checkpoint.limits(model) else 'ok'}: {functions}"


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
    usable = USABLE * GPUS[gpu] * model.gpus
    size = weights / 1e9 or 2 * (model.parameters or 0)  # bfloat16 takes 2 GB per billion
    if not size:
        return "unknown"
    verdict = "ok" if size + OVERHEAD <= usable else "no"
    return f"{verdict}: about {size:.1f} GB of weights, {usable:.0f} GB usable on {model.gpus:g} x {gpu}"
