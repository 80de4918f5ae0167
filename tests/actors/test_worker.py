"""A worker says what it plays at once and why it answers nothing; a lease ends without what is recalled."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("openai", reason="the extra 'openai' is not installed")

from actors.engine.in_flight import StartReport
from actors.worker import Worker
from orchestrator.planning.build_plan import build_plan
from sweeps.load import build_cell
from sweeps.spec import Judge, ModelSpec, Protocol
from tests.actors.asking import make_request, user
from tests.actors.service import completion, failure, serving
from tests.orchestrator.report.runs import sweep

PLAYER = ModelSpec(name="player", source="builtin:refuse", backend="builtin")
LONGEST_S = 60


@pytest.fixture
def actor_class(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The class of a worker, for this process."""
    monkeypatch.setattr("ray.get_gpu_ids", list)
    return Worker.__ray_metadata__.modified_class  # type: ignore[attr-defined]


def test_a_rate_of_zero_has_the_reason_of_a_judge_in_the_same_worker(tmp_path: Path, actor_class: Any) -> None:
    async def play() -> str:
        async with serving(lambda number, body: failure(503, retry_after="9")) as service:
            endpoint = {"base_url": service.url, "key_env": ""}
            judge = Judge(model=ModelSpec(name="judge", source="m", backend="openai", endpoint=endpoint))
            cell = build_cell("ROD", "zero-shot", PLAYER, Protocol.OEG_MULTI)
            worker = actor_class(SimpleNamespace(cells=(cell,), turn_judge=judge), [PLAYER], str(tmp_path))
            await worker.start()
            asking = asyncio.create_task(worker.turn_judge.backend.reply(make_request(user("?"))))
            async with asyncio.timeout(LONGEST_S):
                while not (trouble := await worker.describe_trouble()):
                    await asyncio.sleep(0.01)
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
            await worker.close()
            return str(trouble)

    assert "503" in (trouble := asyncio.run(play())) and trouble.endswith("next try in 9 s")


def test_a_lease_ends_without_what_is_recalled(demo_data: Path, actor_class: Any) -> None:
    async def play() -> tuple[StartReport, list[int]]:
        async with serving(lambda number, body: completion("A"), delay=0.05) as service:
            endpoint = {"base_url": service.url, "key_env": ""}
            entry = {"name": "m", "source": "m", "backend": "openai", "in_flight": 1, "endpoint": endpoint}
            plan = build_plan(sweep(demo_data, ["m"], ["hint"], scenarios=["QD"], model=[entry]))
            worker = actor_class(plan, [plan.cells[0].model], str(demo_data))
            await worker.recall([0])  # before it has a runner
            report = await worker.start()

            async def play_lease() -> list[int]:
                return [ordinal async for batch in worker.play(range(10)) for ordinal in batch.ordinals]

            async with asyncio.timeout(LONGEST_S):
                lease = asyncio.create_task(play_lease())
                while not service.bodies:
                    await asyncio.sleep(0.01)
                await worker.recall(range(5, 10))
                played = await lease
            await worker.close()
            assert await actor_class(plan, [PLAYER], str(demo_data)).start() == StartReport([])
            return report, played

    report, played = asyncio.run(play())
    assert report.in_flight == len(report.lines) == 1
    assert sorted(played) == [*range(5)]
