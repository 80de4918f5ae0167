"""Simulated Ray actors: processes with the real ``Worker`` class, and the replies and streams that they send, pickled."""

from __future__ import annotations

import asyncio
import contextvars
import pickle
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from ray.exceptions import ActorUnavailableError, ObjectLostError, RayActorError, RayTaskError

from tests.simulation.messages import Lease, Message, Stream

if TYPE_CHECKING:
    from tests.simulation.simulated_ray import SimulatedNode, SimulatedRay

START_S, MESSAGE_S = (0.2, 3.0), (0.0005, 0.02)
"""Least and most seconds that a process takes to start, and a message to arrive."""
LEASES = ("play", "judge_answers")
"""Methods whose first argument is a lease."""

current_actor: contextvars.ContextVar[ActorProcess] = contextvars.ContextVar("current_actor")


@dataclass(eq=False)
class ActorProcess:
    """An actor: first a request for resources, then a process."""

    ray: SimulatedRay
    number: int
    build: Callable[[], Any]
    options: Mapping[str, Any]
    is_group: bool = False
    """True for a placement group, which has resources and no process."""
    node: SimulatedNode | None = None
    instance: Any = None
    dead: bool = False
    hung: bool = False
    """True after SIGSTOP: nothing that it sends arrives."""
    tasks: set[asyncio.Task[None]] = field(default_factory=set)
    open_calls: dict[Message | Stream, None] = field(default_factory=dict)
    calls: list[Callable[[], None]] = field(default_factory=list)
    """Calls that wait for the process."""
    recalled: set[int] = field(default_factory=set)
    """Items that it was asked to leave out."""

    @property
    def gpus(self) -> float:
        return float(self.options.get("num_gpus", 0))

    @property
    def cpus(self) -> float:
        return float(self.options.get("num_cpus", 0))

    def begin(self) -> None:
        """Start the process, some time after its resources were found."""
        if self.is_group or self.dead:
            return

        def run() -> None:
            if not self.dead:
                self.instance = self.build()
                self.ray.running.append(self)
                for call in self.calls:
                    call()

        self.ray.later(self.ray.chance.uniform(*START_S), run)

    def call(self, method: str, arguments: Sequence[Any], options: Mapping[str, Any]) -> Message | Stream:
        streaming = options.get("num_returns") == "streaming"
        reply: Message | Stream = (
            Stream(options.get("_generator_backpressure_num_objects", 0)) if streaming else Message()
        )
        if self.dead:
            unnoticed = self.node is not None and self.node.known_alive and not self.node.alive
            _fail(reply, ActorUnavailableError("no connection", None) if unnoticed else RayActorError())
            return reply
        self.open_calls[reply] = None

        def start() -> None:
            work = partial(getattr(self.instance, method), *arguments)
            lease = Lease(method, arguments[0]) if method in LEASES else None
            if method == "recall":
                self.recalled.update(arguments[0])
            coroutine = self._stream(work, reply, lease) if isinstance(reply, Stream) else self._answer(work, reply)
            context = contextvars.copy_context()
            context.run(current_actor.set, self)
            task = asyncio.get_running_loop().create_task(coroutine, context=context)
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)

        self.ray.later(self.ray.chance.uniform(*MESSAGE_S), lambda: self._when_running(start))
        return reply

    def end(self, after: float = 0.0) -> None:
        """End the process; its callers notice ``after`` some seconds."""
        if self.dead:
            return
        self.dead = True
        for task in list(self.tasks):
            task.cancel()
        if self in self.ray.running:
            self.ray.running.remove(self)
        calls, self.open_calls = list(self.open_calls), {}
        self.ray.later(after, lambda: [_fail(call, RayActorError()) for call in calls])
        self.ray.place_waiting()

    def _when_running(self, start: Callable[[], None]) -> None:
        if self.dead:
            return
        if self.instance is None:
            self.calls.append(start)
        else:
            start()

    async def _answer(self, work: Callable[[], Any], reply: Message) -> None:
        try:
            value = pickle.loads(pickle.dumps(await work()))
            await asyncio.sleep(self.ray.chance.uniform(*MESSAGE_S))
        except Exception as problem:
            self._close(reply, _task_error(problem))
            return
        if not self.hung:
            self.open_calls.pop(reply, None)
            reply.succeed(value)

    async def _stream(self, call: Callable[[], Any], stream: Stream, lease: Lease | None) -> None:
        work = call()
        try:
            async for item in work:
                await stream.wait_for_room()
                await asyncio.sleep(self.ray.chance.uniform(*MESSAGE_S))
                if not self.hung:
                    self._send_item(pickle.dumps(item), stream)
                    self.ray.sent.update([] if lease is None else lease.take(item.ordinals))
            if lease is not None and not self.hung:
                self.ray.faults += lease.find_faults(self.recalled)
        except Exception as problem:
            self._close(stream, _task_error(problem))
            return
        finally:
            with suppress(RuntimeError):
                await work.aclose()
        self._close(stream, None)

    def _send_item(self, content: bytes, stream: Stream) -> None:
        """Send an item of a stream, doubled, late or lost if its number says so."""
        ray = self.ray
        ray.items += 1
        for _ in range(2 if ray.items in ray.doubled else 1):
            message = Message()
            stream.put(message)
            if ray.items in ray.lost_objects:
                message.fail(ObjectLostError(f"{ray.items:056x}", None, ""))
            elif ray.items in ray.late:
                ray.later(ray.late[ray.items], lambda m=message: m.succeed(pickle.loads(content)))  # type: ignore[misc]
            else:
                message.succeed(pickle.loads(content))

    def _close(self, reply: Message | Stream, problem: BaseException | None) -> None:
        if self.hung:
            return
        self.open_calls.pop(reply, None)
        if isinstance(reply, Stream):
            reply.end(problem)
        elif problem is not None:
            reply.fail(problem)


class ActorHandle:
    """What the driver has of an actor: ``actor.method.remote(...)``."""

    def __init__(self, process: ActorProcess) -> None:
        self._process, self._actor_id = process, _ActorId(process.number)

    def __getattr__(self, method: str) -> _Method:
        if method.startswith("__"):
            raise AttributeError(method)
        return _Method(self._process, method, {})


class _ActorId:
    def __init__(self, number: int) -> None:
        self.number = number

    def hex(self) -> str:
        return f"{self.number:032x}"


@dataclass(frozen=True)
class _Method:
    process: ActorProcess
    method: str
    chosen: Mapping[str, Any]

    def options(self, **options: Any) -> _Method:
        return _Method(self.process, self.method, options)

    def remote(self, *arguments: Any) -> Message | Stream:
        return self.process.call(self.method, arguments, self.chosen)


@dataclass(frozen=True)
class ActorClass:
    """Stands in for ``Worker``, Ray's actor class: ``Worker.options(...).remote(...)``."""

    ray: SimulatedRay
    real: type
    chosen: Mapping[str, Any] = field(default_factory=dict)

    def options(self, **options: Any) -> ActorClass:
        return ActorClass(self.ray, self.real, options)

    def remote(self, *arguments: Any, **named: Any) -> ActorHandle:
        return ActorHandle(self.ray.create(lambda: self.real(*arguments, **named), self.chosen))


def _fail(reply: Message | Stream, problem: BaseException) -> None:
    if isinstance(reply, Stream):
        reply.end(problem)
    else:
        reply.fail(problem)


def _task_error(problem: Exception) -> BaseException:
    """Return an error of a method as Ray raises it: an instance of RayTaskError and of its own class."""
    return RayTaskError("method", str(problem), problem).as_instanceof_cause()
