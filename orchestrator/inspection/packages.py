"""The packages that the processors and adapters of models need, and whether this machine can import them.

They are imported in a process of its own: a build that does not fit torch fails no earlier, and may take its process along.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence

from sweeps.spec import ModelSpec

PROCESSORS = {
    "LlavaOnevisionForConditionalGeneration": ("torchvision",),
    "Qwen2_5_VLForConditionalGeneration": ("torchvision",),
    "InternVLForConditionalGeneration": ("torchvision",),
    "SmolVLMForConditionalGeneration": ("torchvision", "num2words"),
    "Phi4MultimodalForCausalLM": ("torchvision",),
    "Phi4MMForCausalLM": ("torchvision",),
}
"""Architecture -> what transformers' processor of it imports; the other architectures of the paper's models need nothing more."""
EXTRAS = {"torchvision": "vision", "peft": "transformers"}
"""Package -> the extra of this project that has it; the backend's own extra has the rest."""
IMPORT_TIMEOUT_S = 300.0
PROBE = """
import importlib, json, sys
found = {}
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
        found[name] = ""
    except Exception as problem:
        found[name] = f"{type(problem).__name__}: {problem}".splitlines()[0]
print(json.dumps(found))
"""


def needed(model: ModelSpec, architecture: str) -> tuple[str, ...]:
    """The packages beside its engine that a model needs, by the class that its ``config.json`` names."""
    if model.backend not in ("vllm", "transformers"):
        return ()
    adapter = ("peft",) if model.lora and model.backend == "transformers" else ()
    return (*PROCESSORS.get(architecture, ()), *adapter)


def problems(packages: Sequence[str]) -> dict[str, str]:
    """Package -> why it cannot be imported: empty where it can, ``not installed``, or the first line of its error."""
    missing = {name: "not installed" for name in packages if importlib.util.find_spec(name) is None}
    there = [name for name in packages if name not in missing]
    if not there:
        return missing
    try:
        done = subprocess.run(
            [sys.executable, "-c", PROBE, *there], capture_output=True, text=True, timeout=IMPORT_TIMEOUT_S
        )
        return missing | dict(json.loads(done.stdout.splitlines()[-1]))
    except (subprocess.TimeoutExpired, ValueError, IndexError):
        return missing | dict.fromkeys(there, "its import ended the process, or took longer than five minutes")


def told(model: ModelSpec, packages: Sequence[str], found: Mapping[str, str]) -> str:
    """One cell: what is missing for a model, and what to type."""
    if model.backend in ("vllm", "transformers") and importlib.util.find_spec(model.backend) is None:
        return f"unknown: {model.backend} is not installed here: {_install(model.backend)}"
    for name in packages:
        if found.get(name) == "not installed":
            return f"no: it needs {name}, which is not installed: {_install(EXTRAS.get(name, model.backend))}"
        if found.get(name):
            return f"no: {name} cannot be imported ({found[name]}): install the release that belongs to this torch"
    return "ok" + (f": {', '.join(packages)}" if packages else "")


def _install(extra: str) -> str:
    return f"pip install 'proactive-sweep[{extra}]'"
