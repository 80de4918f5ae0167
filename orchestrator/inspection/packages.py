"""The packages that processors and adapters of models need, and whether this machine can import them.

Imports run in a separate process, because a build for another torch fails at import and may crash the process.
"""

import importlib.util
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence

from sweeps.checkpoint import Checkpoint
from sweeps.spec import ModelSpec

PROCESSORS = {
    "LlavaOnevisionForConditionalGeneration": ("torchvision",),
    "Qwen2_5_VLForConditionalGeneration": ("torchvision",),
    "InternVLForConditionalGeneration": ("torchvision",),
    "SmolVLMForConditionalGeneration": ("torchvision", "num2words"),
    "Phi4MultimodalForCausalLM": ("torchvision",),
    "Phi4MMForCausalLM": ("torchvision",),
    "Qwen3VLForConditionalGeneration": ("torchvision",),
    "Qwen3VLMoeForConditionalGeneration": ("torchvision",),
    "Glm4vForConditionalGeneration": ("torchvision",),
    "Glm4vMoeForConditionalGeneration": ("torchvision",),
    "Llama4ForConditionalGeneration": ("torchvision",),
    "Mistral3ForConditionalGeneration": ("torchvision",),
    "MiniCPMV4_6ForConditionalGeneration": ("torchvision",),
    "mistral-community/pixtral-12b": ("torchvision",),
}
"""Architecture, or source if only that model needs them -> packages that its processor in transformers needs; every other
processor needs torchvision if it takes films."""
EXTRAS = {"torchvision": "vision", "peft": "transformers"}
"""Package -> the extra of this project that installs it; for other packages, the extra of the backend."""
IMPORT_TIMEOUT_S = 300.0
PROBE = """
import importlib, json, sys
errors = {}
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
        errors[name] = ""
    except Exception as problem:
        errors[name] = f"{type(problem).__name__}: {problem}".splitlines()[0]
print(json.dumps(errors))
"""


def required(model: ModelSpec, checkpoint: Checkpoint | None) -> tuple[str, ...]:
    """Return the packages that a model needs in addition to its engine."""
    if not model.is_local or model.requirements:
        return ()
    adapter = ("peft",) if model.lora and model.backend == "transformers" else ()
    architecture = (checkpoint.architecture if checkpoint else "") or model.architecture
    films = ("torchvision",) if checkpoint and checkpoint.takes_films else ()
    return (*PROCESSORS.get(model.source, PROCESSORS.get(architecture, films)), *adapter)


ENGINES = {"vllm": ("vllm",), "transformers": ("torch", "transformers"), "openai": ("openai",)}
"""Backend -> the packages that it cannot do without."""


def missing_engine(model: ModelSpec) -> str:
    """Return the package of the model's engine that is not installed, with the command that installs it; empty if all are."""
    needed = () if model.requirements else ENGINES.get(model.backend, ())
    absent = next((name for name in needed if importlib.util.find_spec(name) is None), "")
    return f"it needs {absent}, which is not installed: {_install_command(model.backend)}" if absent else ""


def missing(model: ModelSpec, checkpoint: Checkpoint) -> str:
    """Return the required package that is not installed, with the command that installs it; empty if all are."""
    absent = {name: "not installed" for name in required(model, checkpoint) if importlib.util.find_spec(name) is None}
    return package_cell(model, tuple(absent), absent).removeprefix("no: ") if absent else ""


def import_errors(packages: Sequence[str]) -> dict[str, str]:
    """Return package -> ``not installed``, the first line of its import error, or empty if it can be imported."""
    missing = {name: "not installed" for name in packages if importlib.util.find_spec(name) is None}
    installed = [name for name in packages if name not in missing]
    if not installed:
        return missing
    try:
        process = subprocess.run(
            [sys.executable, "-c", PROBE, *installed], capture_output=True, text=True, timeout=IMPORT_TIMEOUT_S
        )
        return missing | dict(json.loads(process.stdout.splitlines()[-1]))
    except (subprocess.TimeoutExpired, ValueError, IndexError):
        return missing | dict.fromkeys(installed, "its import crashed, or took longer than five minutes")


def package_cell(model: ModelSpec, packages: Sequence[str], errors: Mapping[str, str]) -> str:
    """Return the table cell of a model's packages, with the command that installs a missing one."""
    if model.requirements:
        return f"unknown: own packages ({', '.join(model.requirements)}), which `models try` installs"
    if model.is_local and importlib.util.find_spec(model.backend) is None:
        return f"unknown: {model.backend} is not installed: {_install_command(model.backend)}"
    for name in packages:
        if errors.get(name) == "not installed":
            return f"no: it needs {name}, which is not installed: {_install_command(EXTRAS.get(name, model.backend))}"
        if errors.get(name):
            return f"no: {name} cannot be imported ({errors[name]}): install the release for this torch"
    return "ok" + (f": {', '.join(packages)}" if packages else "")


def _install_command(extra: str) -> str:
    return f"pip install 'proactive-sweep[{extra}]'"
