"""A worker starts on its assigned devices once their memory is free, or reports in one sentence why it cannot.

No GPU is needed: measurements are values, or reports of a fake driver (``fake_nvml``).
"""

import pynvml
import pytest

from actors.engine.loader import gpu_request
from actors.node.gpu_check import GIB, GpuRequest, GpuUnavailable, check_gpus
from actors.node.nvml import MIB, Device, devices
from sweeps.spec import ModelSpec
from tests.actors.fake_nvml import FakeGpu, FakeNvml

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


def test_free_devices_are_named_with_their_memory():
    messages = check_lines(GpuRequest("big", 2, share=0.9), [1, 0], "1,0", [[device("0"), device("1", 139 * GIB)]])

    assert messages == [
        "GPU 1 (NVIDIA H200): 139.0 of 140.0 GiB free",
        "GPU 0 (NVIDIA H200): 140.0 of 140.0 GiB free",
    ]


def test_worker_waits_for_dead_engines_memory():
    busy = device(free=20 * GIB, holders=((4711, 119 * GIB),))
    messages = check_lines(ONE, [0], "0", [[busy], [busy], [device()]])

    assert "process 4711 holds 119.0 GiB" in messages[0] and messages[0].startswith("waiting up to 5 s")
    assert messages[1:] == ["GPU 0 (NVIDIA H200): 140.0 of 140.0 GiB free"]


def test_blocked_memory_is_reported_with_its_holders():
    busy = device(free=20 * GIB, holders=((4711, 100 * GIB), (4712, 19 * GIB)))
    with pytest.raises(GpuUnavailable) as problem:
        check_lines(ONE, [0], "0", [[busy]], timeout=0.05)

    assert str(problem.value) == (
        "qwen needs 126.0 GiB free on GPU 0, and after 0 s only 20.0 of 140.0 GiB are free on GPU 0: "
        "process 4711 holds 100.0 GiB and process 4712 holds 19.0 GiB"
    )


def test_unknown_holders_are_not_invented():
    with pytest.raises(GpuUnavailable) as problem:
        check_lines(ONE, [0], "0", [[device(free=0)]], timeout=0)

    assert str(problem.value).endswith(
        "only 0.0 of 140.0 GiB are free on GPU 0 (the driver does not report which process holds the rest)"
    )


def test_only_the_devices_given_must_be_free():
    assert len(check_lines(ONE, [1], "1", [[device("0", free=0), device("1")]])) == 1


@pytest.mark.parametrize(("size", "fits"), [(60 * GIB, True), (80 * GIB, False), (900 * GIB, False)])
def test_bytes_may_replace_share(size, fits):
    request = GpuRequest("m", 1, size=size)
    if fits:
        assert check_lines(request, [0], "0", [[device(free=70 * GIB)]], timeout=0)
    else:
        with pytest.raises(GpuUnavailable):
            check_lines(request, [0], "0", [[device(free=70 * GIB)]], timeout=0)


@pytest.mark.parametrize(
    ("assigned", "visible", "sentence"),
    [
        ([], "", "asked for 1 GPU and Ray gave 0"),
        ([0, 1], "0,1", "asked for 1 GPU and Ray gave 2"),
        ([3], None, "CUDA_VISIBLE_DEVICES says nothing; unset RAY_EXPERIMENTAL"),
        ([3], "0,1,2,3", "gave qwen the GPUs 3, but CUDA_VISIBLE_DEVICES says 0,1,2,3"),
        ([3], "2", "gave qwen the GPUs 3, but CUDA_VISIBLE_DEVICES says 2"),
        ([7], "7", "gave qwen GPU 7, but this node's driver lists 0"),
    ],
)
def test_devices_other_than_assigned_are_refused(assigned, visible, sentence):
    with pytest.raises(GpuUnavailable, match=sentence):
        check_lines(ONE, assigned, visible, [[device()]])


def test_a_device_may_be_named_by_the_start_of_its_uuid():
    assert check_lines(ONE, ["GPU-1a"], "GPU-1a", [[device("0"), device("1")]])[0].startswith("GPU 1 ")


@pytest.mark.parametrize(
    ("accelerator", "kind", "right"),
    [
        ("H200", "NVIDIA H200", True), ("H100", "NVIDIA H100 80GB HBM3", True), ("L4", "NVIDIA L4", True),
        ("A100-80G", "NVIDIA A100-SXM4-80GB", True), ("T4", "Tesla T4", True), ("", "anything", True),
        ("H20", "NVIDIA H200", False), ("L4", "NVIDIA L40S", False), ("A100-80G", "NVIDIA A100-SXM4-40GB", False),
    ],
)  # fmt: skip
def test_gpu_kind_must_match(accelerator, kind, right):
    request = GpuRequest("m", 1, accelerator, 0.9)
    if right:
        assert check_lines(request, [0], "0", [[device(kind=kind)]])
    else:
        with pytest.raises(GpuUnavailable, match=f"asked for {accelerator}, but GPU 0 of its node is a"):
            check_lines(request, [0], "0", [[device(kind=kind)]])


# -- with the driver --------------------------------------------------------------------------------------------------
def test_driver_report_is_checked_by_index_and_uuid():
    full = FakeGpu("GPU-aaaa", used=143000 * MIB, processes=[(4711, 142000 * MIB)])
    driver = FakeNvml(full, FakeGpu("GPU-bbbb"))

    for name in ("1", "GPU-bbbb", "GPU-b"):
        messages = list(check_gpus(ONE, [name], name, lambda: devices(driver), 0.0))
        assert messages == ["GPU 1 (NVIDIA H200): 140.4 of 140.4 GiB free"]
    for name in ("0", "GPU-aaaa"):
        with pytest.raises(GpuUnavailable, match=r"process 4711 holds 138\.7 GiB"):
            list(check_gpus(ONE, [name], name, lambda: devices(driver), 0.0))


def test_without_driver_only_ids_are_compared():
    none = FakeNvml(init_error=pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    messages = list(check_gpus(GpuRequest("m", 2, "H200"), [0, 1], "0,1", lambda: devices(none)))
    assert messages == ["GPUs 0,1: no NVIDIA driver on this node, so kind and memory are not checked"]
    with pytest.raises(GpuUnavailable):
        list(check_gpus(ONE, [0], "1", lambda: devices(none)))


def test_parts_of_a_gpu_are_not_measured():
    messages = list(check_gpus(ONE, ["MIG-1"], "MIG-1", lambda: [device()]))

    assert "(MIG) are not measured, so kind and memory are not checked" in messages[0]


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


def test_weights_beyond_gpu_share_are_refused():
    large = gpu_request(ModelSpec(name="large", source="s", backend="transformers", gpus=0.25), 70 * GIB)
    with pytest.raises(GpuUnavailable, match=r"large needs 84\.0 GiB, and 0\.25 of GPU 0 is 35\.0 GiB; write gpus = 1"):
        check_lines(large, [0], "0", [[device()]])
