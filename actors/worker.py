"""The Ray actor owns its engines from start to end; Ray never replays its streams (that would lose and double episodes)."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import ray

from actors import host_metrics
from actors.backend import Backend
from actors.engine_loader import load
from actors.episode_runner import EpisodeRunner, PlanView
from actors.judge_runner import JudgeRunner
from actors.process_output import WorkerAddress, excerpt, streams
from sweeps.spec import Judge, ModelSpec


@ray.remote(num_cpus=0, max_retries=0)  # type: ignore[untyped-decorator]
def printed(paths: Sequence[str]) -> str:
    """What a worker printed, read on the node where the files are; works without the dashboard and without shared disks."""
    return excerpt(paths)


@ray.remote(num_cpus=0, max_retries=0)  # type: ignore[untyped-decorator]
def busy() -> dict[str, float]:
    """How busy the node is that this runs on."""
    return host_metrics.load()


@ray.remote(num_cpus=0, max_restarts=0, max_task_retries=0)
class Worker:
    """Plays leases of one group of models on the devices Ray gave it."""

    def __init__(self, book: PlanView, models: Sequence[ModelSpec], data: str, judge: Judge | None = None) -> None:
        """With a ``judge`` the leases are answers to read, and ``models`` is the judge's alone."""
        self.book, self.models, self.data, self.judge = book, models, Path(data), judge
        self.backends: dict[str, Backend] = {}
        self.crew: EpisodeRunner | None = None

    async def place(self) -> WorkerAddress:
        """Where this worker lives: asked for before it loads, so that what a dying loader printed can be found."""
        node = ray.get_runtime_context().get_node_id()
        return WorkerAddress(
            socket.gethostname(), os.getpid(), node, os.environ.get("CUDA_VISIBLE_DEVICES", ""), streams()
        )

    async def ready(self, staged: str = "") -> list[str]:
        """Load the engines; answers what there was to say about devices and turns.

        ``staged`` is where the data lie on this node, if they were brought here.

        Raises what ``load`` raises, so that the driver learns the reason and not only of a death.
        """
        said: list[str] = []
        self.data = Path(staged) if staged else self.data

        def say(line: str) -> None:
            print(line, flush=True)
            said.append(line)

        for model in self.models:
            self.backends[model.name] = load(model, self.data, ray.get_gpu_ids(), say)
        self.crew = self._crew()
        return said

    def _crew(self) -> EpisodeRunner:
        if self.judge is not None:
            return JudgeRunner(self.book, self.judge, self.backends[self.judge.model.name])
        return EpisodeRunner(self.book, self.backends, in_flight=max(model.in_flight for model in self.models))

    async def play(self, leased: Sequence[Any]) -> AsyncIterator[dict[str, Any]]:
        """Stream of blocks (``records.Block.content``, ``judge_runner.Verdicts.content``) until all that is leased is out.

        What is leased are ordinals of episodes, or for a judge pairs of an ordinal and its answer.
        """
        assert self.crew is not None, "a lease came before the worker was ready"
        async for block in self.crew.play(leased):
            yield block.content()

    async def close(self) -> None:
        """Release every engine; the driver kills the actor afterwards."""
        for backend in self.backends.values():
            await backend.close()
