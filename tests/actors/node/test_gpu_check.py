"""A worker starts on its assigned devices once their memory is free, or reports in one sentence why it cannot.

No GPU is needed: measurements are values.
"""

import pytest

from actors.engine.registry import gpu_request
from actors.node.gpu_check import GIB, GpuRequest, GpuUnavailable, check_gpus
from actors.node.nvml import Device
from sweeps.spec import ModelSpec

H200 = 140 * GIB
ONE = GpuRequest("qwen", 1, share=0.9)


def device(index="0", free=H200, kind="NVIDIA H200", holders=()):
    return Device(index, f"GPU-{index}a7c", kind, free, H200, holders)


def check_lines(request, assigned, visible, measurements, timeout=5.0):
    """Check against one measurement after the other; the last one repeats."""
    queue = list(measurements)
    return list(
        check_gpus(request, assigned, visible, lambda: queue.pop(0) if len(queue) > 1 else queue[0], timeout, 0.01)
    )


def test_worker_waits_for_dead_engines_memory():
    busy = device(free=20 * GIB, holders=((4711, 119 * GIB),))
    messages = check_lines(ONE, [0], "0", [[busy], [busy], [device()]])

    assert "process 4711 holds 119.0 GiB" in messages[0] and messages[0].startswith("waiting up to 5 s")
    assert messages[1:] == ["GPU 0 (NVIDIA H200): 140.0 of 140.0 GiB free"]


@pytest.mark.parametrize(
    ("assigned", "visible", "sentence"),
    [
        ([], "", "asked for 1 GPU and Ray gave 0"),
        ([3], None, "CUDA_VISIBLE_DEVICES says nothing; unset RAY_EXPERIMENTAL"),
        ([3], "0,1,2,3", "gave qwen the GPUs 3, but CUDA_VISIBLE_DEVICES says 0,1,2,3"),
        ([7], "7", "gave qwen GPU 7, but this node's driver lists 0"),
    ],
)
def test_devices_other_than_assigned_are_refused(assigned, visible, sentence):
    with pytest.raises(GpuUnavailable, match=sentence):
        check_lines(ONE, assigned, visible, [[device()]])


def test_two_engines_that_share_a_gpu_each_need_their_part_of_its_memory():
    half = gpu_request(ModelSpec(name="small", source="s", gpus=0.5), None)
    assert half.needs(device()) == int(0.45 * H200)
    alone = check_lines(half, [0], "0", [[device()]])
    beside = check_lines(half, [0], "0", [[device(free=H200 - int(0.45 * H200), holders=((7, int(0.45 * H200)),))]])

    assert alone == ["GPU 0 (NVIDIA H200): 140.0 of 140.0 GiB free"] and beside[0].endswith("77.0 of 140.0 GiB free")
    with pytest.raises(GpuUnavailable, match=r"small needs 63\.0 GiB free on GPU 0.*only 14\.0 of 140\.0"):
        check_lines(half, [0], "0", [[device(free=14 * GIB)]], timeout=0)
    with pytest.raises(GpuUnavailable, match=r"asked for 0\.5 GPUs and Ray gave 2"):
        check_lines(half, [0, 1], "0,1", [[device()]])


@pytest.mark.parametrize(("gpus", "size", "wanted"), [(1, 200, 2), (2, 150, 3), (0.5, 100, 1), (0.5, 200, 2)])
def test_weights_beyond_a_gpu_are_refused_at_once_with_the_number_that_holds_them(gpus, size, wanted):
    request = GpuRequest("big", gpus, size=size * GIB)
    with pytest.raises(GpuUnavailable, match=f"big needs {size}.* GiB, and .*; write gpus = {wanted}$"):
        check_lines(request, range(max(1, int(gpus))), "0,1" if gpus == 2 else "0", [[device("0"), device("1")]])
