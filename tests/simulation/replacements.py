"""Replacements of Ray, the clock, the event loop and the engines, in the modules that use them."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import importlib.metadata
import io
import logging
import os
import socket
import sys
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import polars as pl

import actors.worker
from actors.trial import certify
from orchestrator.execution import attempt as attempt_module
from orchestrator.execution import cluster_view, driver, play, ray_cluster, startup_checks, worker_pool
from orchestrator.execution import score as score_module
from orchestrator.planning import pictures
from orchestrator.planning.build_plan import stored_episodes
from orchestrator.planning.plan import Plan
from orchestrator.storage import control_log, episode_store, lock, software
from orchestrator.storage.verdict_store import verdicts
from sweeps.spec import ModelSpec, Sweep
from tests.simulation import simulated_tables
from tests.simulation.observed import ObservedDriver, ObservedStore
from tests.simulation.schedule import uses_parquet
from tests.simulation.scripted import ScriptedEngine
from tests.simulation.simulated_actor import ActorClass
from tests.simulation.virtual_threads import SerialPool
from tests.simulation.virtual_time import VirtualClock, VirtualPolicy

if TYPE_CHECKING:
    from tests.simulation.world import SimulatedRun

_read_version_once, _read_commit_once = functools.cache(importlib.metadata.version), functools.cache(software.commit)
"""They are the same in every attempt of this process."""
_scores: dict[tuple[Any, ...], pl.DataFrame] = {}
"""Stored rows -> the scores that they gave: most attempts of a sweep end with the same episodes."""
MOST_SMALL = 3
"""Small parts before a merge: a simulated run is short, and faults must meet merges, too."""
DATED = tuple(module.__name__ for module in (control_log, lock))
"""Modules that write the time of day."""
NO_PROCESS = 9_999_999
"""A number that no process has."""
REAL_SCORE = score_module.score_folder
REAL_WORKER = actors.worker.Worker.__ray_metadata__.modified_class.__bases__[0]


@contextlib.contextmanager
def simulated(run: SimulatedRun) -> Iterator[None]:
    """Replace Ray, clock, disk, loop and engines in a block, in the modules that use them."""
    patches = contextlib.ExitStack()

    def replace(target: Any, name: str, value: Any) -> None:
        patches.enter_context(mock.patch.object(target, name, value))

    ray = _Current(run)
    for module in (worker_pool, ray_cluster, cluster_view, actors.worker):
        replace(module, "ray", ray)
    replace(worker_pool, "Worker", _CurrentWorker(run))
    replace(cluster_view, "placement_group", lambda *a, **k: run.ray.placement_group(*a, **k))
    replace(cluster_view, "remove_placement_group", lambda group: run.ray.remove_placement_group(group))
    replace(cluster_view, "actors", lambda actor: run.ray.describe_actor(actor))
    replace(cluster_view, "draining_nodes", frozenset)
    replace(cluster_view, "available_resources_per_node", lambda: run.ray.available_resources())
    replace(driver, "request_resources", lambda bundles: None)
    replace(play, "Driver", lambda *a: ObservedDriver(run, *a))
    replace(attempt_module, "EpisodeStore", lambda folder: ObservedStore(run, folder))
    replace(actors.worker, "load_engine", lambda model, *rest: ScriptedEngine(model, run.chance, run.poisoned))
    replace(actors.worker, "freeze_heap", lambda: None)
    replace(certify, "_open_package_call", _open_no_package)
    replace(episode_store, "MOST_SMALL", MOST_SMALL)
    replace(importlib.metadata, "version", _read_version_once)
    replace(score_module, "score_folder", _score_once)
    replace(software, "commit", _read_commit_once)
    replace(pictures, "shows_pictures", lambda cell: False)
    replace(startup_checks, "ThreadPoolExecutor", SerialPool)
    if run.remote:
        patches.enter_context(run.remote.replaced(replace))
    for module in list(sys.modules.values()):
        if module.__name__.startswith(("orchestrator", "actors")):
            replace_clock(module, run.clock, replace)
    replace_process(replace)
    if not uses_parquet(run.schedule.seed):
        simulated_tables.replace_parquet(replace)
    before, policy = os.environ.get("RAY_ADDRESS"), asyncio.get_event_loop_policy()
    os.environ["RAY_ADDRESS"] = "simulated:1"
    asyncio.set_event_loop_policy(VirtualPolicy(run.clock, run.before_step))
    logging.disable(logging.CRITICAL)
    try:
        with run.disk.mounted(), contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        logging.disable(logging.NOTSET)
        asyncio.set_event_loop_policy(policy)
        os.environ.pop("RAY_ADDRESS") if before is None else os.environ.update(RAY_ADDRESS=before)
        patches.close()


async def _open_no_package(model: ModelSpec) -> None:
    """Stand for the package's own call of a model, whose weights the simulation does not have."""


def replace_clock(module: types.ModuleType, clock: VirtualClock, replace: Callable[[Any, str, Any], None]) -> None:
    """Replace the module ``time`` and the clocks that a module has imported from it."""
    if getattr(module, "time", None) is time:
        replace(module, "time", clock)
    for name in ("monotonic", "perf_counter"):
        if getattr(module, name, None) is getattr(time, name):
            replace(module, name, getattr(clock, name))
    if module.__name__ in DATED:
        replace(module, "datetime", types.SimpleNamespace(now=clock.date))


def replace_process(replace: Callable[[Any, str, Any], None]) -> None:
    """Replace what differs between two processes and machines and is written into files."""
    replace(lock, "os", _NumberedProcess())
    replace(socket, "gethostname", lambda: "simulated")
    replace(sys, "argv", ["simulated"])


def _score_once(plan: Plan, sweep: Sweep, output: Path, judge: str) -> pl.DataFrame:
    """Score equal rows once: all that scores depend on are the stored episodes and verdicts, but for their times."""
    tables = stored_episodes(plan, output), verdicts(output)
    rows = [frozenset(table.drop("seconds").collect().rows()) for table in tables]
    key = (tuple(cell.key for cell in plan.cells), judge, *rows)
    if key not in _scores:
        _scores[key] = REAL_SCORE(plan, sweep, output, judge)
    return _scores[key]


class _NumberedProcess:
    """The module ``os`` of a process with a fixed number."""

    def __getattr__(self, name: str) -> Any:
        return (lambda: NO_PROCESS) if name == "getpid" else getattr(os, name)


class _Current(types.SimpleNamespace):
    """The module ``ray``: that of the attempt which runs now."""

    def __init__(self, run: SimulatedRun) -> None:
        super().__init__()
        self._run = run

    def __getattr__(self, name: str) -> Any:
        return getattr(self._run.ray, name)


class _CurrentWorker:
    def __init__(self, run: SimulatedRun) -> None:
        self.run = run

    def options(self, **options: Any) -> ActorClass:
        return ActorClass(self.run.ray, REAL_WORKER, options)
