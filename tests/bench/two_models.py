"""Two models on vLLM in one run, beside two plain ``LLM.chat`` batches at the same time: does the sum hold?

``python -m tests.bench.two_models run|worker|plain DATA REQUESTS SAMPLES`` prints one JSON line. Both models are the embedded
one, each with an engine of its own. ``run`` is a whole sweep with Ray, driver, store and MLflow; a model's clock runs from the
moment its worker is ready to its last batch. ``worker`` and ``plain`` are two processes of ``tests.bench.engine`` that begin
together, the latter with the requests of the file REQUESTS, which that bench wrote. Requests/s are the sum of both models'.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from actors.records import EpisodeBatch
from orchestrator.scheduling.commands import Command, Demand
from sweeps.load import build
from sweeps.spec import ModelSpec
from tests.bench.engine import CONDITIONS, ENTRY, replied

MODELS = ("one", "another")


class Clock:
    """When each model's worker was ready, when its last batch came, and how many replies all its batches held."""

    def __init__(self) -> None:
        self.began: dict[str, float] = {}
        self.ended: dict[str, float] = {}
        self.replies: Counter[str] = Counter()

    def ready(self, model: str) -> None:
        self.began.setdefault(model, time.perf_counter())

    def came(self, batch: EpisodeBatch) -> None:
        if batch.ordinals:
            model = batch.episodes["model"][0]
            self.ended[model] = time.perf_counter()
            self.replies[model] += len(batch.turns["key"])

    def read(self) -> dict[str, float]:
        """``added_up``, and the share of the longer time in which both played."""
        seconds = {model: self.ended[model] - self.began[model] for model in MODELS}
        together = max(0.0, min(self.ended.values()) - max(self.began.values()))
        both = added_up((self.replies[model], seconds[model]) for model in MODELS)
        return {**both, "together": together / max(seconds.values())}


def added_up(sides: Iterable[tuple[int, float]]) -> dict[str, float]:
    """Of requests and seconds of each: all requests, and the seconds that they take at the sum of the rates."""
    each = list(sides)
    requests = sum(number for number, _ in each)
    return {"requests": requests, "seconds": requests / sum(number / seconds for number, seconds in each)}


def in_one_run(data: str, samples: int) -> dict[str, Any]:
    """A sweep of both models."""
    from orchestrator.execution.ray_cluster import connect
    from orchestrator.execution.result_sink import ResultSink
    from orchestrator.execution.run import run
    from orchestrator.scheduling import resources
    from orchestrator.scheduling.scheduler import Scheduler

    clock, add, ready = Clock(), ResultSink.add, Scheduler.ready

    def added(sink: ResultSink, batch: EpisodeBatch) -> EpisodeBatch:
        clock.came(batch)
        return add(sink, batch)

    def readied(scheduler: Scheduler, slot: int, now: float = 0.0, at_once: int = 0) -> list[Command]:
        clock.ready(scheduler.slots[slot].group.name)
        return ready(scheduler, slot, now, at_once)

    ResultSink.add = added  # type: ignore[method-assign]
    Scheduler.ready = readied  # type: ignore[method-assign]
    resources._demand = beside_each_other
    models = [{**ENTRY, "name": name} for name in MODELS]
    table = {"data": data, "model": models, "conditions": CONDITIONS, "selection": {"limit": samples}, "name": "bench"}
    connect()
    with tempfile.TemporaryDirectory() as folder:
        outcome = run(build(table, "bench"), Path(folder) / "run", say=lambda line: None)
    if not outcome.complete:
        raise ValueError(f"not all was played: {dict(outcome.reasons)}")
    return clock.read()


def beside_each_other(model: ModelSpec, workers: int | None, cpus: float, gpus: int) -> Demand:
    """An engine takes one CPU, so that two start together as they do on two GPUs; without GPUs an engine has all CPUs."""
    return Demand(cpus=1, gpus=0, replicas=1)


def side_by_side(mode: str, arguments: list[str]) -> dict[str, Any]:
    """``added_up`` of two processes that begin when both engines are warm, and their processor time."""
    command = [sys.executable, "-m", "tests.bench.two_models", "--of-two", mode, *arguments]
    both = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in MODELS]
    for process in both:
        assert process.stdout is not None
        while process.stdout.readline() not in ("ready\n", ""):
            pass
    for process in both:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    found = [json.loads(process.communicate()[0].strip().splitlines()[-1]) for process in both]
    times = [one["seconds"] for one in found]
    both = added_up((one["requests"], one["seconds"]) for one in found)
    processors = {f"{part}_seconds": sum(one[f"{part}_seconds"] for one in found) for part in ("front", "engine")}
    return {**both, "together": min(times) / max(times), **processors}


def begin() -> None:
    """Say that the engine is warm, and wait for the word."""
    print("ready", flush=True)
    sys.stdin.readline()


def main(mode: str, data: str, requests: Path, samples: int, of_two: bool) -> None:
    if of_two:
        found = replied(mode, data, Path(f"{requests}.{os.getpid()}") if mode == "worker" else requests, samples, begin)
    elif mode == "run":
        found = in_one_run(data, samples)
    else:
        found = side_by_side(mode, [data, str(requests), str(samples)])
    print(json.dumps({"mode": mode, **found}), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.bench.two_models")
    parser.add_argument("mode", choices=["run", "worker", "plain"])
    parser.add_argument("data", help="folder of a demo benchmark with pictures")
    parser.add_argument("requests", type=Path, help="the file that `tests.bench.engine worker` wrote")
    parser.add_argument("samples", type=int, help="samples a scenario")
    parser.add_argument("--of-two", action="store_true", help="be one of the two processes of `worker` and `plain`")
    main(**vars(parser.parse_args()))
