"""Planted bugs of ordering and bookkeeping: the simulation must find each.

``python -m tests.simulation mutants [SEEDS]`` prints the first seed of each.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from orchestrator.execution.driver import Driver
from orchestrator.execution.result_sink import ResultSink
from orchestrator.judging.judge_queue import JudgeQueue
from orchestrator.scheduling.nodes import Nodes
from orchestrator.scheduling.scheduler import Scheduler
from orchestrator.storage import episode_store, part_files, part_writer, safe_write
from orchestrator.storage.episode_store import EpisodeStore

Patch = tuple[Any, str, Any]
"""Owner, name of the function or constant, and what takes its place."""
MUTANTS: dict[str, Callable[[], list[Patch]]] = {}


def mutant(name: str) -> Callable[[Callable[[], list[Patch]]], Callable[[], list[Patch]]]:
    def register(make: Callable[[], list[Patch]]) -> Callable[[], list[Patch]]:
        MUTANTS[name] = make
        return make

    return register


@contextlib.contextmanager
def planted(name: str) -> Iterator[None]:
    """Plant a bug in the product during the block."""
    with contextlib.ExitStack() as stack:
        for owner, function, replacement in MUTANTS[name]():
            stack.enter_context(mock.patch.object(owner, function, replacement))
        yield


# -- the disk ----------------------------------------------------------------------------------------------------------
@mutant("the bytes of a file are not flushed before its name")
def _() -> list[Patch]:
    def prepare(path: Path, content: Any, metadata: Any = None) -> None:
        with safe_write.temporary_path(path).open("wb") as file:
            file.write(content) if isinstance(content, bytes) else content.lazy().collect().write_parquet(file)

    return [(safe_write, "prepare", prepare)]


@mutant("a merge deletes the old parts first")
def _() -> list[Patch]:
    def merge(store: EpisodeStore, files: part_files.PartFiles, group: list[part_files.Part]) -> None:
        merged = part_files.Part(group[0].first, group[-1].last)
        scans = {"episodes": episode_store._episodes(files, group)}
        scans["turns"] = episode_store._owned(files, "turns", group)
        frames = {table: scan.collect() for table, scan in scans.items()}
        part_writer.delete_parts(store.folder, group)
        part_writer.write_part(store.folder, merged, frames)

    return [(EpisodeStore, "_merge", merge)]


@mutant("verdicts are stored before their episodes")
def _() -> list[Patch]:
    def flush(queue: JudgeQueue, always: bool = False) -> None:
        if always or queue.verdicts.due:
            queue.verdicts.flush()

    return [(JudgeQueue, "flush", flush)]


# -- the sink and the judge --------------------------------------------------------------------------------------------
@mutant("the sink stores what it has stored")
def _() -> list[Patch]:
    def add(sink: ResultSink, batch: Any) -> Any:
        sink.delivered = bytearray(sink.plan.total)
        return real(sink, batch)

    real = ResultSink.add
    return [(ResultSink, "add", add)]


@mutant("episodes that are given up are not stored")
def _() -> list[Patch]:
    return [(ResultSink, "give_up", lambda sink, ordinals, reason: None)]


# -- the scheduler -----------------------------------------------------------------------------------------------------
@mutant("what a lost worker had is not queued again")
def _() -> list[Patch]:
    return [(Scheduler, "_suspect", lambda schedule, group, ordinals: None)]


@mutant("a silent worker is not dropped")
def _() -> list[Patch]:
    return [(Scheduler, "on_tick", lambda schedule, now: schedule._assign_idle() + schedule._start_workers())]


@mutant("the GPUs of a worker are not reserved")
def _() -> list[Patch]:
    return [(Nodes, "reserve", lambda nodes, place, gpus, worker: place)]


@mutant("the loss of a worker is not reported")
def _() -> list[Patch]:
    return [(Driver, "_on_loss", lambda driver, slot, problem: None)]
