"""The timed faults and commands of a simulated run that hit its cluster, its driver, and a person's commands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.simulation.observed import ObservedDriver
from tests.simulation.schedule import Event

if TYPE_CHECKING:
    from tests.simulation.world import SimulatedRun


def happen(run: SimulatedRun, event: Event, driver: ObservedDriver) -> bool:
    """Let a fault happen; return False if it is another one, or there is nothing to hit."""
    return _hit_cluster(run, event) or _command(run, event) or _hit_driver(run, event, driver)


def _hit_cluster(run: SimulatedRun, event: Event) -> bool:
    """Let workers or nodes fail; return False if the event is another one, or there is nothing to hit."""
    ray, alive = run.ray, [node for node in run.ray.all_nodes if node.alive]
    match event.kind:
        case "kill actor" if ray.running:
            _choose(ray.running, event).end()
        case "hang actor" if ray.running:
            _choose(ray.running, event).hung = True
        case "kill node" if len(alive) > 1:
            node = _choose(alive[1:], event)  # the driver is on the first
            ray.kill_node(node)
            ray.later(30.0 + 60.0 * event.value, lambda: ray.join_node(node))
        case "poison":
            run.poisoned.add(_choose(run.keys, event))
        case _:
            return False
    return True


def _command(run: SimulatedRun, event: Event) -> bool:
    """Send a person's command; return False if the event is another one."""
    nodes = [node.name for node in run.ray.all_nodes if node.alive]
    match event.kind:
        case "pause":
            run.owe("resume", "all", 1.0 + 30.0 * event.value)
            run.send("pause", "all")
        case "drain" if len(nodes) > 1:
            name = _choose(nodes, event)
            run.owe("undrain", name, 10.0 + 30.0 * event.value)
            run.send("drain", name)
        case _:
            return False
    return True


def _hit_driver(run: SimulatedRun, event: Event, driver: ObservedDriver) -> bool:
    """Stop the driver or move its folder; return False if the event is another one."""
    match event.kind:
        case "stop":
            driver.stop()
        case "move folder" if run.remote is None and run.folder.is_dir():
            run.folder.rename(run.moved)
        case _:
            return False
    return True


def move_back(run: SimulatedRun) -> None:
    """Move a run folder back that a person has moved away while its driver was running."""
    assert not run.folder.exists(), "a new run folder was made where the moved one was"
    run.moved.rename(run.folder)
    run.disk.move_to(run.folder)


def _choose(candidates: list[Any], event: Event) -> Any:
    return candidates[int(event.value * len(candidates)) % len(candidates)]
