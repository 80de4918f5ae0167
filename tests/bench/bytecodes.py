"""Bytecodes per episode on the paths that every episode takes: the worker that plays it, the sink that stores it, the scheduler.

``python -m tests.bench.bytecodes`` prints them beside the numbers in ``bytecodes.toml`` and fails at 3% above one of them;
``--keep`` writes the present numbers there. They are exact for one version of Python and need no idle machine.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from actors.engine.baselines import Baseline
from actors.playing.episode_runner import EpisodeRunner
from actors.playing.records import EpisodeBatch
from orchestrator.execution.result_sink import ResultSink
from orchestrator.planning.build_plan import build_plan
from orchestrator.planning.plan import Plan
from orchestrator.scheduling.commands import Command, Demand, Lease, Start
from orchestrator.scheduling.scheduler import Scheduler
from orchestrator.storage.episode_store import EpisodeStore
from sweeps.load import build

KEPT = Path(__file__).with_name("bytecodes.toml")
BENCHMARK = Path(__file__).parents[1] / "data/benchmark"
ALLOWED = 1.03
"""Largest multiple of a kept number that passes."""
MODEL = {"name": "uniform", "source": "builtin:uniform", "backend": "builtin", "gpus": 0}
BATCH = 64


@contextmanager
def counted_bytecodes(counts: dict[str, int], name: str) -> Iterator[None]:
    """Add the bytecodes that this thread executes in the block to ``counts``."""

    def count(frame: FrameType, event: str, argument: Any) -> Callable[..., Any]:
        counts[name] += event == "opcode"
        return count

    def enter(frame: FrameType, event: str, argument: Any) -> Callable[..., Any]:
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return count

    before = sys.gettrace()
    counts.setdefault(name, 0)
    sys.settrace(enter)
    try:
        yield
    finally:
        sys.settrace(before)


def count_bytecodes(folder: Path) -> dict[str, float]:
    """Return the bytecodes per episode of worker, sink and scheduler, with caches warm."""
    conditions = ["zero-shot", "hint", "random-proactive", "reference"]
    table = {"name": "bench", "data": str(BENCHMARK), "output": str(folder), "model": [MODEL], "conditions": conditions}
    plan = build_plan(build(table, "bytecodes.toml"))
    counts: dict[str, int] = {}
    batches = play(plan)
    with counted_bytecodes(counts, "worker"):
        play(plan)
    sink = ResultSink(EpisodeStore(folder, rows=plan.total + 1, seconds=1e9), plan)
    with counted_bytecodes(counts, "sink"):
        for batch in batches:
            sink.add(batch)
    with counted_bytecodes(counts, "scheduler"):
        schedule(plan.total)
    return {name: count / plan.total for name, count in counts.items()}


def play(plan: Plan) -> list[EpisodeBatch]:
    """Play the plan as a worker does."""
    runner = EpisodeRunner(plan, {"uniform": Baseline("uniform")}, in_flight=16)

    async def collect() -> list[EpisodeBatch]:
        return [batch async for batch in runner.play(range(plan.total))]

    return asyncio.run(collect())


def schedule(episodes: int) -> None:
    """Drive the scheduler through so many episodes on eight workers."""
    scheduler = Scheduler({"m": range(episodes)}, {"m": Demand(replicas=8, concurrency=16)}, cpus=8, gpus=0)
    commands: list[Command] = scheduler.on_begin()
    while commands:
        command = commands.pop(0)
        if isinstance(command, Start):
            commands += scheduler.on_ready(command.slot)
        elif isinstance(command, Lease):
            for first in range(0, len(command.ordinals), BATCH):
                commands += scheduler.on_delivery(command.slot, command.lease, command.ordinals[first : first + BATCH])
            commands += scheduler.on_lease_end(command.slot, command.lease)
    assert scheduler.done, "every episode is delivered"


def read_kept() -> dict[str, float]:
    """Return the kept numbers for this version of Python; empty if there are none."""
    kept: dict[str, float] = tomllib.loads(KEPT.read_text()).get(
        f"python-{sys.version_info[0]}.{sys.version_info[1]}", {}
    )
    return kept


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        counts, kept = count_bytecodes(Path(folder)), read_kept()
    for name, count in counts.items():
        print(f"{name:<10}{count:>8,.0f} bytecodes an episode; kept: {kept.get(name, 0):,.0f}")
    if "--keep" in sys.argv:
        lines = [f"{name} = {round(count)}" for name, count in counts.items()]
        KEPT.write_text("\n".join([f'["python-{sys.version_info[0]}.{sys.version_info[1]}"]', *lines, ""]))
        return 0
    return int(any(count > ALLOWED * kept.get(name, count) for name, count in counts.items()))


if __name__ == "__main__":
    sys.exit(main())
