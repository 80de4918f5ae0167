"""Requests of a driver to Ray: a worker's node, a shared GPU's placement group, or one over the nodes of its stages.

Ray's two calls are recorded, because they need a cluster; ``test_shared_gpus`` runs them on one.
"""

import pytest
from ray.util.placement_group import PlacementGroup
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from orchestrator.execution import gpu_placement
from orchestrator.execution.gpu_placement import NODE_LABEL, GpuPlacement
from orchestrator.scheduling.commands import Demand, Start
from orchestrator.scheduling.nodes import Place

NODES = ("a" * 56, "b" * 56)


@pytest.fixture
def requests(monkeypatch):
    """The placement groups that were made and removed, in order."""
    recorded = []

    def make(bundles, **options):
        recorded.append((bundles, options))
        return PlacementGroup.empty()

    monkeypatch.setattr(gpu_placement, "placement_group", make)
    monkeypatch.setattr(gpu_placement, "remove_placement_group", lambda group: recorded.append(group))
    return recorded


def test_worker_with_whole_gpus_prefers_its_node_and_needs_its_kind(requests):
    placement = GpuPlacement()
    assert placement.options(Start(1, "m", Place()), Demand(2.0, 0)) == {"num_gpus": 0, "num_cpus": 2.0}
    options = placement.options(Start(2, "m", Place(NODES[0])), Demand(3.0, 2, accelerator="H200"))
    strategy = options.pop("scheduling_strategy")
    assert options == {"num_gpus": 2, "num_cpus": 3.0, "accelerator_type": "H200"}
    assert isinstance(strategy, NodeAffinitySchedulingStrategy) and (strategy.node_id, strategy.soft) == (
        NODES[0],
        True,
    )
    placement.remove(1)
    assert requests == []


def test_workers_of_a_shared_gpu_have_one_placement_group_until_the_last_ends(requests):
    placement = GpuPlacement()
    for slot in (4, 5):
        options = placement.options(Start(slot, "m", Place(NODES[0], 9)), Demand(2.0, 0.5, accelerator="H200"))
        within = options.pop("scheduling_strategy")
        assert options == {"num_gpus": 0.5, "num_cpus": 0}
        assert within.placement_group is placement.groups[9] and within.placement_group_bundle_index == 0
    bundle = {"CPU": 2.0, "GPU": 1.0, "accelerator_type:H200": 0.001}
    assert requests == [([bundle], {"strategy": "STRICT_PACK", "_soft_target_node_id": NODES[0]})]
    group = placement.groups[9]
    placement.remove(4)
    assert len(requests) == 1
    placement.remove(5)
    placement.remove(5)
    assert requests[1:] == [group] and placement.groups == placement.members == {}


@pytest.mark.parametrize(("cpus", "first"), [(4.0, {"GPU": 1.0, "CPU": 4.0}), (0, {"GPU": 1.0})])
def test_stages_have_a_bundle_for_each_gpu_on_their_nodes(requests, cpus, first):
    placement = GpuPlacement()
    options = placement.options(Start(6, "m", Place(NODES[0], None, NODES)), Demand(cpus, 4, stages=2))
    within = options.pop("scheduling_strategy")
    assert options == {"num_gpus": 0, "num_cpus": cpus}, "the processes of vLLM have its GPUs"
    assert within.placement_group is placement.groups[6]
    assert (within.placement_group_bundle_index, within.placement_group_capture_child_tasks) == (0, True)
    labels = [{NODE_LABEL: name} for name in (NODES[0], NODES[0], NODES[1], NODES[1])]
    bundles = [first, {"GPU": 1.0}, {"GPU": 1.0}, {"GPU": 1.0}]
    assert requests == [(bundles, {"strategy": "PACK", "bundle_label_selector": labels})]
    group = placement.groups[6]
    placement.close()
    assert requests[1:] == [group] and placement.groups == placement.members == {}
