"""A two-node cluster without Ray: schedule, sink, store, log and episodes are real, workers and clock are simulated.

Equal seeds give equal runs. Workers die, nodes leave, and the driver dies between any two steps or in the middle of a command.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import SimpleNamespace

from actors.engine.baselines import Baseline
from actors.playing.episode_runner import EpisodeRunner
from orchestrator.execution.attempt_state import PreciseStops
from orchestrator.execution.live_control import LiveControl, take_waiting_commands
from orchestrator.execution.result_sink import ResultSink, build_failed_batch
from orchestrator.execution.retry_failed import requeue_episodes
from orchestrator.execution.score import score_folder
from orchestrator.planning.plan import Plan
from orchestrator.report.scores.metrics import write_results
from orchestrator.scheduling.commands import Abandon, Drop, GiveUp, Lease, Recall, Start, Stop
from orchestrator.scheduling.nodes import Node
from orchestrator.scheduling.resources import demands, shares
from orchestrator.scheduling.scheduler import Scheduler
from orchestrator.storage import control_log, lock, run_folder
from orchestrator.storage.control_state import read_control_state
from orchestrator.storage.episode_store import EpisodeStore, episodes
from sweeps.load import build
from sweeps.spec import Sweep

NODES = (Node("n1", 2), Node("n2", 2))
HOSTS = {"n1": "first", "n2": "second"}
MODELS, GPUS = ("m0", "m1", "m2", "wide"), {"wide": 2}
CONDITIONS = ("zero-shot", "hint", "reference")


class DriverKilled(Exception):
    """Ends the driver where a test wants it to die."""


def sweep_of(data: Path, names: Sequence[str] = MODELS, conditions: Sequence[str] = CONDITIONS, **fields) -> Sweep:
    """Return a sweep of models with one or two GPUs, each a group of its own, under these conditions in all scenarios."""
    models = [{"name": n, "source": n, "backend": "vllm", "gpus": GPUS.get(n, 1), "in_flight": 4} for n in names]
    table = {"name": "controlled", "data": str(data), "model": models}
    return build({**table, "conditions": list(conditions), **fields}, "controlled.toml")


@dataclass
class Cluster:
    """The driver as ``LiveControl`` sees it, together with the workers and nodes that it commands."""

    sweep: Sweep
    plan: Plan
    folder: Path
    chance: Random
    poison: set[int] = field(default_factory=set)
    """Ordinals of the episodes that kill the worker that plays them."""
    judge_queue: None = None
    time: float = 0.0

    def __post_init__(self) -> None:
        self.original = self.sweep, self.plan

    def begin(self) -> None:
        """Start a new driver of the run folder, which first takes the commands that were sent while no driver ran."""
        self.sweep, self.plan = self.original
        self.store = EpisodeStore(self.folder, rows=64, seconds=1e9)
        with run_folder.claim(self.folder, self.sweep, False):
            self.attempt_log = SimpleNamespace(folder=self.folder)
            take_waiting_commands(self.folder, self.plan)
        self.stops = PreciseStops(self.plan, self.folder)
        self.plan = self.plan.with_stops(self.stops.stops)
        self.sink = ResultSink(self.store, self.plan, on_stored=self.stops.add_batch)
        self.nodes: tuple[Node, ...] = NODES
        self.alive: dict[int, str] = {}
        """Worker -> its node."""
        self.leases: list[Lease] = []
        pending = self.plan.pending(set(self.store.finished_episodes()["key"]))
        group_demands = demands(self.sweep, 8, 4)
        self.schedule = Scheduler(pending, group_demands, 8, 4, NODES, shares(self.sweep, 4), self.plan.share_sample)
        control_state = read_control_state(self.folder)
        self.control = LiveControl(self, self.plan, self.folder, control_state)  # type: ignore[arg-type]
        self.act(self.schedule.on_begin(self.now()))

    def restart_driver(self) -> None:
        """Kill the driver and start another: its workers are lost, and what was not flushed."""
        lock.release(self.folder, "store")
        self.begin()

    def close(self) -> bytes:
        """End the run in good order; return the content of results.json."""
        self.store.compact()
        self.store.close()
        self.plan = self.plan.with_stops(PreciseStops(self.plan, self.folder).stops)
        write_results(self.folder, score_folder(self.plan, self.folder, ""))
        return (self.folder / "results.json").read_bytes()

    # -- what LiveControl uses --------------------------------------------------------------------------------------------
    def now(self) -> float:
        return self.time

    @property
    def pool(self) -> Cluster:
        return self

    def hosts(self) -> dict[str, str]:
        return HOSTS

    def drain(self, nodes) -> None:
        self.act(self.schedule.drain(nodes, self.now()))

    def act(self, commands) -> None:
        for command in commands:
            match command:
                case Start(slot, _, place):
                    self.alive[slot] = place.node
                case Lease():
                    self.leases.append(command)
                case Recall(slot, ordinals):
                    self._recall(slot, set(ordinals[self.chance.randint(0, 8) :]))
                case Stop(slot) | Drop(slot):
                    self._forget(slot)
                case GiveUp(ordinals, reason):
                    self.sink.add(build_failed_batch(self.plan, ordinals, reason))
                case Abandon(name, reason):
                    raise AssertionError(f"{name} is abandoned: {reason}")

    # -- events -----------------------------------------------------------------------------------------------------------
    def step(self, death_rate: float = 0.0) -> None:
        """Draw one event: a worker dies, is ready, or plays a part of a lease, or time passes."""
        self.time += self.chance.random() * 10
        starting = [slot for slot in self.alive if not self.schedule.slots[slot].ready]
        if self.alive and self.chance.random() < death_rate:
            return self._kill(self.chance.choice(sorted(self.alive)), "killed")
        if starting and (not self.leases or self.chance.random() < 0.5):
            return self.act(self.schedule.on_ready(self.chance.choice(starting), self.now()))
        if self.leases:
            return self._play(self.leases[self.chance.randrange(len(self.leases))])
        return self.act(self.schedule.on_tick(self.now()))

    def change_nodes(self) -> None:
        """Let one node be lost, or both be there; the workers of a lost node die."""
        self.nodes = self.chance.choice([NODES, NODES, NODES[:1], NODES[1:]])
        names = {node.name for node in self.nodes}
        self.act(self.schedule.on_nodes(self.nodes, 8, self.now()))
        for slot in [slot for slot, node in self.alive.items() if node not in names]:
            if slot in self.alive:
                self._kill(slot, "its node is gone")

    def _play(self, lease: Lease) -> None:
        """Play and deliver some of a lease's episodes, and end the lease if none remains; poison kills the worker."""
        first = lease.ordinals[: self.chance.randint(1, 6)]
        poisoned = next((number for number, ordinal in enumerate(first) if ordinal in self.poison), None)
        played = first[:poisoned]
        for batch in asyncio.run(self._batches(played)):
            self.sink.add(batch)
            self.act(self.schedule.on_delivery(lease.slot, lease.lease, batch.ordinals, self.now()))
            for name, unneeded in self.stops.take_new_stops().items():
                self.act(self.schedule.cancel(name, unneeded, self.now()))
        if lease.slot not in self.alive:
            return
        if poisoned is not None:
            return self._kill(lease.slot, "poison")
        index = next(number for number, open_lease in enumerate(self.leases) if open_lease.lease == lease.lease)
        remaining = [ordinal for ordinal in self.leases[index].ordinals if ordinal not in played]
        self.leases[index] = Lease(lease.slot, lease.lease, tuple(remaining))
        if not remaining:
            self.leases.pop(index)
            self.act(self.schedule.on_lease_end(lease.slot, lease.lease, self.now()))

    async def _batches(self, ordinals: Sequence[int]):
        backends = dict.fromkeys(MODELS, Baseline("uniform"))
        return [batch async for batch in EpisodeRunner(self.plan, backends, 8).play(ordinals)]

    def _recall(self, slot: int, recalled: set[int]) -> None:
        for index, lease in enumerate(self.leases):
            if lease.slot == slot:
                remaining = tuple(ordinal for ordinal in lease.ordinals if ordinal not in recalled)
                self.leases[index] = Lease(slot, lease.lease, remaining)

    def _kill(self, slot: int, reason: str) -> None:
        self._forget(slot)
        self.act(self.schedule.on_death(slot, reason, self.now()))

    def _forget(self, slot: int) -> None:
        self.alive.pop(slot, None)
        self.leases = [lease for lease in self.leases if lease.slot != slot]


class RandomOperator:
    """A person who sends random commands, some of them invalid, and undoes all of them in the end."""

    def __init__(self, cluster: Cluster, chance: Random) -> None:
        self.cluster, self.chance, self.sent = cluster, chance, 0

    def send_command(self) -> None:
        """Leave one command in the run folder."""
        verb = self.chance.choice(["pause", "resume", "cancel", "restore", "drain", "undrain", "odd"])
        self.sent += 1
        if verb == "odd":
            return self._write_odd_file()
        if verb in ("drain", "undrain"):
            return self._send(verb, self.chance.choice(["n1", "second", "n2", "nowhere", "n"]))
        return self._send(verb, self.chance.choice(["all", "m0", "m*/ROD", "*/*/hint", "wide/QD/reference", "nobody"]))

    def undo_all(self) -> None:
        """Send the commands that undo all others."""
        for verb, target in [
            ("resume", "all"), ("restore", "all"), ("undrain", "n1"), ("undrain", "n2"), ("undrain", "second"),
        ]:  # fmt: skip
            self._send(verb, target)

    def _send(self, verb, target: str) -> None:
        control_log.send_command(self.cluster.folder, control_log.parse_command(verb, target))

    def _write_odd_file(self) -> None:
        """Leave a file that no `ctl` wrote."""
        contents = [b"", b"\xff\x00", b"{}", b"[" * 9000, b'{"verb": "rm", "target": "/"}', b"x" * 20_000]
        name, _ = control_log.command_file(control_log.parse_command("pause", "all"))
        inbox = self.cluster.folder / control_log.INBOX
        inbox.mkdir(exist_ok=True)
        (inbox / name).write_bytes(self.chance.choice(contents))


def finish(cluster: Cluster) -> None:
    """Play to the end; a new driver plays failed episodes again until there is none."""
    for _ in range(100_000):
        cluster.control.poll()
        if cluster.schedule.done:
            cluster.store.flush()
            if not episodes(cluster.folder).filter(ending="failed").collect().height:
                return
            requeue_episodes(cluster.store, cluster.plan, cluster.folder)
            cluster.restart_driver()
        else:
            cluster.step()
    raise AssertionError("the sweep never ends")


def kill_driver_while_polling(cluster: Cluster, patch, logged: bool) -> None:
    """Kill the driver after it has done a command: after the command is written to the log if ``logged``, else before."""
    real_append = control_log._append

    def append(folder, entries):
        if logged:
            real_append(folder, entries)
        raise DriverKilled

    patch.setattr(control_log, "_append", append)
    with suppress(DriverKilled):
        cluster.control.poll()
    patch.setattr(control_log, "_append", real_append)
    cluster.restart_driver()
