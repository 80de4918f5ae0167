"""The timed faults and commands of a simulated run that hit its cluster, its driver, and a person's commands."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from envs.errors import RunFolderError
from orchestrator.storage import lock
from orchestrator.storage.episode_store import episodes, turns
from orchestrator.storage.verdict_store import verdicts
from tests.simulation.observed import ObservedDriver
from tests.simulation.schedule import Event

if TYPE_CHECKING:
    from tests.simulation.world import SimulatedRun

READERS = {"episodes": episodes, "turns": turns, "verdicts": verdicts}


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
    """Send a person's command; return False if the event is another one, or the run is in a bucket, which takes none."""
    if run.remote is not None:
        return False
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
        case "second process" if run.remote is None and run.folder.is_dir():
            run.ray.faults += _open_again(run.folder)
        case "move folder" if run.remote is None and run.folder.is_dir():
            run.folder.rename(run.moved)
        case _:
            return False
    return True


def _open_again(folder: Path) -> list[str]:
    """Open a folder as another process does; return a fault if its living driver does not keep it out."""
    try:
        with lock.hold(folder):
            return ["a second process has the folder of a living driver"]
    except RunFolderError:
        return []


def flip_bit(run: SimulatedRun, event: Event) -> None:
    """Flip a bit of a part; no reader may show another row, and what the part held need not be stored any more."""
    paths = sorted(path for name in READERS for path in run.folder.glob(f"{name}/*.parquet"))
    if not paths:
        return
    before = _read_tables(run.folder)
    path = _choose(paths, event)
    content = bytearray(path.read_bytes())
    content[int(event.value * 997 * len(content)) % len(content)] ^= 1 << int(event.value * 1000) % 8
    path.write_bytes(content)
    for name, rows in _read_tables(run.folder).items():
        assert rows <= before[name], f"{len(rows - before[name])} rows of {name} changed with a bit of {path.name}"
    run.promises.keys &= set(episodes(run.folder).select("key").collect()["key"])
    run.disk.move_to(run.folder)
    run.note(f"a bit of {path.parent.name}/{path.name} is flipped")


def _read_tables(folder: Path) -> dict[str, set[tuple[object, ...]]]:
    return {name: set(read(folder).collect().iter_rows()) for name, read in READERS.items()}


def move_back(run: SimulatedRun) -> None:
    """Move a run folder back that a person has moved away while its driver was running."""
    assert not run.folder.exists(), "a new run folder was made where the moved one was"
    run.moved.rename(run.folder)
    run.disk.move_to(run.folder)


def _choose(candidates: list[Any], event: Event) -> Any:
    return candidates[int(event.value * len(candidates)) % len(candidates)]
