"""GPU figures are read from the driver and refused ones left out; the fake driver matches pynvml's signatures and errors."""

from __future__ import annotations

import ctypes
from contextlib import suppress

import pynvml
import pytest

from actors.node.nvml import MIB, Device, DriverUnavailable, devices, utilization
from tests.actors.fake_nvml import FakeGpu, FakeNvml

REFUSED = pynvml.NVML_ERROR_NOT_SUPPORTED
LOST = FakeGpu("GPU-dd", refuses={"nvmlDeviceGetHandleByIndex": pynvml.NVML_ERROR_GPU_IS_LOST})


def test_memory_and_processes_of_every_gpu_are_read():
    nvml = FakeNvml(
        FakeGpu("GPU-aa", used=700 * MIB, processes=[(4711, 600 * MIB), (4712, None)]),
        FakeGpu("GPU-bb", refuses={"nvmlDeviceGetMemoryInfo": REFUSED}),
        LOST,
        FakeGpu("GPU-cc", refuses={"nvmlDeviceGetComputeRunningProcesses": pynvml.NVML_ERROR_NO_PERMISSION}),
    )

    assert devices(nvml) == [
        Device("0", "GPU-aa", "NVIDIA H200", 143071 * MIB, 143771 * MIB, ((4711, 600 * MIB),)),
        Device("3", "GPU-cc", "NVIDIA H200", 143771 * MIB, 143771 * MIB),
    ]
    assert nvml.open == 0, "what is initialised is shut down"


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, "no NVIDIA driver on this node"),
        (pynvml.NVML_ERROR_DRIVER_NOT_LOADED, r"does not answer \(Driver Not Loaded\)"),
        (pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH, "does not answer .*version mismatch"),
    ],
)
@pytest.mark.parametrize("read", [devices, utilization])
def test_missing_driver_has_one_reason(code, reason, read):
    with pytest.raises(DriverUnavailable, match=reason):
        read(FakeNvml(init_error=code))


def test_this_machine_is_read_through_the_real_package_or_has_no_driver():
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        with pytest.raises(DriverUnavailable, match="no NVIDIA driver"):
            devices()
        return
    with suppress(DriverUnavailable):  # a library without its kernel module
        assert all(0 <= device.free <= device.total for device in devices())
