"""The money that a run folder has spent on services, saved while it is spent, so that limits hold over workers and attempts.

``spent.json`` is written every tenth of a second and counts the highest possible cost of requests in flight as spent. So a
killed attempt can have spent more only on the requests that it sent after the last write.
"""

import asyncio
import json
from pathlib import Path
from typing import Any

import polars as pl
from pydantic import FiniteFloat, TypeAdapter

from actors.worker import SharedLedger
from envs import regular
from orchestrator.gold.gold_check import FOLDER as GOLD
from orchestrator.storage import reused, safe_write
from orchestrator.storage.episode_store import episodes
from orchestrator.storage.verdict_store import verdicts
from sweeps.spec import Sweep

SPENDING_FILE = "spent.json"
"""The file in the run folder with model -> money spent on it, in the currency of its prices."""
MAX_FILE_BYTES = 1 << 20
INTERVAL_S = 0.1
"""Seconds between two looks at the ledger."""
_SPENDING = TypeAdapter(dict[str, FiniteFloat])


class Spending:
    """The ledger of an attempt's costs; it does nothing if the sweep limits no cost."""

    def __init__(self, sweep: Sweep, folder: Path) -> None:
        self.folder, self.ledger = folder, None
        models = [model for model in sweep.models_and_judge if model.backend == "openai"]
        limits = {model.name: model.endpoint.max_cost for model in models}
        total_limit = sweep.cluster.max_cost if models else None
        self.last_saved = dict[str, float]()
        if any(limit is not None for limit in (*limits.values(), total_limit)):
            self.last_saved = read_spending(folder)
            self.ledger = SharedLedger.remote(limits, total_limit, self.last_saved)

    def forget(self, worker: Any) -> None:
        """Count the requests that a killed worker had in flight as spent."""
        if self.ledger is not None:
            self.ledger.forget.remote(worker._actor_id.hex())

    async def watch(self) -> None:
        """Save the spending every ``INTERVAL_S`` until cancelled."""
        while self.ledger is not None:
            await asyncio.sleep(INTERVAL_S)
            await self.save()

    async def save(self) -> None:
        if self.ledger is not None and (spent := await self.ledger.spending.remote()) != self.last_saved:
            safe_write.write(self.folder / SPENDING_FILE, (json.dumps(spent, indent=1) + "\n").encode())
            self.last_saved = spent


def read_spending(folder: Path) -> dict[str, float]:
    """Return model -> money that the folder's attempts have spent: as saved, but at least the cost of rows not reused."""
    reused_rows = reused.read_reused(folder).lazy()
    played = episodes(folder).join(reused_rows.filter(pl.col("judge").is_null()), on="key", how="anti")
    judged = pl.concat([verdicts(folder).join(reused_rows, on=["key", "judge"], how="anti"), verdicts(folder / GOLD)])
    judge_model = pl.col("judge").str.split("/").list.first().alias("model")
    rows = pl.concat([played.select("model", "cost"), judged.select(judge_model, "cost")])
    spent = dict(rows.group_by("model").agg(pl.col("cost").sum()).filter(pl.col("cost") > 0).collect().iter_rows())
    try:
        saved = _SPENDING.validate_json(regular.read_bytes(folder / SPENDING_FILE, MAX_FILE_BYTES))
    except (OSError, ValueError):
        saved = {}
    return spent | {model: max(spent.get(model, 0.0), cost) for model, cost in saved.items()}
