"""A worker says why it answers nothing, also if its judge is the service that fails."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("openai", reason="the extra 'openai' is not installed")

from actors.worker import Worker
from sweeps.load import build_cell
from sweeps.spec import Judge, ModelSpec, Protocol
from tests.actors.asking import make_request, user
from tests.actors.service import failure, serving

PLAYER = ModelSpec(name="player", source="builtin:refuse", backend="builtin")


def test_a_rate_of_zero_has_the_reason_of_a_judge_in_the_same_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ray.get_gpu_ids", list)
    actor_class: Any = Worker.__ray_metadata__.modified_class  # type: ignore[attr-defined]

    async def play() -> str:
        async with serving(lambda number, body: failure(503, retry_after="9")) as service:
            endpoint = {"base_url": service.url, "key_env": ""}
            judge = Judge(model=ModelSpec(name="judge", source="m", backend="openai", endpoint=endpoint))
            cell = build_cell("ROD", "zero-shot", PLAYER, Protocol.OEG_MULTI)
            worker = actor_class(SimpleNamespace(cells=(cell,), turn_judge=judge), [PLAYER], str(tmp_path))
            await worker.start()
            asking = asyncio.create_task(worker.turn_judge.backend.reply(make_request(user("?"))))
            while not (trouble := await worker.describe_trouble()):
                await asyncio.sleep(0.01)
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
            await worker.close()
            return str(trouble)

    assert "503" in (trouble := asyncio.run(play())) and trouble.endswith("next try in 9 s")
