"""vLLM's batch-invariant mode: replies depend less on what else is in the batch (``options.batch_invariant``).

It is no guarantee (vllm#51187); ``models try --flip-rate`` measures what remains.

vLLM reads the mode from the environment at import, so the variable is set before vLLM is imported.
"""

import os
import re
import sys
from collections.abc import Sequence

from actors.node import nvml
from actors.node.import_path import installed_versions
from actors.node.nvml import DriverUnavailable
from sweeps.spec import ModelSpec

VARIABLE = "VLLM_BATCH_INVARIANT"
SINCE = (0, 32)
"""The version whose page "Batch Invariance" names the requirement below; earlier versions need other GPUs."""
CAPABILITY = (8, 0)
"""Lowest NVIDIA compute capability. The AMD and Intel GPUs that vLLM names have not been tried here."""


def enable_batch_invariance(model: ModelSpec, capabilities: Sequence[tuple[int, int]] | None = None) -> None:
    """Set the mode for a vLLM that is not yet imported, if the entry requests it.

    ``capabilities`` are those of this node's GPUs, by default read from the driver. Raises ValueError if this vLLM or this
    machine lacks the mode: replies made without it must not be stored under a key that claims it.
    """
    if not model.options.get("batch_invariant"):
        return
    if reason := _find_obstacle(model, capabilities):
        raise ValueError(f"{model.name}: options.batch_invariant {reason}; remove it, or run it where it is available")
    os.environ[VARIABLE] = "1"


def _find_obstacle(model: ModelSpec, capabilities: Sequence[tuple[int, int]] | None) -> str:
    if (installed := _vllm_version()) < SINCE:
        return f"needs vLLM {_dotted(SINCE)} or newer, and this is {_dotted(installed)}"
    if "vllm" in sys.modules and os.environ.get(VARIABLE) != "1":
        return "must be set before vLLM is imported, and this process has imported it"
    if not model.gpus:
        return "needs a GPU, and the entry has gpus = 0"
    try:
        least = min(nvml.capabilities() if capabilities is None else capabilities, default=None)
    except DriverUnavailable as reason:
        return f"needs an NVIDIA GPU of compute capability {_dotted(CAPABILITY)} or higher: {reason}"
    if least is None or least < CAPABILITY:
        has = "this node has none" if least is None else f"a GPU of this node has {_dotted(least)}"
        return f"needs an NVIDIA GPU of compute capability {_dotted(CAPABILITY)} or higher, but {has}"
    return ""


def _vllm_version() -> tuple[int, int]:
    """Return major and minor version of the installed vLLM; a build from sources without a number counts as new.

    A missing vLLM counts as new, too, because its import fails with a better message.
    """
    text = installed_versions(("vllm",)).get("vllm", "")
    match = re.match(r"(\d+)\.(\d+)", text)
    return SINCE if match is None or "dev" in text else (int(match[1]), int(match[2]))


def _dotted(number: tuple[int, int]) -> str:
    return f"{number[0]}.{number[1]}"
