"""``models fetch`` on a cluster: each node where engines run gets the weights once.

Nodes fetch side by side; where they share a cache, the Hub client's locks let one of them fetch and the others find it there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from orchestrator.datasets.node_staging import fetch_on_nodes
from orchestrator.execution import ray_cluster
from sweeps.spec import ModelSpec


def fetch_on_cluster(models: Sequence[ModelSpec], say: Callable[[str], None]) -> list[str]:
    """Fetch on every node that has GPUs, on all nodes where none has; answers what failed, as ``MODEL on HOST``."""
    ray_cluster.connect()
    with_gpus = {node.name for node in ray_cluster.gpu_nodes()}
    nodes = {node: host for node, host in ray_cluster.hosts().items() if node in with_gpus or not with_gpus}
    return asyncio.run(fetch_on_nodes(nodes, models, say))
