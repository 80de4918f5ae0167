"""The architectures that vLLM and transformers support: from their own registries or, if not installed, from short lists.

Text-only architectures count too: some judges are text-only, and a question can be asked without its picture.
"""

import ast
import importlib.util
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from sweeps.checkpoint import Checkpoint

VLLM = frozenset(
    f"{name}ForConditionalGeneration"
    for name in (
        "Llava", "LlavaNext", "LlavaOnevision", "SmolVLM", "Idefics3", "Qwen2VL", "Qwen2_5_VL", "Qwen3VL", "InternVL", "Gemma3",
        "Mistral3", "PaliGemma",
    )
) | {"Phi4MMForCausalLM", "InternVLChatModel", "MolmoForCausalLM", "MiniCPMV"}  # fmt: skip
"""Some architectures of vLLM 0.32, including those of the paper's models, for machines without vLLM."""
TRANSFORMERS = frozenset(name for name in VLLM if name.endswith("ForConditionalGeneration")) | {
    "InstructBlipForConditionalGeneration", "Blip2ForConditionalGeneration", "Phi4MultimodalForCausalLM",
}  # fmt: skip
"""Some architectures of transformers 5, for machines without transformers."""


@cache
def architectures(backend: str) -> tuple[frozenset[str], str]:
    """Return the architectures of a backend, and whether its installed registry or the list above names them."""
    registry, tables, shipped = {
        "vllm": (
            "vllm/model_executor/models/registry.py",
            ("_MULTIMODAL_MODELS", "_TEXT_GENERATION_MODELS", "_TRANSFORMERS_SUPPORTED_MODELS"), VLLM,
        ),
        "transformers": (
            "transformers/models/auto/modeling_auto.py",
            (
                "MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES", "MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES",
                "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES",
            ), TRANSFORMERS,
        ),
    }[backend]  # fmt: skip
    spec = importlib.util.find_spec(backend)
    if spec is not None and spec.origin:
        names = _names(Path(spec.origin).parents[1] / registry, tables)
        if names:
            return names, f"by the installed {backend}"
    return shipped, f"by a list; {backend} is not installed"


def engine_cell(backend: str, architecture: str) -> str:
    """Return the table cell of an architecture: ``no`` only if the backend is installed and lacks it."""
    supported, source = architectures(backend)
    if architecture in supported:
        return f"ok: {architecture}"
    if backend == "vllm" and architecture in architectures("transformers")[0]:
        return f"ok: {architecture}, by vLLM's transformers backend"
    if importlib.util.find_spec(backend) is None:
        return f"unknown: {architecture} ({source})"
    return f"no: {backend} does not run {architecture} ({source})"


def engine_has_template(checkpoint: Checkpoint) -> bool:
    """Return True if vLLM ships a chat template for this model type, or if vLLM is not installed here."""
    spec = importlib.util.find_spec("vllm")
    if spec is None or not spec.origin:
        return True
    path = Path(spec.origin).parent / "transformers_utils/chat_templates/registry.py"
    try:
        return f'"{checkpoint.config.get("model_type")}":' in path.read_text(encoding="utf-8")
    except OSError:
        return True


def _names(path: Path, tables: Iterable[str]) -> frozenset[str]:
    """Return the class names in these tables of a source file by parsing it: importing an engine takes a minute."""
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, SyntaxError):
        return frozenset()
    names: set[str] = set()
    for node in ast.walk(tree):
        targets = (
            [node.target] if isinstance(node, ast.AnnAssign) else node.targets if isinstance(node, ast.Assign) else []
        )
        if any(isinstance(target, ast.Name) and target.id in tables for target in targets):
            strings = (part.value for part in ast.walk(node) if isinstance(part, ast.Constant))
            names |= {text for text in strings if isinstance(text, str) and text[:1].isupper()}
    return frozenset(names)
