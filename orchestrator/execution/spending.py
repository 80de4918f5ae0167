"""What a run folder has spent on services, kept while it is spent: bounds hold over all workers and attempts.

``spent.json`` counts what requests in flight may cost as spent and is at most a tenth of a second old: a killed attempt may have
spent more only by requests of its last moment, fewer than are in flight, for no service answers faster.
"""

from __future__ import annotations

import asyncio
import json
import math
from pathlib import Path
from typing import Any

import polars as pl

from actors.worker import SharedLedger
from envs import regular
from orchestrator.storage import atomic_write, reused
from orchestrator.storage.episode_store import episodes
from orchestrator.storage.verdict_store import verdicts
from sweeps.spec import ModelSpec, Sweep

FILE = "spent.json"
"""Model -> what was spent on it, in the currency of its prices."""
LARGEST = 1 << 20
INTERVAL_S = 0.1
"""Seconds between two looks at the ledger."""


class Spending:
    """The ledger of an attempt, where the sweep bounds its money."""

    def __init__(self, sweep: Sweep, folder: Path) -> None:
        self.folder, self.ledger = folder, None
        models = services(sweep)
        limits = {model.name: model.endpoint.max_cost for model in models}
        bounded = sweep.cluster.max_cost is not None or any(limit is not None for limit in limits.values())
        if models and bounded:
            self.known = before(folder)
            self.ledger = SharedLedger.remote(limits, sweep.cluster.max_cost, self.known)

    def forget(self, worker: Any) -> None:
        """A worker was killed: what it had asked for counts as spent."""
        if self.ledger is not None:
            self.ledger.forget.remote(worker._actor_id.hex())

    async def watch(self) -> None:
        """Write down what is spent, until cancelled."""
        while self.ledger is not None:
            await asyncio.sleep(INTERVAL_S)
            await self.settle()

    async def settle(self) -> None:
        """Write down what is spent by now."""
        if self.ledger is not None and (now := await self.ledger.spending.remote()) != self.known:
            atomic_write.write(self.folder / FILE, (json.dumps(now, indent=1) + "\n").encode())
            self.known = now


def services(sweep: Sweep) -> list[ModelSpec]:
    """The sweep's models, and its judge's, that a service answers for."""
    judge = [sweep.judge.model] if sweep.judge else []
    return [model for model in (*sweep.models, *judge) if model.backend == "openai"]


def before(folder: Path) -> dict[str, float]:
    """Model -> what the folder's attempts have spent: as written down, and at least what its answers and verdicts say."""
    paid = {row["model"]: row["cost"] for row in _stored(folder).iter_rows(named=True)}
    try:
        noted = json.loads(regular.content(folder / FILE, LARGEST))
    except (OSError, ValueError, RecursionError):
        noted = {}
    for model, cost in (noted if isinstance(noted, dict) else {}).items():
        if isinstance(cost, int | float) and math.isfinite(cost):
            paid[model] = max(paid.get(model, 0.0), float(cost))
    return paid


def _stored(folder: Path) -> pl.DataFrame:
    """Model, cost: of the episodes and verdicts that were not taken over from another folder."""
    taken = reused.reused(folder).lazy()
    played = episodes(folder).join(taken.filter(pl.col("judge").is_null()), on="key", how="anti")
    read = verdicts(folder).join(taken, on=["key", "judge"], how="anti")
    reader = pl.col("judge").str.split("/").list.first().alias("model")
    rows = pl.concat([played.select("model", "cost"), read.select(reader, "cost")])
    return rows.group_by("model").agg(pl.col("cost").sum()).filter(pl.col("cost") > 0).collect()
