"""A fake NVIDIA driver: the ``pynvml`` functions that the product calls, with the real errors, over GPUs defined as values.

``test_nvml`` compares the signatures with those of the installed package.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace

import pynvml

MIB = 2**20


@dataclass
class FakeGpu:
    """One GPU; ``refuses``: function -> the error that it raises there."""

    uuid: str = "GPU-0a7c"
    name: str = "NVIDIA H200"
    used: int = 0
    total: int = 143771 * MIB
    busy: int = 0
    milliwatts: int = 0
    processes: list[tuple[int, int | None]] = field(default_factory=list)
    refuses: dict[str, int] = field(default_factory=dict)
    """Function -> NVML's error code."""


class FakeNvml:
    """Stands for the module; counts init and shutdown, and answers nothing outside of them, like the library."""

    NVMLError = pynvml.NVMLError
    NVMLError_LibraryNotFound = pynvml.NVMLError_LibraryNotFound

    def __init__(self, *gpus: FakeGpu, init_error: int | None = None) -> None:
        self.gpus, self.init_error, self.open = gpus, init_error, 0

    def nvmlInit(self):
        if self.init_error is not None:
            raise pynvml.NVMLError(self.init_error)
        self.open += 1

    def nvmlShutdown(self):
        self.open -= 1

    def nvmlDeviceGetCount(self):
        if not self.open:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_UNINITIALIZED)
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index):
        return self._answer(self.gpus[index], "nvmlDeviceGetHandleByIndex", self.gpus[index])

    def nvmlDeviceGetUUID(self, handle):
        return self._answer(handle, "nvmlDeviceGetUUID", handle.uuid)

    def nvmlDeviceGetName(self, handle):
        return self._answer(handle, "nvmlDeviceGetName", handle.name)

    def nvmlDeviceGetMemoryInfo(self, handle, version=None):
        memory = SimpleNamespace(total=handle.total, used=handle.used, free=handle.total - handle.used)
        return self._answer(handle, "nvmlDeviceGetMemoryInfo", memory)

    def nvmlDeviceGetUtilizationRates(self, handle):
        return self._answer(handle, "nvmlDeviceGetUtilizationRates", SimpleNamespace(gpu=handle.busy, memory=0))

    def nvmlDeviceGetPowerUsage(self, handle):
        return self._answer(handle, "nvmlDeviceGetPowerUsage", handle.milliwatts)

    def nvmlDeviceGetComputeRunningProcesses(self, handle):
        processes = [SimpleNamespace(pid=pid, usedGpuMemory=size) for pid, size in handle.processes]
        return self._answer(handle, "nvmlDeviceGetComputeRunningProcesses", processes)

    def _answer(self, gpu, function, value):
        if not self.open:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_UNINITIALIZED)
        if function in gpu.refuses:
            raise pynvml.NVMLError(gpu.refuses[function])
        return value
