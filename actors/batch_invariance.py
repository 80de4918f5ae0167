"""vLLM's batch-invariant mode: replies that do not depend on what else is in the batch (``options.batch_invariant``).

vLLM reads it from the environment, in modules that ask once when they are imported; so it is set before the first of them is.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

from actors import nvml
from actors.nvml import Unmeasurable
from sweeps.spec import ModelSpec

VARIABLE = "VLLM_BATCH_INVARIANT"
SINCE = (0, 32)
"""vLLM's page "Batch Invariance" of 0.32, which the requirement below is from; earlier versions asked for other GPUs."""
CAPABILITY = (8, 0)
"""NVIDIA compute capability that it needs at least. AMD and Intel GPUs that vLLM names too have not been tried here."""


def batch_invariant(model: ModelSpec, capabilities: Sequence[tuple[int, int]] | None = None) -> None:
    """Have vLLM, which must not be imported yet, start in the mode that the entry asks for.

    ``capabilities``: of the GPUs of this node, asked of the driver where they are not given. Raises ValueError with one sentence
    where this vLLM or this machine lacks the mode: replies that vary would otherwise stand under a key that says they do not.
    """
    if not model.options.get("batch_invariant"):
        return
    if why := _lacking(model, capabilities):
        raise ValueError(f"{model.name}: options.batch_invariant {why}; leave it out, or run it where it can hold")
    os.environ[VARIABLE] = "1"


def _lacking(model: ModelSpec, capabilities: Sequence[tuple[int, int]] | None) -> str:
    if (found := _vllm()) < SINCE:
        return f"needs vLLM {_dotted(SINCE)} or newer, and this is {_dotted(found)}"
    if "vllm" in sys.modules and os.environ.get(VARIABLE) != "1":
        return "must be set before vLLM is imported, and this process has imported it"
    if not model.gpus:
        return "needs a GPU, and the entry has gpus = 0"
    try:
        least = min(nvml.capabilities() if capabilities is None else capabilities, default=None)
    except Unmeasurable as reason:
        return f"needs an NVIDIA GPU of compute capability {_dotted(CAPABILITY)} or higher, and there is {reason}"
    if least is None or least < CAPABILITY:
        here = "none is here" if least is None else f"{_dotted(least)} is here"
        return f"needs an NVIDIA GPU of compute capability {_dotted(CAPABILITY)} or higher, and {here}"
    return ""


def _vllm() -> tuple[int, int]:
    """Major and minor version of the vLLM that is installed; one that was built from sources without a number counts as new."""
    try:
        text = version("vllm")
    except PackageNotFoundError:
        return SINCE  # where there is none, the import says so better
    found = re.match(r"(\d+)\.(\d+)", text)
    return SINCE if found is None or "dev" in text else (int(found[1]), int(found[2]))


def _dotted(number: tuple[int, int]) -> str:
    return f"{number[0]}.{number[1]}"
