"""Sweeps on the simulated cluster with faults: estimates that are wrong, workers that are slow, die, or fall silent."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

from orchestrator.scheduling.commands import Command, Demand, Start
from orchestrator.scheduling.forecast.lower_bound import Work
from orchestrator.scheduling.forecast.simulator import Replica, SimulatedSweep, Simulation
from orchestrator.scheduling.nodes import Node
from orchestrator.scheduling.scheduler import Scheduler


@dataclass(frozen=True, slots=True)
class FaultModel:
    """Injected faults and errors of the estimates."""

    seed: int = 0
    deaths: float = 0.0
    """Share of started workers that die, at a random time of the life they would have had."""
    silent: float = 0.0
    """Share of the deaths without an event: the worker only stops sending."""
    skew: float = 0.0
    """Spread (sigma of a log-normal) of a model's true rate and start around the scheduler's estimates."""
    slowdown: float = 0.0
    """Maximum share by which a replica is slower, and starts later, than its model's true values."""


class FaultySimulation(Simulation):
    """A simulation whose workers are slow, die, or fall silent."""

    def __init__(
        self, schedule: Scheduler, works: Mapping[str, Work], reads: Mapping[int, int], faults: FaultModel
    ) -> None:
        super().__init__(schedule, works, reads)
        self.faults = faults

    def _start(self, start: Start, work: Work) -> None:
        chance = Random(f"{self.faults.seed}/{start.slot}/{start.group}")
        slowdown = self.faults.slowdown * chance.random()
        phases = work.phases.scaled(1.0 + slowdown) if work.phases else None
        seconds, rate = work.start * (1.0 + slowdown), work.rate * (1.0 - slowdown)
        super()._start(start, replace(work, rate=rate, start=seconds, phases=phases))
        replicas = sum(other.span.group == start.group for other in self.replicas.values())
        life = seconds + self.schedule.remaining(self.schedule.groups[start.group]) / work.rate / replicas
        if chance.random() < self.faults.deaths:
            replica, silent = self.replicas[start.slot], chance.random() < self.faults.silent
            self._at(self.now + life * chance.random(), lambda: self._die(replica, silent))

    def _die(self, replica: Replica, silent: bool) -> Sequence[Command]:
        if replica.gone:
            return []
        if silent and replica.span.ready is not None:
            replica.gone = True
            return []
        self._end(replica.span.slot, "lost")
        return self.schedule.on_death(replica.span.slot, "died", self.now)


def true_work(episodes: int, demand: Demand, faults: FaultModel, name: str) -> Work:
    """Return a model's work, with a true rate and start drawn around those of its demand."""
    chance = Random(f"{faults.seed}/{name}")
    rate = (demand.rate or 1.0) * chance.lognormvariate(0.0, faults.skew)
    return Work(episodes, demand.gpus, rate, demand.start * chance.lognormvariate(0.0, faults.skew), demand.concurrency)


def simulate(
    pending: Mapping[str, Sequence[int]],
    demands: Mapping[str, Demand],
    gpus: int,
    faults: FaultModel = FaultModel(),
    nodes: Sequence[Node] = (),
    shares: Mapping[str, float] | None = None,
    works: Mapping[str, Work] | None = None,
) -> SimulatedSweep:
    """Play a sweep as ``simulator.simulate`` does, with faults; the true ``works`` are by default drawn from them."""
    works = works or {name: true_work(len(queue), demands[name], faults, name) for name, queue in pending.items()}
    simulation = FaultySimulation(Scheduler(pending, demands, 0, gpus, nodes, shares), works, {}, faults)
    return simulation.run(pending)
