"""The driver's side of staging: lines and results of a node's stream, and one task a node."""

import asyncio
import threading

from orchestrator.datasets.node_staging import NodeStaging, stream_lines
from sweeps.load import build


def test_work_in_a_thread_streams_its_lines_and_then_its_result():
    caller = threading.current_thread()

    def work(say):
        say("first")
        say("second")
        return threading.current_thread() is caller

    assert list(stream_lines(work)) == ["first", "second", (False,)]


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
