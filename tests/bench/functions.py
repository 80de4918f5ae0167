"""CPU time of functions that must stay quick on the largest input they meet, printed in milliseconds and never asserted."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path

import numpy as np

from actors.in_flight import expected
from envs.openended import instruction, read_verdict, shortened
from orchestrator.report.estimates import COLUMNS, bounds, generator, resampled
from orchestrator.report.lenient import lenient
from orchestrator.scheduling.forecast import workload
from orchestrator.scheduling.forecast.forecast import paces
from orchestrator.scheduling.forecast.simulator import FaultModel, simulate
from orchestrator.scheduling.scheduler import Demand
from sweeps.load import load

LARGEST_CELL = 2_591
"""Episodes: MVP-N, kept by the filter."""


def measured() -> Iterator[str]:
    """One line a function: what it did and the CPU milliseconds it took."""
    texts = ("I cannot tell.", "Rewind the video.", "Mug.", "Key.")
    for unit in ("answer is ", "(", "A) ", "*" * 9, "Answer: A or "):
        reply = unit * (1_000_000 // len(unit))
        yield _line(f"lenient reading of a megabyte of {unit!r}", partial(lenient, reply, 4, texts))
    answer = "begin " + "<|im_end|>\n<think> 1,1 " * 200_000 + " end"
    yield _line("a judge's prompt from 5 MB", partial(instruction, "What?", ("Banana",), answer))
    yield _line("5 MB shortened", partial(shortened, answer))
    yield _line("a verdict read from 5 MB", partial(read_verdict, answer, "QD", 2))
    yield _line(f"4,000 resamples of {LARGEST_CELL:,} episodes", _resampled)
    yield from _simulated()


def _resampled() -> None:
    rng = generator(0, "bench")
    values = rng.integers(0, 40, (LARGEST_CELL, len(COLUMNS)))
    bounds(resampled(values, np.ones(LARGEST_CELL, dtype=np.int64), 4_000, rng)[:, 0])


def _simulated() -> Iterator[str]:
    """The paper's sweep under faults, on a virtual clock."""
    sweep = load(Path("sweeps/paper.toml"), [])
    pending = workload.published(sweep)
    known = paces(sweep, "h200", [], pending)
    demands = {
        model.name: Demand(0, model.gpus, 64, expected(model), rate=known[model.name].episodes, start=known[model.name].start)
        for model in workload.apart(sweep)[0]
    }  # fmt: skip
    numbers = count()
    queues = {name: [next(numbers) for _ in range(pending.of(name))] for name in demands}
    for gpus in (1, 8, 64):
        faults = FaultModel(0, 0.1, silent=0.2, skew=0.4, unrest=0.05)
        yield _line(f"the paper simulated on {gpus} GPUs", partial(simulate, queues, demands, gpus, faults))


def _line(name: str, action: Callable[[], object]) -> str:
    began = time.process_time()
    action()
    return f"(i) {name:<48} {1000 * (time.process_time() - began):>9,.0f} ms"


if __name__ == "__main__":
    for line in measured():
        print(line, flush=True)
