"""The Ray actor that loads engines and plays leases on the devices that Ray assigns.

Ray never replays its streams, which would lose and repeat episodes.
"""

import os
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import ActorUnavailableError, RayActorError

from actors.engine.backend import Backend, Reply, Request
from actors.engine.budget import Ledger
from actors.engine.in_flight import StartReport, choose_in_flight
from actors.engine.registry import freeze_heap, load_engine
from actors.engine.weights import loaded_weights
from actors.node.process_output import WorkerAddress, output_files
from actors.playing.episode_runner import EpisodeRunner, PlanView, judge_needed
from actors.playing.judge import TurnJudge
from actors.playing.judge_runner import JudgeRunner, LeasedAnswer
from actors.playing.records import EpisodeBatch, VerdictBatch
from actors.playing.served_judge import RemoteJudge, ServedJudge
from actors.trial.certificate import Certificate
from actors.trial.certify import record_inputs
from sweeps.spec import Judge, ModelSpec

SharedLedger = ray.remote(num_cpus=0, max_restarts=0, max_concurrency=100_000)(Ledger)
"""The ledger in its own process; every waiting request of every worker is one call."""


@ray.remote(num_cpus=0, max_restarts=0, max_task_retries=0)
class Worker:
    """An actor that plays leases of one group of models, or judges answers."""

    def __init__(
        self,
        plan: PlanView,
        models: Sequence[ModelSpec],
        data: str,
        judge: Judge | None = None,
        ledger: Any = None,
        packages: str = "",
        *install_errors: str,
    ) -> None:
        """
        Args:
            plan: the plan whose ordinals are leased.
            models: the models to load; for a ``judge``, which gets leases of answers, only its own.
            data: the benchmark folder.
            ledger: the ``SharedLedger`` of a sweep with a budget.
            packages: the folder of its own packages, first in ``sys.path``; empty if it has none.
            install_errors: why that folder could not be installed, one text a node, before this process began.
        """
        self.plan, self.models, self.data, self.judge, self.ledger = plan, models, Path(data), judge, ledger
        self.packages, self.install_errors = packages, install_errors
        self.backends: dict[str, Backend] = {}
        self.engines: list[Backend] = []
        """The models' backends, and the judge's if it answers in this process."""
        self.turn_judge: TurnJudge | None = None
        """Judges answers while their episodes wait, if a model plays ``oeg-multi``."""
        self.remote_judge = RemoteJudge(RayActorError, ActorUnavailableError)
        """The judge's workers, if that judge has its own engine."""
        self.served: ServedJudge | None = None
        """The engine of a judge's worker, as other workers see it."""
        self.runner: EpisodeRunner | JudgeRunner | None = None

    async def address(self) -> WorkerAddress:
        """Return where this worker runs; called before it loads, so that the output of a failed load can be read."""
        node, devices = ray.get_runtime_context().get_node_id(), os.environ.get("CUDA_VISIBLE_DEVICES", "")
        return WorkerAddress(socket.gethostname(), os.getpid(), node, devices, output_files())

    async def start(self, staged: str = "") -> StartReport:
        """Load the engines and report their log lines and how many episodes they play at once.

        ``staged`` is the data folder on this node, if the data were copied here. Raises the errors of ``load_engine``, and
        ImportError or RuntimeError if this node lacks its packages.
        """
        if reason := next(filter(None, self.install_errors), ""):
            raise ImportError(reason)
        if self.packages and not Path(self.packages).is_dir():
            raise RuntimeError(f"{socket.gethostname()} has no {self.packages}: Ray placed the worker on another node")
        lines: list[str] = []
        self.data = Path(staged) if staged else self.data

        def report(line: str) -> None:
            print(line, flush=True)
            lines.append(line)

        for model in self.models:
            self.backends[model.name] = self._load(model, report)
        judge = None if self.judge else judge_needed(self.plan, self.backends.keys())
        if judge is not None:
            backend = self.remote_judge if judge.needs_workers else self._load(judge.model, report)
            self.turn_judge = TurnJudge(judge, backend)
        freeze_heap()
        episodes = max(choose_in_flight(model, self.backends[model.name].cache_tokens) for model in self.models)
        self.runner = self._open_runner(episodes)
        if all(model.backend == "builtin" for model in self.models):
            return StartReport(lines)
        report(f"plays {episodes:,} episodes at once")
        return StartReport(lines, episodes, loaded_weights(self.models))

    def _load(self, model: ModelSpec, report: Callable[[str], None]) -> Backend:
        backend = load_engine(model, self.data, ray.get_gpu_ids(), report)
        self.engines.append(backend)
        if self.ledger is not None:
            backend.set_budget(self.ledger, ray.get_runtime_context().get_actor_id())
        return backend

    def _open_runner(self, in_flight: int) -> EpisodeRunner | JudgeRunner:
        if self.judge is not None:
            self.served = ServedJudge(self.backends[self.judge.model.name])
            return JudgeRunner(self.plan, self.judge, self.served.backend, in_flight)
        return EpisodeRunner(self.plan, self.backends, in_flight, self.turn_judge)

    async def certify(self, ordinals: Mapping[str, Sequence[int]]) -> dict[str, Certificate]:
        """Record the inputs of each model for the certificate, before any request is in flight."""
        models = {model.name: model for model in self.models}
        return {
            name: await record_inputs(self.plan, models[name], self.backends[name], self.data, episodes)
            for name, episodes in ordinals.items()
        }

    async def play(self, ordinals: Sequence[int], batch_age: float = 0.0) -> AsyncIterator[EpisodeBatch]:
        """Stream batches, each at most ``batch_age`` seconds old, until every leased episode has ended."""
        assert isinstance(self.runner, EpisodeRunner), "play() called before start(), or on a judge's worker"
        async for batch in self.runner.play(ordinals, batch_age):
            yield batch

    async def judge_answers(
        self, answers: Sequence[LeasedAnswer], reads: bool, batch_age: float = 0.0
    ) -> AsyncIterator[VerdictBatch]:
        """Stream batches until every leased answer has its verdict; ``reads`` as in ``JudgeRunner.judge``."""
        assert isinstance(self.runner, JudgeRunner), "judge_answers() called before start(), or on a model's worker"
        async for batch in self.runner.judge(answers, reads, batch_age):
            yield batch

    async def set_judges(self, workers: Mapping[int, Any]) -> None:
        """Replace the judge's workers, by slot, that judge the answers of this worker's episodes."""
        await self.remote_judge.set_workers(workers)

    async def reply(self, request: Request) -> Reply:
        """Answer another worker's request (``ServedJudge.reply``)."""
        assert self.served is not None, "reply() called before start(), or on a model's worker"
        return await self.served.reply(request)

    async def heartbeats(self) -> AsyncIterator[int]:
        """Stream ``ServedJudge.heartbeats`` until the worker is ended."""
        assert self.served is not None, "heartbeats() called before start(), or on a model's worker"
        async for ended in self.served.heartbeats():
            yield ended

    async def recall(self, ordinals: Sequence[int]) -> None:
        """Skip the leased episodes or answers that have not begun; their leases end without them."""
        if self.runner is not None:
            self.runner.recall(frozenset(ordinals))

    async def describe_trouble(self) -> str:
        """Return why the engines answer no request now; empty if they do."""
        return "; ".join(filter(None, (backend.describe_trouble() for backend in self.engines)))

    async def close(self) -> None:
        """Release every engine; the driver kills the actor afterwards."""
        for backend in self.engines:
            await backend.close()
