"""No worker of a model plays before the model is certified, whichever worker is ready first."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from ray.exceptions import RayActorError

from actors.trial.certificate import Certificate
from orchestrator.execution.certifier import Certifier
from orchestrator.execution.worker_pool import WorkerHandle
from orchestrator.inspection.certificate import read_certificates
from orchestrator.planning.build_plan import build_plan
from sweeps.load import build

TINY = {"name": "tiny", "source": "org/tiny", "backend": "transformers", "gpus": 0}


class Recording:
    """The remote method of a worker: it waits, then dies or reports."""

    def __init__(self, dies: bool = False) -> None:
        self.dies, self.asked = dies, 0

    async def remote(self, ordinals: dict[str, list[int]]) -> dict[str, Certificate]:
        self.asked += 1
        await asyncio.sleep(0.05)
        if self.dies:
            raise RayActorError
        return {
            name: Certificate(source="org/tiny", backend="transformers", reason=f"{len(cells)} cells")
            for name, cells in ordinals.items()
        }


class Actor:
    def __init__(self, certify: Recording) -> None:
        self.certify = certify


@pytest.mark.parametrize("dies", [False, True])
def test_other_workers_wait_for_the_first_and_replace_it(demo_data: Path, tmp_path: Path, dies: bool) -> None:
    sweep = build({"name": "s", "data": str(demo_data), "models": ["tiny", "oracle"], "model": [TINY]}, "s")
    certifier, calls = Certifier(build_plan(sweep), tmp_path), [Recording(dies), Recording(), Recording()]
    workers = [WorkerHandle("tiny", Actor(call), models=sweep.models[:1]) for call in calls]
    policy = WorkerHandle("builtin", Actor(Recording(dies=True)), models=sweep.models[1:])

    async def ready(worker: WorkerHandle) -> str:
        await certifier.certify(worker)
        return read_certificates(tmp_path)["tiny"].reason

    async def both() -> list[object]:
        await certifier.certify(policy)
        return list(await asyncio.gather(*map(ready, workers), return_exceptions=True))

    first, *others = asyncio.run(both())
    assert others == ["7 cells"] * 2
    assert [call.asked for call in calls] == [1, int(dies), 0]
    assert isinstance(first, RayActorError) if dies else first == "7 cells"
