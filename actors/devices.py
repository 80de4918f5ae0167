"""A replacement does not start before the engine it replaces has given its GPU memory back.

The processes of a killed engine take a while to end; an engine that measures memory meanwhile refuses to start.
"""

from __future__ import annotations

import os
from time import monotonic, sleep

LONGEST_WAIT = 120.0
"""Seconds; after that the engine may try and say itself what is missing."""


def await_free_memory(share: float) -> bool:
    """Wait until every visible GPU has ``share`` of its memory free; False when that did not come.

    Reads the driver's counters: a CUDA context in this process would take memory itself, and break forked children.
    """
    from vllm.third_party import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return False
    try:
        handles = [_handle(pynvml, name) for name in _visible(pynvml.nvmlDeviceGetCount())]
        give_up = monotonic() + LONGEST_WAIT
        while not all(_free(pynvml, handle) >= share for handle in handles):
            if monotonic() > give_up:
                return False
            sleep(1.0)
        return True
    finally:
        pynvml.nvmlShutdown()


def _visible(devices: int) -> list[str]:
    """The GPUs that Ray gave this process, by index or by UUID; all of them outside of Ray."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    return [str(n) for n in range(devices)] if named is None else [name for name in named.split(",") if name]


def _handle(pynvml, name: str):  # type: ignore[no-untyped-def]
    return pynvml.nvmlDeviceGetHandleByIndex(int(name)) if name.isdigit() else pynvml.nvmlDeviceGetHandleByUUID(name)


def _free(pynvml, handle) -> float:  # type: ignore[no-untyped-def]
    memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
    return float(memory.free / memory.total)
