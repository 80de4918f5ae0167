"""What the engines of this machine run: the architectures in their registries, and the packages that models need."""

import importlib.util
import re
from functools import cache
from pathlib import Path

from sweeps.checkpoint import Checkpoint
from sweeps.spec import ModelSpec

REGISTRIES = {
    "vllm": (
        "model_executor/models/registry.py",
        r"_(?:MULTIMODAL_MODELS|TEXT_GENERATION_MODELS|TRANSFORMERS_SUPPORTED_MODELS)",
    ),
    "transformers": (
        "models/auto/modeling_auto.py", r"MODEL_FOR_(?:IMAGE_TEXT_TO_TEXT|MULTIMODAL_LM|CAUSAL_LM)_MAPPING_NAMES",
    ),
}  # fmt: skip
"""Backend -> the source file with its classes, and the tables there of those that answer in text.

Text-only classes count too: some judges are text-only, and a question can be asked without its picture.
"""
FILMS = re.compile(
    r"(?:LlavaOnevision|Qwen2_5_VL|InternVL|SmolVLM|Qwen3VL|Qwen3VLMoe|Glm4v|Glm4vMoe|Llama4|Mistral3|MiniCPMV4_6)"
    r"ForConditionalGeneration|Phi4(?:Multimodal|MM)ForCausalLM|mistral-community/pixtral-12b"
)
"""Architectures, and one source, whose processor needs torchvision; others need it if they take films."""
ENGINES = {"vllm": ("vllm",), "transformers": ("torch", "transformers"), "openai": ("openai",)}
"""Backend -> the packages that it cannot do without."""
EXTRAS = {"torchvision": "vision", "peft": "transformers"}
"""Package -> the extra of this project that installs it; for other packages, the extra of the backend."""


@cache
def architectures(backend: str) -> frozenset[str]:
    """Return the classes of an installed backend; empty without it.

    Its source is read, because importing an engine takes a minute.
    """
    path, tables = REGISTRIES[backend]
    spec = importlib.util.find_spec(backend)
    try:
        text = (Path(spec.origin).parent / path).read_text("utf-8") if spec and spec.origin else ""
    except OSError:
        return frozenset()
    parts = re.findall(rf"^{tables}\b.*?^[)}}]", text, re.MULTILINE | re.DOTALL)
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
    needed = [] if model.requirements else list(ENGINES.get(model.backend, ()))
    architecture = (checkpoint.architecture if checkpoint else "") or model.architecture
    if model.is_local and needed:
        films = FILMS.fullmatch(model.source) or FILMS.fullmatch(architecture)
        needed += ["torchvision"] if films or (checkpoint and checkpoint.takes_films) else []
        needed += ["num2words"] if architecture.startswith("SmolVLM") else []
        needed += ["peft"] if model.lora and model.backend == "transformers" else []
    return next((name for name in needed if importlib.util.find_spec(name) is None), "")


def install_sentence(model: ModelSpec, package: str) -> str:
    """Return that a model lacks a package, with the command that installs it; empty for no package."""
    command = f"pip install 'proactive-sweep[{EXTRAS.get(package, model.backend)}]'"
    return f"it needs {package}, which is not installed: {command}" if package else ""
