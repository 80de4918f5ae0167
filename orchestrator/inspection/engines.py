"""What the engines of this machine run: the architectures in their registries, and the packages that models need."""

import importlib.util
import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from sweeps.checkpoint import Checkpoint
from sweeps.spec import ModelSpec

FACTS: dict[str, Any] = tomllib.loads(Path(__file__).with_name("engines.toml").read_text("utf-8"))
"""GPUs, and by backend the source file with its classes and the packages that it needs."""


@cache
def architectures(backend: str) -> frozenset[str]:
    """Return the classes of an installed backend; empty without it.

    Its source is read, because importing an engine takes a minute.
    """
    registry = FACTS["registries"][backend]
    spec = importlib.util.find_spec(backend)
    try:
        text = (Path(spec.origin).parent / registry["file"]).read_text("utf-8") if spec and spec.origin else ""
    except OSError:
        return frozenset()
    parts = re.findall(rf"^{registry['tables']}\b.*?^[)}}]", text, re.MULTILINE | re.DOTALL)
    return frozenset(name for part in parts for name in re.findall(r'"([A-Z]\w*)"', part))


def engine_cell(backend: str, architecture: str) -> str:
    """Return the table cell of an architecture: ``no`` only if the backend is installed and lacks it."""
    known = architectures(backend)
    if architecture in known:
        return f"ok: {architecture}"
    if backend == "vllm" and architecture in architectures("transformers"):
        return f"ok: {architecture}, by vLLM's transformers backend"
    if not known:
        return f"unknown: {architecture} ({backend} is not installed)"
    return f"no: the installed {backend} does not run {architecture}"


def missing_package(model: ModelSpec, checkpoint: Checkpoint | None) -> str:
    """Return the name of a package that a model needs and this machine lacks, its engine first; empty if none."""
    needed = [] if model.requirements else list(FACTS["packages"].get(model.backend, ()))
    architecture = (checkpoint.architecture if checkpoint else "") or model.architecture
    if model.is_local and needed:
        films = any(re.fullmatch("|".join(FACTS["films"]["names"]), name) for name in (model.source, architecture))
        needed += ["torchvision"] if films or (checkpoint and checkpoint.takes_films) else []
        needed += ["num2words"] if architecture.startswith("SmolVLM") else []
        needed += ["peft"] if model.lora and model.backend == "transformers" else []
    return next((name for name in needed if importlib.util.find_spec(name) is None), "")


def install_sentence(model: ModelSpec, package: str) -> str:
    """Return that a model lacks a package, with the command that installs it; empty for no package."""
    command = f"pip install 'proactive-sweep[{FACTS['extras'].get(package, model.backend)}]'"
    return f"it needs {package}, which is not installed: {command}" if package else ""
