"""A running worker accepts new limits for concurrent episodes and for requests to a service."""

import asyncio
from pathlib import Path

import pytest

pytest.importorskip("openai", reason="the extra 'openai' is not installed")

from actors.engine.backend import Backend, Reply
from actors.engine.openai.backend import OpenAIBackend
from actors.playing.episode_runner import EpisodeRunner
from actors.worker import Worker
from orchestrator.planning.build_plan import build_plan
from sweeps.endpoint import Endpoint
from sweeps.load import build
from sweeps.spec import ModelSpec


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


def ready_worker(plan, backend, in_flight) -> Worker:
    """The actor's class without Ray, as ``ready`` leaves it."""
    worker = Worker.__ray_actor_class__(plan, [cell.model for cell in plan.cells[:1]], str(Path.cwd()))
    worker.backends = {"uniform": backend}
    worker.runner = EpisodeRunner(plan, worker.backends, in_flight)
    return worker


async def peak_concurrency(worker, backend, ordinals) -> int:
    backend.most, played = 0, 0
    async for batch in worker.play(ordinals):
        played += len(batch.ordinals)
    assert played == len(ordinals)
    return backend.most


def test_new_pace_applies_from_next_lease(plan) -> None:
    async def run() -> list[int]:
        backend = Counting()
        worker, peaks = ready_worker(plan, backend, 2), []
        for first, episodes in ((0, None), (20, 9), (40, 1)):
            if episodes:
                await worker.set_in_flight(episodes)
            peaks.append(await peak_concurrency(worker, backend, list(range(first, first + 20))))
        return peaks

    assert asyncio.run(run()) == [2, 9, 1]


def test_service_requests_respect_new_pace(plan, tmp_path) -> None:
    async def run() -> None:
        entry = ModelSpec(
            name="m", source="m", in_flight=8, endpoint=Endpoint(base_url="http://127.0.0.1:9/v1", key_env="")
        )
        backend = OpenAIBackend(entry, tmp_path)
        worker = ready_worker(plan, backend, 8)
        await worker.set_in_flight(3)
        assert (backend.pace.max_in_flight, backend.pace.allowed) == (3, 3.0)
        await worker.set_in_flight(64)
        assert (backend.pace.max_in_flight, backend.pace.allowed) == (64, 3.0)
        await backend.close()

    asyncio.run(run())
