"""A running worker accepts new limits for concurrent episodes and for requests to a service."""

import asyncio

import pytest

pytest.importorskip("openai", reason="the extra 'openai' is not installed")

from actors.engine.backend import Backend, Reply
from orchestrator.planning.build_plan import build_plan
from sweeps.load import build


class Counting(Backend):
    """Answers after a moment, and counts concurrent requests."""

    def __init__(self) -> None:
        self.asked = self.most = 0

    async def reply(self, request):
        self.asked += 1
        self.most = max(self.most, self.asked)
        await asyncio.sleep(0.002)
        self.asked -= 1
        return Reply(request.situation.view.categories[0])

    async def close(self):
        return None


@pytest.fixture(scope="module")
def plan(demo_data):
    return build_plan(build({"data": str(demo_data), "models": ["uniform"], "conditions": ["zero-shot"]}, "x.toml"))
