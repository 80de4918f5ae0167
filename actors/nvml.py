"""Reads the GPUs of this node from the NVIDIA driver (NVML): memory, processes, utilisation and power.

No CUDA context is made: one would take memory itself, and break children that are forked later. What a driver does not tell
(``Not Supported`` in a container, under MIG, on a laptop) is left out, never made up.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

MIB = 2**20


class Unmeasurable(Exception):
    """This node has no driver to ask; the message is the reason."""


@dataclass(frozen=True, slots=True)
class Device:
    """One GPU and its memory."""

    index: str
    uuid: str
    kind: str
    """As the driver names it, for example ``NVIDIA H200``."""
    free: int
    total: int
    """Bytes."""
    holders: tuple[tuple[int, int], ...] = ()
    """Pid and bytes of each process that has memory there, as far as the driver tells (in a container it may not)."""


def devices(nvml: Any = None) -> list[Device]:
    """Every GPU of this node whose memory the driver tells; raises Unmeasurable where no driver answers."""
    with _initialised(nvml) as driver:
        found = [_device(driver, number) for number in range(driver.nvmlDeviceGetCount())]
    return [device for device in found if device is not None]


def capabilities(nvml: Any = None) -> list[tuple[int, int]]:
    """CUDA compute capability of every GPU of this node; raises Unmeasurable where no driver answers."""
    with _initialised(nvml) as driver:
        handles = [driver.nvmlDeviceGetHandleByIndex(number) for number in range(driver.nvmlDeviceGetCount())]
        return [tuple(driver.nvmlDeviceGetCudaComputeCapability(handle)) for handle in handles]


def utilization(nvml: Any = None) -> dict[str, float]:
    """Metric -> value of every GPU, named as in MLflow's system metrics: percent, ``_megabytes`` and ``_watts``.

    Raises Unmeasurable where no driver answers.
    """
    found: dict[str, float] = {}
    with _initialised(nvml) as driver:
        for number in range(driver.nvmlDeviceGetCount()):
            found |= {f"gpu_{number}_{name}": value for name, value in _metrics(driver, number).items()}
    return found


def _device(nvml: Any, number: int) -> Device | None:
    with suppress(nvml.NVMLError):
        handle = nvml.nvmlDeviceGetHandleByIndex(number)
        memory = nvml.nvmlDeviceGetMemoryInfo(handle)
        uuid, kind = nvml.nvmlDeviceGetUUID(handle), nvml.nvmlDeviceGetName(handle)
        return Device(str(number), uuid, kind, memory.free, memory.total, _holders(nvml, handle))
    return None  # it fell off the bus, or tells no memory (some devices share the host's)


def _holders(nvml: Any, handle: Any) -> tuple[tuple[int, int], ...]:
    with suppress(nvml.NVMLError):
        found = nvml.nvmlDeviceGetComputeRunningProcesses(handle)
        return tuple((one.pid, one.usedGpuMemory) for one in found if one.usedGpuMemory is not None)
    return ()


def _metrics(nvml: Any, number: int) -> dict[str, float]:
    """A driver may refuse each query by itself; under MIG it tells memory, and no utilisation."""
    found: dict[str, float] = {}
    with suppress(nvml.NVMLError):
        handle = nvml.nvmlDeviceGetHandleByIndex(number)
        with suppress(nvml.NVMLError):
            found["utilization_percentage"] = float(nvml.nvmlDeviceGetUtilizationRates(handle).gpu)
        with suppress(nvml.NVMLError):
            memory = nvml.nvmlDeviceGetMemoryInfo(handle)
            found["memory_usage_megabytes"] = memory.used / MIB
            found["memory_usage_percentage"] = 100 * memory.used / memory.total
        with suppress(nvml.NVMLError):
            found["power_usage_watts"] = nvml.nvmlDeviceGetPowerUsage(handle) / 1000
    return found


@contextmanager
def _initialised(nvml: Any) -> Iterator[Any]:
    """NVML (``pynvml`` unless another is given) between its init and its shutdown."""
    if nvml is None:
        import pynvml

        nvml = pynvml
    try:
        nvml.nvmlInit()
        try:
            yield nvml
        finally:
            nvml.nvmlShutdown()
    except nvml.NVMLError_LibraryNotFound:
        raise Unmeasurable("no NVIDIA driver on this node") from None
    except nvml.NVMLError as problem:
        raise Unmeasurable(f"the NVIDIA driver does not answer ({problem})") from None
