"""Makes failed episodes pending again for ``run --retry-failed``.

The old rows, with the reasons, are in the attempt's logs before the first one leaves the store.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

from envs.types import Ending
from orchestrator.planning.build_plan import belonging
from orchestrator.planning.plan import Plan
from orchestrator.storage import atomic_write
from orchestrator.storage.episode_store import EpisodeStore

RECORD = "retried.jsonl"


def take_back(store: EpisodeStore, plan: Plan, log_folder: Path) -> int:
    """Make the plan's failed episodes pending again; how many they were.

    ``log_folder``, that of the attempt, has their old rows on the disk before the first one goes. A crash in between leaves
    some failed and some pending, and the same command takes back the rest. Failures of other plans stay as they are.
    """
    failed = belonging(plan, store.folder).filter(pl.col("ending") == Ending.FAILED).collect()
    if failed.height:
        atomic_write.write(log_folder / RECORD, failed.select("key", "cell", "error").write_ndjson().encode())
        store.take_back(set(failed["key"]))
    return failed.height
