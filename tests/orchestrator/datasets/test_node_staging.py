"""The driver's side of staging: one task a node."""

import asyncio

from orchestrator.datasets.node_staging import NodeStaging
from sweeps.load import build


class Counted(NodeStaging):
    """Staging whose nodes answer at once, and fail as often as they are told to."""

    failures = 0
    runs = 0

    async def _stage_node(self, node: str, host: str) -> str:
        self.runs += 1
        await asyncio.sleep(0)
        if self.runs <= self.failures:
            raise OSError("full")
        return f"/{host}"


def staging_of(data: str) -> Counted:
    used = {"scenarios": ["QD"], "conditions": ["zero-shot"], "models": ["oracle"], "name": "x", "data": data}
    return Counted(build(used, "x.toml"))


def test_a_node_is_staged_once_for_all_that_wait_and_again_after_a_failure():
    staging = staging_of("s3://bucket/x")
    staging.failures = 1

    async def main():
        failed = await asyncio.gather(*(staging.folder("n", "h") for _ in range(2)), return_exceptions=True)
        again = [await staging.folder("n", "h") for _ in range(2)]
        return [str(problem) for problem in failed], again

    assert asyncio.run(main()) == (["full", "full"], ["/h", "/h"]) and staging.runs == 2


def test_a_worker_that_gives_up_does_not_stop_the_staging_that_others_wait_for():
    staging = staging_of("s3://bucket/x")

    async def main():
        first, second = (asyncio.create_task(staging.folder("n", "h")) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        return await second

    assert asyncio.run(main()) == "/h" and staging.runs == 1


def test_a_sweep_over_a_folder_stages_nothing(tmp_path):
    staging = staging_of(str(tmp_path))
    assert asyncio.run(staging.folder("n", "h")) == "" and staging.runs == 0
