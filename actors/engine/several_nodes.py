"""A replica whose pipeline stages are on several nodes: each GPU is checked on its node, and vLLM finds the Ray cluster.

vLLM's Ray executor starts one process per GPU in the worker's placement group. The engine's own process joins Ray as a driver;
without RAY_ADDRESS it would start a cluster of its own.
"""

import os
import socket
from collections.abc import Iterator
from dataclasses import replace

import ray
from ray.exceptions import RayTaskError
from ray.util.placement_group import PlacementGroup
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from actors.engine.loader import gpu_request
from actors.node.gpu_check import GpuRequest, check_gpus
from sweeps.spec import ModelSpec


def join_nodes(model: ModelSpec) -> Iterator[str]:
    """Prepare this worker for an engine over its placement group; check each GPU and yield the log lines of the checks.

    Raises GpuUnavailable if one of the devices is not as requested.
    """
    os.environ["RAY_ADDRESS"] = ray.get_runtime_context().gcs_address
    group = ray.util.get_current_placement_group()
    assert group is not None, "a worker on several nodes is in a placement group"
    request = replace(gpu_request(model, None), gpus=1)
    try:
        for lines in ray.get([_check(group, number, request) for number in range(group.bundle_count)]):
            yield from lines
    except RayTaskError as problem:
        raise problem.cause from None


def _check(group: PlacementGroup, number: int, request: GpuRequest) -> ray.ObjectRef[list[str]]:
    within = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=number)
    return check_gpu.options(scheduling_strategy=within).remote(request)


def _check_gpu(request: GpuRequest) -> list[str]:
    lines = check_gpus(request, ray.get_gpu_ids(), os.environ.get("CUDA_VISIBLE_DEVICES"))
    return [f"{socket.gethostname()}: {line}" for line in lines]


check_gpu = ray.remote(num_cpus=0, num_gpus=1, max_retries=0)(_check_gpu)
"""Checks the one GPU that Ray gives it, in a bundle of a placement group."""
