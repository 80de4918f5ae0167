"""A failed episode that is played again is pending first: its row is taken back, and what it failed of is kept in the logs."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from envs.types import Ending
from orchestrator.planning.plan import Plan
from orchestrator.storage import atomic_write
from orchestrator.storage.episode_store import EpisodeStore, episodes

RECORD = "retried.jsonl"


def take_back(store: EpisodeStore, plan: Plan, place: Path) -> int:
    """Make the plan's failed episodes pending again; how many they were.

    ``place``, the attempt's folder, has their old rows on the disk before the first one goes. A crash in between leaves
    some failed and some pending, and the same command takes back the rest. Failures of other plans stay as they are.
    """
    planned = {key for index in range(len(plan.cells)) for key in plan.keys(index)}
    failed = episodes(store.folder).filter(pl.col("ending") == str(Ending.FAILED)).collect()
    mine = failed.filter(pl.col("key").is_in(planned & set(failed["key"])))
    if mine.height:
        atomic_write.write(place / RECORD, mine.select("key", "cell", "error").write_ndjson().encode())
        store.take_back(set(mine["key"]))
    return mine.height
