"""The Ray actor that loads engines and plays leases on the devices Ray gave it.

It owns its engines from start to end; Ray never replays its streams (that would lose and double episodes).
"""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import ActorUnavailableError, RayActorError

from actors import host_metrics, trial
from actors.backend import Backend, Reply, Request
from actors.engine_loader import keep_heap, load
from actors.episode_runner import EpisodeRunner, PlanView, judge_needed
from actors.in_flight import Ready, chosen
from actors.judge_runner import JudgeRunner, LeasedAnswer
from actors.ledger import Ledger, RemoteBudget
from actors.process_output import WorkerAddress, excerpt, streams
from actors.records import EpisodeBatch, VerdictBatch
from actors.served_judge import RemoteJudge, ServedJudge
from actors.turn_judge import TurnJudge
from sweeps.spec import Judge, ModelSpec


@ray.remote(num_cpus=0, max_retries=0)  # type: ignore[untyped-decorator]
def printed(paths: Sequence[str]) -> str:
    """What a worker printed, read on the node where the files are; works without the dashboard and without shared disks."""
    return excerpt(paths)


@ray.remote(num_cpus=0, max_retries=0)  # type: ignore[untyped-decorator]
def busy() -> dict[str, float]:
    """How busy the node is that this runs on."""
    return host_metrics.load()


SharedLedger = ray.remote(num_cpus=0, max_restarts=0, max_concurrency=100_000)(Ledger)
"""The ledger in a process of its own; every waiting request of every worker is one call."""


@ray.remote(num_cpus=0, max_restarts=0, max_task_retries=0)
class Worker:
    """Plays leases of one group of models, or reads answers as a judge."""

    def __init__(
        self,
        plan: PlanView,
        models: Sequence[ModelSpec],
        data: str,
        judge: Judge | None = None,
        ledger: Any = None,
        run: str = "",
    ) -> None:
        """With a ``judge`` the leases are answers to read, and ``models`` is the judge's alone.

        ``ledger``: the ``SharedLedger`` of the sweep, where its money is bounded. ``run`` marks the run folder's batches.
        """
        self.plan, self.models, self.data, self.judge, self.ledger = plan, models, Path(data), judge, ledger
        self.run = run
        self.backends: dict[str, Backend] = {}
        self.turn_judge: TurnJudge | None = None
        """Who reads answers while their episodes wait, where some of the models play ``oeg-multi``."""
        self.remote_judge = RemoteJudge(RayActorError, ActorUnavailableError)
        """The judge's workers, where that judge has an engine of its own."""
        self.served: ServedJudge | None = None
        """The engine of a judge's worker, as other workers ask it."""
        self.runner: EpisodeRunner | JudgeRunner | None = None

    async def place(self) -> WorkerAddress:
        """Where this worker runs; asked for before it loads, so that what a dying loader printed can be found."""
        node = ray.get_runtime_context().get_node_id()
        return WorkerAddress(
            socket.gethostname(), os.getpid(), node, os.environ.get("CUDA_VISIBLE_DEVICES", ""), streams()
        )

    async def ready(self, staged: str = "") -> Ready:
        """Load the engines; answers what they reported about devices and the order of loading, and what they play at once.

        ``staged`` is where the data lie on this node, if they were brought here.

        Raises what ``load`` raises, so that the driver learns the reason and not only of a death.
        """
        lines: list[str] = []
        self.data = Path(staged) if staged else self.data

        def report(line: str) -> None:
            print(line, flush=True)
            lines.append(line)

        for model in self.models:
            self.backends[model.name] = self._loaded(model, report)
        reader = None if self.judge else judge_needed(self.plan, self.backends.keys())
        if reader is not None:
            asked = self.remote_judge if reader.served else self._loaded(reader.model, report)
            self.turn_judge = TurnJudge(reader, asked)
        keep_heap()
        found = [chosen(model, getattr(self.backends[model.name], "cache_tokens", None)) for model in self.models]
        most = max(found, key=lambda one: one.episodes)
        self.runner = self._runner(most.episodes)
        if all(model.backend == "builtin" for model in self.models):
            return Ready(lines)
        report(str(most))
        return Ready(lines, most.episodes)

    def _loaded(self, model: ModelSpec, report: Callable[[str], None]) -> Backend:
        """The model's engine, within the sweep's budget where it is a service."""
        backend = load(model, self.data, ray.get_gpu_ids(), report)
        if self.ledger is not None and model.backend == "openai":
            holder = ray.get_runtime_context().get_actor_id()
            backend.budget = RemoteBudget(self.ledger, model.name, holder)  # type: ignore[attr-defined]
        if model.batch:
            backend.run = self.run  # type: ignore[attr-defined]
        return backend

    def _runner(self, in_flight: int) -> EpisodeRunner | JudgeRunner:
        if self.judge is not None:
            self.served = ServedJudge(self.backends[self.judge.model.name])
            return JudgeRunner(self.plan, self.judge, self.served.backend, in_flight)
        return EpisodeRunner(self.plan, self.backends, in_flight, self.turn_judge)

    async def play(self, ordinals: Sequence[int]) -> AsyncIterator[EpisodeBatch]:
        """Stream of batches until every leased episode is out."""
        assert isinstance(self.runner, EpisodeRunner), "play() called before ready(), or on a judge's worker"
        async for batch in self.runner.play(ordinals):
            yield batch

    async def judge_answers(self, answers: Sequence[LeasedAnswer]) -> AsyncIterator[VerdictBatch]:
        """Stream of batches until every leased answer has its verdict."""
        assert isinstance(self.runner, JudgeRunner), "judge_answers() called before ready(), or on a model's worker"
        async for batch in self.runner.judge(answers):
            yield batch

    async def set_judges(self, workers: Mapping[int, Any]) -> None:
        """From now on these workers of the judge, by slot, read what this one's episodes are answered."""
        await self.remote_judge.set_workers(workers)

    async def reply(self, request: Request) -> Reply:
        """Answer another worker's request (``ServedJudge.reply``)."""
        assert self.served is not None, "reply() called before ready(), or on a model's worker"
        return await self.served.reply(request)

    async def heartbeats(self) -> AsyncIterator[int]:
        """Stream of ``ServedJudge.heartbeats``, until the worker is ended."""
        assert self.served is not None, "heartbeats() called before ready(), or on a model's worker"
        async for answered in self.served.heartbeats():
            yield answered

    async def recall(self, ordinals: Sequence[int]) -> None:
        """Leave out what is not begun of these leased episodes or answers; their leases end without them."""
        if self.runner is not None:
            self.runner.recall(frozenset(ordinals))

    async def set_in_flight(self, episodes: int) -> None:
        """Play so many at once from the next lease on, where one of a service's limits allows it."""
        if self.runner is not None:
            self.runner.in_flight = episodes
        for backend in self.backends.values():
            if (pace := getattr(backend, "pace", None)) is not None:
                pace.bound(episodes)

    async def tried(self, ordinals: Sequence[int]) -> trial.Tried:
        """What ``models try`` asks of a worker that is ready; its only engine is closed afterwards."""
        (model,) = self.models
        return await trial.tried(self.plan, model, self.backends[model.name], self.data, ordinals)

    async def close(self) -> None:
        """Release every engine; the driver kills the actor afterwards."""
        for backend in (*self.backends.values(), *([self.turn_judge.backend] if self.turn_judge else [])):
            await backend.close()
