"""``demo-operating`` on other data, and what it costs: ``python -m tests.orchestrator.operating.fresh_seeds SAMPLES SEED ...``.

Plays the sweep's models over demo benchmarks of these seeds in process, prints the tables and how many greedy cells are played
as the graph says, then the CPU seconds of ``every-state`` in one order beside zero-shot play of the same samples, alternated.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import process_time

from actors.engine.backend import Backend
from actors.engine.registry import open_engine
from actors.playing.play import play
from envs import SCENARIOS
from envs.samples import load_samples
from orchestrator.report.measures.operating_played import exact_and_played
from orchestrator.report.read_run import read_run
from orchestrator.report.tables.formats import markdown
from orchestrator.report.tables.operating import bounds_table, operating_table, splits_table
from proactive_demo.drawing import draw
from sweeps.conditions import CONDITIONS, VARIANTS, Condition
from sweeps.registry import registry
from sweeps.spec import Cell
from tests.orchestrator.report.runs import play_sweep, sweep

MODELS = ("embedded", "embedded-asks")
ROUNDS = 5


def print_tables(folder: Path, samples: int, seed: int) -> None:
    """Play the sweep over the demo benchmark of a seed and print what the report says."""
    draw(folder / "data", samples=samples, seed=seed)
    wanted = sweep(folder / "data", list(MODELS), ["zero-shot", "every-state"])
    engines = {name: open_engine(registry()[name], folder / "data") for name in MODELS}
    run = read_run(play_sweep(folder / "run", wanted, backends=engines))
    print(f"\nseed {seed}, {samples} samples", flush=True)
    for table in (operating_table(run), bounds_table(run), splits_table(run)):
        print(markdown(table), flush=True)
    rows = exact_and_played(run)
    equal = rows.filter(
        ((rows["exact_acc"] - rows["played_acc"]).abs() < 1e-9) & ((rows["exact_ps"] - rows["played_ps"]).abs() < 1e-9)
    )
    print(f"greedy cells played as the graph says: {equal.height} of {rows.height}", flush=True)


async def cpu_seconds(engine: Backend, data: Path, condition: Condition) -> tuple[float, int]:
    """Return the CPU seconds and turns of playing every sample of a folder once."""
    start, turns = process_time(), 0
    for name in SCENARIOS:
        cell = Cell(model=registry()[MODELS[1]], scenario=name, condition=condition)
        played = [play(sample, cell, engine, "key", 1) for sample in load_samples(data, name)]
        turns += sum(len(episode.turns) for episode in await asyncio.gather(*played))
    return process_time() - start, turns


async def print_cost(data: Path) -> None:
    """Print the CPU seconds of one order of every-state and of zero-shot play, medians of alternated rounds."""
    engine = open_engine(registry()[MODELS[1]], data)
    conditions = {"every-state, one order": VARIANTS["every-state"], "zero-shot": CONDITIONS["zero-shot"]}
    measured: dict[str, list[tuple[float, int]]] = {name: [] for name in conditions}
    try:
        for _ in range(ROUNDS + 1):
            for name, condition in conditions.items():
                measured[name].append(await cpu_seconds(engine, data, condition))
    finally:
        await engine.close()
    for name, rounds in measured.items():
        seconds = [each for each, _ in rounds[1:]]  # the first round warms up
        print(
            f"{name}: {rounds[0][1]} questions, {median(seconds):.1f} CPU s ({min(seconds):.1f} to {max(seconds):.1f})"
        )
    ratios = [a / b for (a, _), (b, _) in list(zip(*measured.values(), strict=True))[1:]]
    print(f"ratio of CPU s: {median(ratios):.1f} ({min(ratios):.1f} to {max(ratios):.1f}) in {ROUNDS} rounds")


def main() -> None:
    samples, *seeds = map(int, sys.argv[1:])
    with TemporaryDirectory() as folder:
        for seed in seeds:
            print_tables(Path(folder) / str(seed), samples, seed)
        asyncio.run(print_cost(Path(folder) / str(seeds[0]) / "data"))


if __name__ == "__main__":
    main()
