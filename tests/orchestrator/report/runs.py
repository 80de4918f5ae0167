"""Run folders as the driver leaves them, made in process: the real plan, crew, policies and store, without Ray."""

from __future__ import annotations

import asyncio
from pathlib import Path

from actors.baselines import Baseline
from actors.crew import Crew
from orchestrator import folder as run_folder
from orchestrator.score import score, write_results
from orchestrator.session import belonging, build_plan, planned_rows
from orchestrator.store import Store
from sweeps.load import build
from sweeps.spec import Sweep

BASELINES = ["oracle", "always-ask", "uniform", "guess", "first-option", "abstain"]


def sweep(data: Path, models=BASELINES, conditions="all", **more) -> Sweep:
    """A sweep of policies over a data folder."""
    table = {"name": "test", "data": str(data), "models": models, "conditions": conditions, **more}
    return build(table, "a test")


def played(output: Path, wanted: Sweep, only: int | None = None, backends=None) -> Path:
    """Play a sweep, or its first ``only`` episodes, into a run folder."""
    plan = build_plan(wanted)
    engines = {model.name: _engine(model.source) for model in wanted.models} | (backends or {})
    with run_folder.claim(output, wanted, update=True):
        store = Store(output)
        finished = set(store.finished()["key"])
        owed = [ordinal for queue in plan.owed(finished).values() for ordinal in queue][:only]
        run_folder.write_plan(output, planned_rows(plan))
        asyncio.run(_play(Crew(plan, engines, in_flight=8), owed, store))
        store.close()
        write_results(output, score(belonging(plan, output), planned_rows(plan)))
    return output


def _engine(source: str):
    kind, _, name = source.partition(":")
    return Baseline(name if kind == "builtin" else "uniform")


async def _play(crew: Crew, ordinals, store: Store) -> None:
    async for block in crew.play(ordinals):
        content = block.content()
        store.append({"episodes": content["episodes"], "turns": content["turns"]})
