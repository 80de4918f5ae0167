"""A whole sweep of a zero-latency baseline: plan, Ray, store and tracking, and what the driver's memory does meanwhile.

``python -m tests.bench.sweep DATA OUTPUT EPISODES`` prints one JSON line.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from pathlib import Path

from orchestrator.execution.attempt import run
from sweeps.load import build

CONDITIONS = ["zero-shot", "hint", "random-proactive", "reference"]
SAMPLES = 7557
"""A benchmark of the published size."""


def table(data: str, output: str, episodes: int) -> dict[str, object]:
    """A sweep of at least ``episodes`` episodes of the uniform baseline, under as many names as that takes."""
    names = range(-(-episodes // (SAMPLES * len(CONDITIONS))))
    return {
        "name": "bench",
        "data": data,
        "output": output,
        "model": [
            {"name": f"uniform-{n}", "source": "builtin:uniform", "backend": "builtin", "gpus": 0} for n in names
        ],
        "conditions": CONDITIONS,
    }


def resident_mib() -> float:
    """MiB this process holds now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def main(data: str, output: str, episodes: int) -> None:
    from orchestrator.execution.ray_cluster import connect

    sweep = build(table(data, output, episodes), "bench.toml")
    connect()
    before, began = resident_mib(), time.perf_counter()
    outcome = run(sweep, Path(output), say=lambda line: None)
    seconds = time.perf_counter() - began
    done = int(outcome.rows["finished"].sum())
    print(
        json.dumps(
            {
                "episodes": done,
                "seconds": seconds,
                "playing": outcome.seconds,
                "before_mib": before,
                "after_mib": resident_mib(),
                "most_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            }
        )
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.bench.sweep")
    parser.add_argument("data", help="folder of a benchmark of the published size (tests.bench.resume.published_size)")
    parser.add_argument("output", help="the run folder to make")
    parser.add_argument("episodes", type=int, help="at least so many episodes")
    main(**vars(parser.parse_args()))
