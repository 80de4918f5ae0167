"""The Ray actors of a driver's workers: started, certified, stopped and killed by slot, with their GPUs and shared services."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayActorError, RayTaskError

from actors.engine.backend import BackendError, ModelStopped
from actors.engine.in_flight import StartReport
from actors.node.process_output import WorkerAddress
from actors.text.printable import list_first, one_line, say
from actors.trial.certificate import MAX_LISTED, Certificate
from actors.worker import Worker
from orchestrator.execution.cluster_view import GpuPlacement, Holding, placed_node
from orchestrator.execution.model_packages import start_installation
from orchestrator.execution.spending import Spending
from orchestrator.inspection.certificate import add_certificate
from orchestrator.judging.judge_queue import JudgeQueue
from orchestrator.planning.plan import Plan, judge_group, worker_group
from orchestrator.scheduling.commands import MODELS, Demand, Start
from orchestrator.scheduling.nodes import Place
from orchestrator.storage.loaded_weights import LoadedWeights
from sweeps.spec import ModelSpec, Sweep

BACKPRESSURE = 16
"""Batches that a worker may have ready before the driver takes them; bounds memory when the disk is slow."""
STOP_TIMEOUT_S = 5.0
"""Seconds an engine gets to close before its actor is killed."""
CERTIFY_TIMEOUT_S = 360.0
MESSAGES_PER_S = 100.0
"""Batches that the driver receives per second at most; 800 per second would take most of a core."""
FATAL_START_ERRORS = (ValueError, OSError, ImportError)
"""Errors of loading that any other worker would meet too: an unknown model, a missing package, a refused option."""
MAX_REQUESTS = 100_000
"""Calls that a worker may have at once; a judge's worker gets those of all workers that play."""
log = logging.getLogger(__name__)


@dataclass
class WorkerHandle:
    """A running worker."""

    group: str
    actor: Any
    address: WorkerAddress | None = None
    """Set when its process runs."""
    models: Sequence[ModelSpec] = ()
    """The entries of the sweep that it loads."""
    demand: Demand = field(default_factory=Demand)
    """The GPUs and CPUs that it reserves in Ray."""
    place: Place = field(default_factory=Place)
    """Where the scheduler counts its GPUs."""
    node: str = ""
    """The node whose GPUs and CPUs Ray has given to it; empty while it waits for them."""
    tasks: set[asyncio.Task[None]] = field(default_factory=set)
    trouble: str = ""
    """Why its service answers nothing now; empty if it answers, or has none."""
    is_asked: bool = False
    """True while it has not answered ``ask_trouble`` yet."""

    async def ask_trouble(self) -> None:
        """Ask why its service answers nothing now; this is shown beside a rate of zero, and logged once."""
        if self.is_asked:
            return
        self.is_asked = True
        trouble = await self.actor.describe_trouble.remote()
        if trouble and not self.trouble:
            log.warning("%s: %s", self.group, trouble)
        self.trouble, self.is_asked = trouble, False

    async def find_address(self, timeout: float) -> WorkerAddress:
        """Return where the worker runs; raises TimeoutError ``timeout`` seconds after Ray has placed it, however late."""
        address: asyncio.Future[WorkerAddress] = asyncio.ensure_future(resolve(self.actor.address.remote()))
        try:
            while not self.node and not address.done():
                await asyncio.wait({address}, timeout=1.0)
            self.address = reached = await asyncio.wait_for(address, timeout)
        finally:
            address.cancel()
        self.node = reached.node
        return reached


class WorkerPool:
    """The workers of one driver, by slot."""

    def __init__(
        self, sweep: Sweep, plan: Plan, demands: Mapping[str, Demand], folder: Path, judge_queue: JudgeQueue | None
    ) -> None:
        self.sweep, self.plan, self.demands, self.folder = sweep, plan, demands, folder
        self.judge_queue = judge_queue
        self.handles: dict[int, WorkerHandle] = {}
        self.turn_group = judge_group(sweep.serving_judge) if sweep.serving_judge else ""
        """The group of the judge that reads each turn while an episode waits; empty if no episode waits for an engine."""
        self.turn_judges: dict[int, Any] = {}
        """Slot -> actor of a ready worker of that judge; every worker that plays gets the current ones."""
        self.spending = Spending(sweep, folder)
        self.weights = LoadedWeights(folder)
        self.certified: set[str] = set()
        """Groups whose first worker is asked for certificates, or has answered."""
        self._placement, self._plan_ref = GpuPlacement(), ray.put(plan)
        self._ending: dict[int, WorkerHandle] = {}
        """Slot -> a stopped worker that closes its engine, and still holds its GPUs."""

    def stream(self, slot: int, ordinals: Sequence[int]) -> tuple[Any, list[int]]:
        """Start a lease; return its stream of batches and, for a judge, the ordinals whose answers are not in the store."""
        options = {"num_returns": "streaming", "_generator_backpressure_num_objects": BACKPRESSURE}
        worker, batch_age = self.handles[slot], len(self.handles) / MESSAGES_PER_S  # the more workers, the rarer
        if (queue := self.queue_of(worker.group)) is None:
            return worker.actor.play.options(**options).remote(list(ordinals), batch_age), []
        answers = queue.lease(ordinals)
        missing = set(ordinals) - {answer.ordinal for answer in answers}
        return worker.actor.judge_answers.options(**options).remote(answers, queue.reads, batch_age), sorted(missing)

    def start(self, start: Start) -> None:
        slot, name = start.slot, start.group
        queue = self.queue_of(name)
        judge = self.sweep.serving_judge if name == self.turn_group else queue.judge if queue else None
        models = [judge.model] if judge else [model for model in self.sweep.models if worker_group(model) == name]
        environment, packages = start_installation(models, start.place.node)
        options = self._placement.options(start, self.demands[name]) | environment
        actor = Worker.options(max_concurrency=MAX_REQUESTS, **options).remote(  # type: ignore[attr-defined]
            self._plan_ref, [*map(self.weights.pin, models)],
            str(Path(self.sweep.data).resolve()), judge, self.spending.ledger, *packages,
        )  # fmt: skip
        worker = self.handles[slot] = WorkerHandle(name, actor, None, models, self.demands[name], start.place)
        if self.turn_group:
            self._send_turn_judges([worker])

    def record_start(self, slot: int, report: StartReport) -> None:
        """Record the loaded weights; raises ModelStopped if the run has used other weights."""
        for model in self.handles[slot].models:
            if reason := self.weights.add(model, report.weights.get(model.name, "")):
                raise ModelStopped(reason)

    async def certify(self, worker: WorkerHandle) -> None:
        """Store what the first worker of a group makes of fixed requests as certificates of its models; raises OSError.

        A certificate that cannot be built is stored with the reason, and never stops a run. If the worker dies meanwhile, the
        group's next worker is asked.
        """
        models = [model for model in worker.models if model.backend != "builtin"]
        if not models or worker.group in self.certified:
            return
        self.certified.add(worker.group)
        ordinals, reason = {model.name: self.plan.first_ordinals(model.name) for model in models}, ""
        certificates: dict[str, Certificate] = {}
        try:
            certificates = await asyncio.wait_for(resolve(worker.actor.certify.remote(ordinals)), CERTIFY_TIMEOUT_S)
        except TimeoutError:
            reason = f"it took longer than {CERTIFY_TIMEOUT_S:.0f} s"
        except RayTaskError as problem:
            reason = str(problem.cause) or type(problem.cause).__name__
        except BaseException:
            self.certified.discard(worker.group)
            raise
        if reason:
            certificates = {m.name: Certificate(source=m.source, backend=m.backend, reason=reason) for m in models}
        for name, certificate in certificates.items():
            log.info("%s: %s", name, certificate.describe())
            if changed := add_certificate(self.folder, name, certificate):
                what = list_first(changed, MAX_LISTED, "; ")
                say(f"{name} does not receive what its certificate says: {what}")

    async def serve_turns(self, slot: int, on_heartbeat: Callable[[int], object]) -> None:
        """Let players send their requests to this worker of the judge, directly through Ray; raises when it dies.

        ``on_heartbeat`` is called every few seconds with the number of requests that the worker has answered.
        """
        self.turn_judges[slot] = self.handles[slot].actor
        self._send_turn_judges(self.handles.values())
        async for beat in self.turn_judges[slot].heartbeats.options(num_returns="streaming").remote():
            on_heartbeat(await beat)

    def _send_turn_judges(self, workers: Iterable[WorkerHandle]) -> None:
        for worker in workers:
            if worker.demand.pool == MODELS:
                worker.actor.set_judges.remote(self.turn_judges)

    def queue_of(self, name: str) -> JudgeQueue | None:
        """Return the judge's queue if the group is the judge's."""
        queue = self.judge_queue
        return queue if queue is not None and queue.group == name else None

    def stop(self, slot: int) -> None:
        """Let a worker close its engine in the background, then end it."""
        if not self.handles[slot].node:  # no process runs yet, so there is no engine to close
            self.kill(slot)
            return
        worker = self._ending[slot] = self._remove(slot)

        async def close() -> None:
            with contextlib.suppress(TimeoutError, RayActorError, RayTaskError):  # it is killed either way
                await asyncio.wait_for(resolve(worker.actor.close.remote()), STOP_TIMEOUT_S)
            ray.kill(worker.actor)
            self.spending.forget(worker.actor)
            self._placement.remove(slot)
            del self._ending[slot]

        worker.tasks.add(asyncio.create_task(close()))

    def kill(self, slot: int) -> None:
        """End a worker at once."""
        worker = self._remove(slot)
        for task in worker.tasks:
            task.cancel()
        ray.kill(worker.actor)
        self.spending.forget(worker.actor)
        self._placement.remove(slot)

    def find_placed(self) -> list[int]:
        """Return the slots of the workers that Ray has placed."""
        for worker in self.handles.values():
            worker.node = worker.node or placed_node(worker.actor)
        return [slot for slot, worker in self.handles.items() if worker.node]

    def holdings(self) -> list[Holding]:
        """Return the GPUs and CPUs of our placed workers, one holding for all workers of a shared GPU."""
        holdings = dict[int, Holding]()
        for slot, worker in (*self._ending.items(), *self.handles.items()):
            shared, demand = worker.place.shared, worker.demand  # a shared GPU has the number of its first slot
            if worker.node and shared is not None:
                holdings[shared] = worker.node, 1, demand.cpus
            elif worker.node:
                holdings[slot] = worker.node, demand.gpus, demand.cpus
        return list(holdings.values())

    def _remove(self, slot: int) -> WorkerHandle:
        worker = self.handles.pop(slot)
        if self.turn_judges.pop(slot, None) is not None:
            self._send_turn_judges(self.handles.values())
        return worker

    async def close(self) -> None:
        """End all workers, and save what they spent."""
        for slot in list(self.handles):
            self.kill(slot)
        self._placement.close()
        with contextlib.suppress(RayActorError, TimeoutError):
            await asyncio.wait_for(self.spending.save(), STOP_TIMEOUT_S)


async def resolve(ref: Any) -> Any:
    """Await a Ray reference; ``asyncio.wait_for`` needs a coroutine."""
    return await ref


def last_line(problem: BaseException | None) -> str:
    """Return the last line of an error, short enough for a table; for our own errors without the name of the class."""
    if isinstance(problem, RayTaskError) and isinstance(problem.cause, (BackendError, *FATAL_START_ERRORS)):
        problem = problem.cause
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    return one_line(lines[-1] if lines else type(problem).__name__)[:500]


def loss_reason(problem: BaseException | None, address: WorkerAddress | None) -> str:
    """Return the error in one line; if the worker died without raising, also name the file with its output."""
    if isinstance(problem, RayTaskError | ModelStopped) or address is None or not address.streams:
        return last_line(problem)
    return f"{last_line(problem)} (its output: {address.host}:{address.streams[-1]})"
