"""What happens between ``run`` and the first played episode of the embedded model, on an engine of its own, with MLflow on.

``python -m tests.bench.first BACKEND DATA OUTPUT`` prints one JSON line: seconds of the wall by span, in their order. The first
batch of episodes leaves a worker after a second, or when it is full; the run is stopped when it has come.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import Any

import psutil

SPANS = ("imports, sweep and plan", "Ray", "the worker's process", "the engine", "the first batch of episodes")
SWEEP = """
name = "first"
data = "{data}"
conditions = ["zero-shot"]
[[model]]
name = "embedded"
source = "builtin:embedded"
backend = "{backend}"
gpus = 0
dtype = "float32"
{options}
"""
OPTIONS = {"transformers": "", "vllm": "options = {gpu_memory_utilization = 0.2, max_model_len = 4096}"}


class Clock:
    """Seconds since this process began at which each span ended for the first time."""

    def __init__(self) -> None:
        self.began = psutil.Process().create_time()
        self.ends: dict[str, float] = {}

    def note(self, span: str) -> None:
        self.ends.setdefault(span, time.time() - self.began)

    def before(self, owner: Any, name: str, span: str, then: Callable[[], None] = lambda: None) -> None:
        """End the span when the method is called."""
        method = getattr(owner, name)

        @wraps(method)
        def note_call(*args: Any, **kwargs: Any) -> Any:
            self.note(span)
            then()
            return method(*args, **kwargs)

        setattr(owner, name, note_call)

    @property
    def spans(self) -> dict[str, float]:
        ends = [0.0, *(self.ends[span] for span in SPANS)]
        return {span: end - begin for span, begin, end in zip(SPANS, ends, ends[1:], strict=False)}


def main(backend: str, data: str, output: Path) -> None:
    clock = Clock()
    output.mkdir(parents=True)
    (output / "first.toml").write_text(SWEEP.format(backend=backend, data=data, options=OPTIONS[backend]))
    from orchestrator.cli.main import main as command
    from orchestrator.execution import ray_cluster
    from orchestrator.execution.driver import Driver
    from orchestrator.execution.result_sink import ResultSink
    from orchestrator.execution.worker_pool import WorkerPool
    from orchestrator.scheduling.scheduler import Scheduler

    clock.before(ray_cluster, "connect", SPANS[0])
    clock.before(WorkerPool, "start", SPANS[1])
    stages = Driver._await_ready

    async def await_ready(self: Driver, slot: int) -> None:
        address = self.pool.handles[slot].actor.address
        await address.remote()
        clock.note(SPANS[2])
        await stages(self, slot)

    Driver._await_ready = await_ready  # type: ignore[method-assign]
    clock.before(Scheduler, "on_ready", SPANS[3])
    clock.before(ResultSink, "add", SPANS[4], lambda: os.kill(os.getpid(), signal.SIGINT))
    sys.argv = ["proactive-sweep", "run", str(output / "first.toml"), "--output", str(output / "run")]
    with suppress(SystemExit):
        command()
    print(json.dumps({"seconds": clock.ends[SPANS[4]], "spans": clock.spans}), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.bench.first")
    parser.add_argument("backend", choices=["vllm", "transformers"])
    parser.add_argument("data", help="folder of a demo benchmark with pictures")
    parser.add_argument("output", type=Path, help="a folder that is not there yet")
    main(**vars(parser.parse_args()))
