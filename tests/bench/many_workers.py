"""A driver with hundreds of workers that stream at a fixed pace: its processor use, and whether it keeps up.

``python -m tests.bench.many_workers FOLDER WORKERS SECONDS`` prints one JSON line. Everything of a run is real, Ray's streams
too, but the workers: a few actors stand in for all of them, and send rows made of one played episode.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import ray

from actors.engine.baselines import Baseline
from actors.engine.in_flight import StartReport
from actors.node.process_output import WorkerAddress
from actors.playing.play import Episode, play
from actors.playing.records import EpisodeBatch, PlayedEpisode, episode_batch
from envs import SCENARIOS
from orchestrator.execution import driver
from orchestrator.execution.attempt import run
from orchestrator.execution.worker_pool import WorkerHandle, WorkerPool
from orchestrator.planning.plan import Plan
from orchestrator.scheduling.commands import Start
from sweeps.load import build
from tests.bench.sweep import CONDITIONS
from tests.benchmark import repeat_lines

PACE = 12
"""Episodes a second of one worker; a batch leaves after a second, or later where the pool has many workers."""
MODELS = 22
HOSTS = 2
"""Processes that stand in for workers."""


@ray.remote(num_cpus=0, max_concurrency=5000)
class Crowd:
    """Streams the leases of many workers, each at ``PACE``."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.played: Episode | None = None
        self.free: dict[int, asyncio.Lock] = defaultdict(asyncio.Lock)
        """Slot -> the lock that its leases wait for: a worker plays one lease after another."""

    async def play(self, slot: int, ordinals: Sequence[int], batch_age: float) -> AsyncIterator[EpisodeBatch]:
        """Play a lease; a batch is at least as old as the pool asks."""
        async with self.free[slot]:
            size = round(PACE * max(1.0, batch_age))
            for first in range(0, len(ordinals), size):
                leased = ordinals[first : first + size]
                ready = time.monotonic() + len(leased) / PACE
                yield episode_batch([await self._episode(ordinal) for ordinal in leased])
                await asyncio.sleep(max(0.0, ready - time.monotonic()))

    async def _episode(self, ordinal: int) -> PlayedEpisode:
        index, sample = self.plan.task(ordinal)
        cell, key = self.plan.cells[index], self.plan.key(index, sample)
        if self.played is None:
            self.played = await play(sample, cell, Baseline("uniform"), key, 0)
        return PlayedEpisode(ordinal, cell, self.played._replace(key=key, sample=sample))


class Call:
    """A method of an actor that is one of the crowd's workers."""

    def __init__(self, send: Any) -> None:
        self.remote = send

    def options(self, **options: Any) -> Call:
        return Call(self.remote(**options))


class StandIn:
    """Stands in for the handle of an actor."""

    def __init__(self, crowd: Any, slot: int) -> None:
        address = WorkerAddress("bench", os.getpid(), ray.get_runtime_context().get_node_id(), "", ())
        self.address, self.start = Call(lambda: _soon(address)), Call(lambda staged: _soon(StartReport([], PACE)))
        self.play = Call(lambda **options: partial(crowd.play.options(**options).remote, slot))
        self.close = Call(lambda: _soon(None))
        self.recall = Call(lambda ordinals: None)


async def _soon(value: Any) -> Any:
    return value


class CrowdPool(WorkerPool):
    """A pool whose workers are a crowd's."""

    def start(self, start: Start) -> None:
        if not hasattr(self, "crowds"):
            self.crowds = [Crowd.remote(self._plan_ref) for _ in range(HOSTS)]
        actor = StandIn(self.crowds[start.slot % HOSTS], start.slot)
        self.handles[start.slot] = WorkerHandle(start.group, actor)

    def stop(self, slot: int) -> None:
        self.handles.pop(slot)

    def kill(self, slot: int, lost: bool = False) -> None:
        for task in self.handles.pop(slot).tasks:
            task.cancel()


def table(folder: Path, workers: int, seconds: float) -> dict[str, Any]:
    """A sweep that so many workers play for so many seconds, and its data."""
    names = range(min(MODELS, workers))
    each = math.ceil(PACE * workers * seconds / (len(names) * len(CONDITIONS) * len(SCENARIOS)))
    model = {"source": "builtin:uniform", "backend": "builtin", "gpus": 0}
    return {
        "name": "workers",
        "data": str(repeat_lines(folder / "large", dict.fromkeys(SCENARIOS, range(each)))),
        "model": [{"name": f"m{n}", **model, "revision": str(n)} for n in names],
        "conditions": CONDITIONS,
        "selection": {"filtered": False},
    }


def main(folder: Path, workers: int, seconds: float) -> None:
    ray.init("local", num_cpus=workers, include_dashboard=False, log_to_driver=False)
    driver.WorkerPool = CrowdPool  # type: ignore[misc]
    sweep = build(table(folder, workers, seconds), "bench.toml")
    before, began = time.process_time(), time.perf_counter()
    outcome = run(sweep, folder / "run", say=lambda line: None)
    taken, used = time.perf_counter() - began, time.process_time() - before
    done = int(outcome.rows["finished"].sum())
    others = sum(sum(child.cpu_times()[:2]) for child in psutil.Process().children(recursive=True))
    print(json.dumps({
        "workers": workers, "episodes": done, "seconds": outcome.seconds, "all_seconds": taken,
        "asked": PACE * workers, "driver_cpu": used / taken, "others_cpu": others / taken,
    }))  # fmt: skip
    ray.shutdown()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.bench.many_workers")
    parser.add_argument("folder", type=Path, help="an empty folder for the benchmark and the run")
    parser.add_argument("workers", type=int)
    parser.add_argument("seconds", type=float, help="about so long do they play")
    main(**vars(parser.parse_args()))
