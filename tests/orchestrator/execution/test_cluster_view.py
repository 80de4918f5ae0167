"""The GPUs that other jobs hold; ``tests/chaos`` shows them on a real cluster, with the requests to its autoscaler."""

from orchestrator.execution.cluster_view import confirm_held
from orchestrator.scheduling.nodes import Node


def test_a_gpu_counts_as_held_once_two_readings_agree():
    nodes = (Node("a", 4), Node("b", 2))
    assert confirm_held(nodes, {"a": 3, "b": 1}, {"a": 1}) == (Node("a", 4, held=1), Node("b", 2))
    assert confirm_held(nodes, {}, {"a": 1, "b": 2}) == nodes
