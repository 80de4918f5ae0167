"""Checks a worker's GPUs before its engine loads: assigned by Ray, with enough free memory.

The processes of a killed engine take a while to end, and an engine that measures memory meanwhile refuses to start. So the
check waits until their memory is free, and names the processes that still hold it.
"""

from collections.abc import Callable, Iterator, Sequence
from math import ceil
from time import monotonic, sleep
from typing import NamedTuple

from actors.node import nvml
from actors.node.nvml import Device, DriverUnavailable
from sweeps.values import format_gpus

MEMORY_TIMEOUT_S = 120.0
"""Seconds to wait until another engine's processes have freed their memory."""
POLL_INTERVAL_S = 2.0
DEFAULT_GPU_SHARE = 0.9
"""Share of a worker's GPU memory that vLLM takes unless options set ``gpu_memory_utilization``."""
GIB = 2**30


class GpuUnavailable(RuntimeError):
    """A problem of a worker's devices, in one sentence; a worker on other devices may succeed."""


class GpuRequest(NamedTuple):
    model: str
    gpus: float
    """A whole number, or the share of one GPU."""
    share: float = 0.0
    """Share of each device's memory that must be free."""
    size: int = 0
    """Bytes that must be free, if more than ``share``."""

    def needs(self, device: Device) -> int:
        """Return the bytes that must be free on a device."""
        return max(int(self.share * device.total), self.size)


def check_gpus(
    request: GpuRequest,
    assigned: Sequence[object],
    visible: str | None,
    measure: Callable[[], Sequence[Device]] = nvml.devices,
    timeout: float = MEMORY_TIMEOUT_S,
    interval: float = POLL_INTERVAL_S,
) -> Iterator[str]:
    """Yield a line for the log after each check; raises GpuUnavailable if a worker must not start here.

    ``assigned`` are the ids from Ray, indices or UUIDs; ``visible`` is CUDA_VISIBLE_DEVICES. Without a driver, only the ids are
    compared.
    """
    ids = _check_ids(request, [str(gpu) for gpu in assigned], visible)
    try:
        devices = _find_devices(request, ids, measure())
    except DriverUnavailable as reason:
        yield f"GPUs {','.join(ids)}: {reason}, so their memory is not checked"
        return
    _check_part(request, devices[0])
    deadline, waiting = monotonic() + timeout, False
    while too_full := [device for device in devices if device.free < request.needs(device)]:
        if monotonic() >= deadline:
            raise GpuUnavailable(
                f"{request.model} needs {_format_gib(request.needs(too_full[0]))} GiB free on GPU {too_full[0].index}, "
                f"and after {timeout:.0f} s {_describe_memory(too_full[0])}"
            )
        if not waiting:
            yield f"waiting up to {timeout:.0f} s for memory: {_describe_memory(too_full[0])}"
            waiting = True
        sleep(interval)
        devices = _find_devices(request, ids, measure())
    for device in devices:
        yield f"GPU {device.index} ({device.kind}): {_format_gib(device.free)} of {_format_gib(device.total)} GiB free"


def _check_ids(request: GpuRequest, assigned: list[str], visible: str | None) -> list[str]:
    """Return the ids of this worker's devices; raises GpuUnavailable unless Ray and the environment agree."""
    if len(assigned) != max(1, int(request.gpus)):  # a shared GPU counts as one
        raise GpuUnavailable(
            f"{request.model} asked for {format_gpus(request.gpus)} and Ray gave {len(assigned)} ({','.join(assigned)})"
        )
    names = [name.strip() for name in (visible or "").split(",") if name.strip()]
    if names != assigned:
        raise GpuUnavailable(
            f"Ray gave {request.model} the GPUs {','.join(assigned)}, but CUDA_VISIBLE_DEVICES says {visible or 'nothing'}; "
            "unset RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES on every node before `ray start`"
        )
    return assigned


def _find_devices(request: GpuRequest, ids: Sequence[str], devices: Sequence[Device]) -> list[Device]:
    """Return the devices with these indices or UUIDs, which may be abbreviated."""
    matches = []
    for name in ids:
        matching = [d for d in devices if d.index == name or (not name.isdigit() and d.uuid.startswith(name))]
        if not matching and name.startswith("MIG-"):
            raise DriverUnavailable("parts of a GPU (MIG) are not measured")
        if len(matching) != 1:
            present = ", ".join(device.index for device in devices) or "none"
            raise GpuUnavailable(f"Ray gave {request.model} GPU {name}, but this node's driver lists {present}")
        matches.append(matching[0])
    return matches


def _check_part(request: GpuRequest, device: Device) -> None:
    """Raise GpuUnavailable if a model needs more memory than a GPU, or its share of one, has."""
    needs, part = request.needs(device), int(min(1, request.gpus) * device.total)
    if needs > part:
        raise GpuUnavailable(
            f"{request.model} needs {_format_gib(needs)} GiB, and {min(1, request.gpus):g} of GPU {device.index} is"
            f" {_format_gib(part)} GiB; write gpus = {ceil(needs * max(1, request.gpus) / device.total)}"
        )


def _describe_memory(device: Device) -> str:
    """Return ``only 20.1 of 139.8 GiB are free on GPU 0: process 4711 holds 119.2 GiB``."""
    free = f"only {_format_gib(device.free)} of {_format_gib(device.total)} GiB are free on GPU {device.index}"
    holders = " and ".join(f"process {pid} holds {_format_gib(size)} GiB" for pid, size in device.holders)
    return f"{free}: {holders}" if holders else f"{free} (the driver does not report which process holds the rest)"


def _format_gib(size: int) -> str:
    return f"{size / GIB:.1f}"
