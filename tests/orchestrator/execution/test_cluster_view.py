"""What a real Ray cluster says of the GPUs that another job holds, and of the moment when it has placed a worker."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time

import pytest
from ray._private.state import actors

from orchestrator.execution.cluster_view import ClusterView, Holding, confirm_held, placed_node
from orchestrator.execution.ray_cluster import NodeRequest
from orchestrator.execution.worker_pool import WorkerHandle
from orchestrator.scheduling.nodes import Node
from tests.conftest import ROOT
from tests.orchestrator.rayhead import head

OTHER_JOB = """
import os, sys
from tests.orchestrator.execution.test_cluster_view import join
ray = join(os.environ["RAY_ADDRESS"])
class Holder:
    def ready(self):
        return 1
holder = ray.remote(Holder).options(num_gpus=1, num_cpus=1).remote()
ray.get(holder.ready.remote())
print("holds", flush=True)
sys.stdin.read()
"""


def join(address: str):
    """Join a cluster whose first node may take a minute to register on a busy machine."""
    import ray

    for _ in range(10):
        try:
            ray.init(address, log_to_driver=False, logging_level="error")
            return ray
        except (ConnectionError, RuntimeError):
            time.sleep(5)
    raise AssertionError("no node of the cluster registered")


def test_a_gpu_counts_as_held_once_two_readings_agree():
    nodes = (Node("a", 4), Node("b", 2))
    assert confirm_held(nodes, {"a": 3, "b": 1}, {"a": 1}) == (Node("a", 4, held=1), Node("b", 2))
    assert confirm_held(nodes, {}, {"a": 1, "b": 2}) == nodes


@pytest.mark.slow
@pytest.mark.long
def test_other_job_holds_a_gpu_and_the_start_clock_waits_for_it():
    with head(gpus=2) as node:
        environment = {**node.environment, "RAY_ADDRESS": node.address, "PYTHONPATH": str(ROOT)}
        other = subprocess.Popen(
            [sys.executable, "-c", OTHER_JOB], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert other.stdout and other.stdout.readline() == "holds\n"
        ray = join(node.address)
        try:
            asyncio.run(_watch(ray, other))
        finally:
            ray.shutdown()
            other.kill()
            other.wait()


def stored_request() -> list[dict[str, float]]:
    """Return what the autoscaler would read."""
    from ray._private.ray_constants import AUTOSCALER_RESOURCE_REQUEST_CHANNEL
    from ray.experimental.internal_kv import _internal_kv_get

    return json.loads(_internal_kv_get(AUTOSCALER_RESOURCE_REQUEST_CHANNEL) or "[]")


def check_requests() -> None:
    alone, request = NodeRequest(is_joined=False), NodeRequest(is_joined=True)
    alone.send([{"GPU": 8}], 0.0)
    assert stored_request() == []
    request.send([{"GPU": 4}, {"GPU": 0.5}], 0.0)
    assert stored_request() == [{"GPU": 4}, {"GPU": 0.5}]
    NodeRequest(is_joined=True).send([{"GPU": 1}], 1.0)  # another sweep's
    request.send([{"GPU": 4}, {"GPU": 0.5}], 2.0)
    assert stored_request() == [{"GPU": 1}]
    request.send([{"GPU": 4}, {"GPU": 0.5}], 31.0)
    assert stored_request() == [{"GPU": 4}, {"GPU": 0.5}], "it is repeated"
    request.withdraw()
    assert stored_request() == []


async def _watch(ray, other: subprocess.Popen[str]) -> None:
    class Placeholder:
        def address(self):
            return type("Address", (), {"node": ray.get_runtime_context().get_node_id()})()

    check_requests()
    view = ClusterView.open()
    assert [node.held for node in view.nodes] == [1] and view.cpus == 1
    assert view.usable_gpus == 1

    worker = WorkerHandle("m", ray.remote(Placeholder).options(num_gpus=2, num_cpus=0).remote())
    address = asyncio.create_task(worker.find_address(timeout=60.0))
    await asyncio.sleep(3.0)
    assert placed_node(worker.actor) == "", actors(worker.actor._actor_id.hex())
    assert not address.done() and not worker.placed.is_set()

    other.stdin.close()  # the other job ends
    await address
    assert worker.node == placed_node(worker.actor) == view.nodes[0].name
    for _ in range(100):
        view.read([Holding(worker.node, 2, 0)])
        if view.usable_gpus == 2:
            return
        time.sleep(0.1)
    raise AssertionError("the GPU of the ended job still counts as held")
