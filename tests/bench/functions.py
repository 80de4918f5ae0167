"""CPU time of functions that must stay quick on the largest input they meet, in milliseconds, never asserted.

``python -m tests.bench.functions [--small]`` prints one JSON line; ``--small`` simulates the paper on one cluster alone.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count
from pathlib import Path

import numpy as np

from envs.openended import instruction, read_verdict, shorten
from orchestrator.report.measures.lenient import read_leniently
from orchestrator.report.statistics.clustered import average_means, estimate_mean, t_interval
from orchestrator.scheduling.commands import Demand
from orchestrator.scheduling.forecast.forecast import forecast
from sweeps.load import load
from tests.simulated_schedule import FaultModel, simulate

LARGEST_CELL = 2_591
"""Episodes: MVP-N, kept by the filter."""


Timed = tuple[str, float]
"""What was done, and the CPU milliseconds that it took."""


def time_functions(clusters: Sequence[int] = (1, 8, 64)) -> Iterator[Timed]:
    """Time every function once; the paper's sweep is simulated on clusters of these numbers of GPUs."""
    texts = ("I cannot tell.", "Rewind the video.", "Mug.", "Key.")
    for unit in ("answer is ", "(", "A) ", "*" * 9, "Answer: A or "):
        reply = unit * (1_000_000 // len(unit))
        yield _timed(f"lenient reading of a megabyte of {unit!r}", partial(read_leniently, reply, 4, texts))
    answer = "begin " + "<|im_end|>\n<think> 1,1 " * 200_000 + " end"
    yield _timed("a judge's prompt from 5 MB", partial(instruction, "What?", ("Banana",), answer))
    yield _timed("5 MB shortened", partial(shorten, answer))
    yield _timed("a verdict read from 5 MB", partial(read_verdict, answer, "QD", 2))
    yield _timed(f"the interval of an average of seven cells of {LARGEST_CELL:,} episodes", _average)
    yield from _time_simulations(clusters)


def _average() -> None:
    rng = np.random.default_rng(0)
    t_interval(average_means([estimate_mean(rng.integers(0, 40, LARGEST_CELL)) for _ in range(7)]))


def _time_simulations(clusters: Sequence[int]) -> Iterator[Timed]:
    """What ``plan --gpus`` does for the paper's sweep, and a simulation in which workers die."""
    paper = load(Path("sweeps/paper.toml"), [])
    for gpus in clusters:
        yield _timed(f"the paper forecast on {gpus} GPUs", partial(forecast, paper, gpus, "h200"))
    numbers = count()
    queues = {f"m{n}": [next(numbers) for _ in range(7557)] for n in range(22)}
    demands = {name: Demand(0, 1, 64, rate=10.0, start=120.0) for name in queues}
    faults = FaultModel(0, 0.1, silent=0.2, skew=0.4, slowdown=0.05)
    yield _timed("22 models simulated on 8 GPUs with deaths", partial(simulate, queues, demands, 8, faults))


def _timed(name: str, action: Callable[[], object]) -> Timed:
    began = time.process_time()
    action()
    return name, 1000 * (time.process_time() - began)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.bench.functions")
    parser.add_argument("--small", action="store_true")
    print(json.dumps(dict(time_functions((8,) if parser.parse_args().small else (1, 8, 64)))))
