"""Two models on vLLM in one run, beside two plain ``LLM.chat`` batches at the same time: does the sum hold?

``python -m tests.bench.two_models run|plain DATA REQUESTS SAMPLES [--apart]`` prints one JSON line. Both models are the embedded
one, each with an engine of its own. ``run`` is a whole sweep with Ray, driver, store and MLflow; the clock runs from the moment
both engines are warm to each model's last batch. ``plain`` is two processes of ``tests.bench.engine`` that begin together, with
the requests of the file REQUESTS, which that bench wrote. Requests/s are the sum of both models'. With ``--apart`` engines and
their front ends share all cores but the first, on which a run has the rest: a machine with GPUs has cores for it, too.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import pickle
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import ray

from actors.playing.episode_runner import EpisodeRunner
from actors.playing.records import EpisodeBatch
from orchestrator.execution.result_sink import ResultSink
from orchestrator.execution.run import run
from orchestrator.scheduling import resources
from orchestrator.scheduling.commands import Demand
from sweeps.spec import ModelSpec
from tests.bench.engine import plain, plan_of, sweep

MODELS = ("one", "another")
WARM_DATA, WARM_FOLDER, CORES = "BENCH_WARM_DATA", "BENCH_WARM_FOLDER", "BENCH_CORES"
"""Variables that tell a worker the data to warm up with, where it says when it was warm, and its cores."""


class Clock:
    """When each model's last batch came, and how many replies all its batches held."""

    def __init__(self) -> None:
        self.ended: dict[str, float] = {}
        self.replies: Counter[str] = Counter()

    def came(self, batch: EpisodeBatch) -> None:
        if batch.ordinals:
            model = batch.episodes["model"][0]
            self.ended[model] = time.perf_counter()
            self.replies[model] += len(batch.turns["key"])

    def read(self, began: float) -> dict[str, float]:
        """Return ``add_up``, and the share of the longer time in which both played."""
        seconds = {model: self.ended[model] - began for model in MODELS}
        both = add_up((self.replies[model], seconds[model]) for model in MODELS)
        return {**both, "together": min(seconds.values()) / max(seconds.values())}


def add_up(sides: Iterable[tuple[int, float]]) -> dict[str, float]:
    """Of requests and seconds of each: all requests, and the seconds that they take at the sum of the rates."""
    each = list(sides)
    requests = sum(number for number, _ in each)
    return {"requests": requests, "seconds": requests / sum(number / seconds for number, seconds in each)}


def run_sweep(data: str, samples: int, cores: Sequence[int]) -> dict[str, Any]:
    """A sweep of both models whose workers run on these cores."""
    clock, add = Clock(), ResultSink.add

    def add_and_count(sink: ResultSink, batch: EpisodeBatch) -> EpisodeBatch:
        clock.came(batch)
        return add(sink, batch)

    ResultSink.add = add_and_count  # type: ignore[method-assign]
    resources._demand = one_cpu_demand
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {WARM_DATA: data, WARM_FOLDER: folder, CORES: " ".join(map(str, cores))}
        os.environ |= {"PYTHONPATH": str(Path.cwd()), "RAY_worker_niceness": "0"}  # as ``connect`` says the latter
        ray.init(
            address="local",
            include_dashboard=False,
            log_to_driver=False,
            runtime_env={"worker_process_setup_hook": "tests.bench.two_models.warm_first"},
        )
        outcome = run(sweep(data, samples, names=MODELS), Path(folder) / "run", say=lambda line: None)
        if not outcome.complete:
            raise ValueError(f"not all was played: {dict(outcome.reasons)}")
        return clock.read(max(float(file.read_text()) for file in Path(folder).glob("*.warm")))


def warm_first() -> None:
    """In processes of Ray: before its first lease a worker warms its engine up, as other sides do, and waits for the other."""
    play, lock, folder = EpisodeRunner.play, asyncio.Lock(), Path(os.environ[WARM_FOLDER])
    warm_file = folder / f"{os.getpid()}.warm"
    pin_cores([int(core) for core in os.environ[CORES].split()])

    async def warm(runner: EpisodeRunner) -> None:
        async with lock:
            if not warm_file.exists():
                plan, (backend,) = plan_of(os.environ[WARM_DATA], 2, seed=9), runner.backends.values()
                warm_runner = EpisodeRunner(plan, {"embedded": backend}, runner.in_flight)
                async for _ in play(warm_runner, plan.pending(())["embedded"]):
                    pass
                warm_file.write_text(str(time.perf_counter()))
        while len(list(folder.glob("*.warm"))) < len(MODELS):
            await asyncio.sleep(0.05)

    async def play_when_warm(
        runner: EpisodeRunner, ordinals: Sequence[int], age: float = 0.0
    ) -> AsyncIterator[EpisodeBatch]:
        await warm(runner)
        async for batch in play(runner, ordinals, age):
            yield batch

    EpisodeRunner.play = play_when_warm  # type: ignore[assignment]


def one_cpu_demand(model: ModelSpec, workers: int | None, cpus: float, gpus: int) -> Demand:
    """An engine takes one CPU, so that two start together as they do on two GPUs; without GPUs an engine has all CPUs."""
    return Demand(cpus=1, gpus=0, replicas=1)


def run_plain_pair(arguments: list[str]) -> dict[str, Any]:
    """Return ``add_up`` of two processes that begin with warm engines, and the share of time in which both answered."""
    command = [sys.executable, "-m", "tests.bench.two_models", "--of-two", "plain", *arguments]
    both = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in MODELS]
    for process in both:
        assert process.stdout is not None
        while process.stdout.readline() not in ("ready\n", ""):
            pass
    for process in both:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    reports = [json.loads(process.communicate()[0].strip().splitlines()[-1]) for process in both]
    times = [report["seconds"] for report in reports]
    return {
        **add_up((report["requests"], report["seconds"]) for report in reports),
        "together": min(times) / max(times),
    }


def begin() -> None:
    """Report that the engine is warm, and wait for the signal to start."""
    print("ready", flush=True)
    sys.stdin.readline()


def pin_cores(cores: Iterable[int]) -> None:
    """This process and what it starts from now on run on these cores alone."""
    for thread in psutil.Process().threads():
        with suppress(ProcessLookupError):  # it ended meanwhile
            os.sched_setaffinity(thread.id, cores)


def main(mode: str, data: str, requests: Path, samples: int, apart: bool, of_two: bool) -> None:
    first, *others = sorted(os.sched_getaffinity(0))
    if apart:
        pin_cores(others if mode == "plain" else [first])
    if of_two:
        report = plain(data, requests, begin)
    elif mode == "run":
        report = run_sweep(data, samples, others if apart else [first, *others])
    else:
        report = run_plain_pair([data, str(requests), str(samples)])
    if not of_two and report["requests"] != (expected := len(MODELS) * len(pickle.loads(requests.read_bytes()))):
        raise ValueError(f"{report['requests']} requests, but {expected} were asked for")
    print(json.dumps({"mode": mode, **report}), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.bench.two_models")
    parser.add_argument("mode", choices=["run", "plain"])
    parser.add_argument("data", help="folder of a demo benchmark with pictures")
    parser.add_argument("requests", type=Path, help="the file that `tests.bench.engine worker` wrote")
    parser.add_argument("samples", type=int, help="samples a scenario")
    parser.add_argument("--apart", action="store_true", help="leave the first core to driver, MLflow and Ray")
    parser.add_argument("--of-two", action="store_true", help="be one of the two processes of `plain`")
    main(**vars(parser.parse_args()))
