"""vLLM's batch-invariant mode: replies depend less on what else is in the batch (``options.batch_invariant``).

It is no guarantee (vllm#51187); ``models try --flip-rate`` measures what remains.

vLLM reads the mode from the environment at import, so the variable is set before vLLM is imported.
"""

import os
import sys

from actors.node import nvml
from sweeps.spec import ModelSpec

VARIABLE = "VLLM_BATCH_INVARIANT"
CAPABILITY = (8, 0)
"""Lowest NVIDIA compute capability. The AMD and Intel GPUs that vLLM names have not been tried here."""


def enable_batch_invariance(model: ModelSpec) -> None:
    """Set the mode for a vLLM that is not yet imported, if the entry requests it.

    Raises ValueError if this machine lacks the mode: replies made without it must not be stored under a key that claims it.
    """
    if not model.options.get("batch_invariant"):
        return
    reason = ""
    if "vllm" in sys.modules and os.environ.get(VARIABLE) != "1":
        reason = "must be set before vLLM is imported, and this process has imported it"
    elif not model.gpus or _lowest_capability() < CAPABILITY:
        reason = "needs NVIDIA GPUs of compute capability 8.0 or higher"
    if reason:
        raise ValueError(f"{model.name}: options.batch_invariant {reason}; remove it, or run it where it is available")
    os.environ[VARIABLE] = "1"


def _lowest_capability() -> tuple[int, int]:
    try:
        return min(nvml.capabilities(), default=(0, 0))
    except nvml.DriverUnavailable:
        return (0, 0)
