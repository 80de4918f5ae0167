"""Plays simulated runs: ``python -m tests.simulation SEEDS [FIRST]`` prints each failure as the source of a test.

``python -m tests.simulation mutants [SEEDS]`` prints the first of SEEDS (10,000) seeds that finds each planted bug.
"""

from __future__ import annotations

import os

os.environ.setdefault("POLARS_MAX_THREADS", "1")  # its tables are small: waking threads takes longer than the work

import gc
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.benchmark import copy_benchmark
from tests.simulation import bucket_mutants, store_mutants  # noqa: F401 - they register their mutants
from tests.simulation.mutants import MUTANTS, planted
from tests.simulation.schedule import Schedule, draw
from tests.simulation.scripted import SAMPLES, Benchmark
from tests.simulation.world import World

MEMORY = Path("/dev/shm")
"""Folder without a disk below it, where there is one: the simulated disk needs none, and is faster without."""
MOST_SEEDS = 10_000
"""Seeds in which a planted bug must be found."""


@contextmanager
def new_world(samples: int = SAMPLES) -> Iterator[World]:
    """Yield a world in a temporary folder with a small benchmark; no collection of garbage looks at what was imported before."""
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        copy_benchmark(Path(folder) / "data")
        gc.collect()
        gc.freeze()
        try:
            yield World(Benchmark(Path(folder) / "data", samples), Path(folder))
        finally:
            gc.unfreeze()


def failure(world: World, schedule: Schedule) -> str:
    """Return how a schedule fails, in one line; empty if it does not."""
    try:
        world.play(schedule)
    except Exception as problem:
        if os.environ.get("TRACE"):
            traceback.print_exc()
            print("\n".join(world.trace))
        return f"{type(problem).__name__}: {problem}".splitlines()[0]
    return ""


def play_seeds(seeds: int, first: int) -> int:
    """Play the storms of these seeds; return 1 if one fails."""
    failed = 0
    with new_world() as world:
        started = time.perf_counter()
        for seed in range(first, first + seeds):
            world.undisturbed(seed)
            schedule = draw(seed)
            if reason := failure(world, schedule):
                failed += 1
                print(
                    f"# seed {seed}: {reason}", schedule, *(f"# {line}" for line in world.trace), sep="\n", flush=True
                )
    seconds = time.perf_counter() - started
    print(f"{seeds} seeds, {failed} failed, {seconds:.1f} s, {60 * seeds / seconds:.0f} seeds a minute")
    return min(failed, 1)


def find_mutant(world: World, name: str, seeds: int) -> tuple[int, str] | None:
    """Return the first seed that finds a planted bug, and how it fails; None if none does."""
    for seed in range(seeds):
        world.undisturbed(seed)
        with planted(name):
            if reason := failure(world, draw(seed)):
                return seed, reason
    return None


def find_mutants(seeds: int) -> int:
    """Print the first seed that finds each planted bug; return 1 if one is not found."""
    missed = 0
    with new_world() as world:
        for name in MUTANTS:
            outcome = find_mutant(world, name, seeds)
            missed += outcome is None
            seed, reason = outcome or (seeds, "NOT FOUND")
            print(f"| {name} | {seed} | {reason[:90]} |", flush=True)
    return min(missed, 1)


if __name__ == "__main__":
    if sys.argv[1] == "mutants":
        sys.exit(find_mutants(int(sys.argv[2]) if len(sys.argv) > 2 else MOST_SEEDS))
    sys.exit(play_seeds(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0))
