"""Stages a sweep's data on a node by a task of Ray that takes no CPU; tasks of one node wait for the lock of ``stage``."""

import asyncio
from collections.abc import Sequence

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from actors.text.printable import say
from orchestrator.datasets.sources import parse_address
from orchestrator.datasets.staging import stage
from sweeps.spec import Sweep


@ray.remote(num_cpus=0, max_retries=0)  # type: ignore[untyped-decorator]
def stage_task(data: str, scenarios: Sequence[str], cache: str) -> tuple[str, list[str]]:
    """Return the folder with the data and what staging says. Raises the errors of ``staging.stage``."""
    lines: list[str] = []
    return str(stage(data, scenarios, cache, lines.append)), lines


async def stage_on_node(sweep: Sweep, node: str, host: str) -> str:
    """Wait until a node (Ray id) has the data and return their folder; empty if the data are a local folder.

    A task that is no longer waited for is killed. Raises staging errors.
    """
    if parse_address(sweep.data) is None:
        return ""
    strategy = NodeAffinitySchedulingStrategy(node, soft=False)
    task = stage_task.options(scheduling_strategy=strategy).remote(sweep.data, sweep.scenarios, sweep.staging.cache)
    say(f"node {node[:6]} ({host}): looks for {sweep.data}")
    try:
        folder, lines = await task
    except asyncio.CancelledError:
        ray.cancel(task, force=True)
        raise
    for line in lines:
        say(f"node {node[:6]} ({host}): {line}")
    return str(folder)
