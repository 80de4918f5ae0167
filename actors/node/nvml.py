"""Reads the GPUs of this node from the NVIDIA driver (NVML): memory and processes.

NVML creates no CUDA context, which would take memory and break processes that are forked later. Values that a driver does not
report (``Not Supported`` in a container, under MIG, on a laptop) are omitted.
"""

from contextlib import suppress
from dataclasses import dataclass
from typing import Any


class DriverUnavailable(Exception):
    """This node has no working driver; the message is the reason."""


@dataclass(frozen=True, slots=True)
class Device:
    index: str
    uuid: str
    kind: str
    """As the driver names it, for example ``NVIDIA H200``."""
    free: int
    total: int
    """Bytes."""
    holders: tuple[tuple[int, int], ...] = ()
    """Pid and bytes of each process that has memory there, if the driver reports it (in a container it may not)."""


def devices(nvml: Any = None) -> list[Device]:
    """Return every GPU of this node whose memory the driver reports; raises DriverUnavailable if no driver answers."""
    if nvml is None:
        try:
            import pynvml
        except ModuleNotFoundError:  # it comes with the extras that run models
            raise DriverUnavailable("nvidia-ml-py is not installed") from None
        nvml = pynvml
    try:
        nvml.nvmlInit()
        try:
            gpus = [_read_device(nvml, number) for number in range(nvml.nvmlDeviceGetCount())]
        finally:
            nvml.nvmlShutdown()
    except nvml.NVMLError_LibraryNotFound:
        raise DriverUnavailable("no NVIDIA driver on this node") from None
    except nvml.NVMLError as problem:
        raise DriverUnavailable(f"the NVIDIA driver does not answer ({problem})") from None
    return [gpu for gpu in gpus if gpu is not None]


def _read_device(nvml: Any, number: int) -> Device | None:
    with suppress(nvml.NVMLError):
        handle = nvml.nvmlDeviceGetHandleByIndex(number)
        memory = nvml.nvmlDeviceGetMemoryInfo(handle)
        uuid, kind = nvml.nvmlDeviceGetUUID(handle), nvml.nvmlDeviceGetName(handle)
        holders = []
        with suppress(nvml.NVMLError):
            processes = nvml.nvmlDeviceGetComputeRunningProcesses(handle)
            sizes = ((process.pid, process.usedGpuMemory) for process in processes)
            holders = [(pid, size) for pid, size in sizes if size is not None]
        return Device(str(number), uuid, kind, memory.free, memory.total, tuple(holders))
    return None  # the device is lost, or reports no memory (some share the host's)
