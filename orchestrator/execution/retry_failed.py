"""Makes failed episodes pending again, and those that were cut short by a limit that may have changed.

Their rows are saved in the attempt's logs before the first row is removed from the store, so a crash loses no row.
"""

from collections.abc import Collection
from pathlib import Path

import polars as pl

from envs.types import CUT_SHORT, ERRORS, Ending
from orchestrator.planning.build_plan import stored_episodes
from orchestrator.planning.plan import Plan
from orchestrator.storage import safe_write
from orchestrator.storage.episode_store import EpisodeStore
from sweeps.load import SweepError

RECORD = "retried.jsonl"
RETRIED = (*ERRORS, *CUT_SHORT)
"""Endings that may be played again: none of them is an answer of the model."""


def parse_endings(text: str) -> tuple[Ending, ...]:
    """Return the endings that ``--retry failed,overflow`` names; raises SweepError for a name that is not in ``RETRIED``."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    endings = {str(ending): ending for ending in RETRIED}
    for name in names:
        if name not in endings:
            raise SweepError(
                f"--retry {name!r}: not an ending that can be retried; type one or more of {','.join(endings)}"
            )
    return tuple(endings[name] for name in names)


def requeue_episodes(
    store: EpisodeStore,
    plan: Plan,
    log_folder: Path,
    endings: Collection[Ending] = (Ending.FAILED,),
) -> int:
    """Make the episodes with these endings pending again; return how many.

    Their rows are saved in ``log_folder``. After a crash, the same command makes the rest pending.
    """
    store.flush()
    selected = pl.col("ending").is_in([str(ending) for ending in endings])
    rows = stored_episodes(plan, store.folder).filter(selected).collect()
    if not rows.height:
        return 0
    record = log_folder / RECORD
    earlier = record.read_bytes() if record.exists() else b""
    safe_write.write(record, earlier + rows.select("key", "cell", "ending", "error").write_ndjson().encode())
    store.discard(set(rows["key"]))
    return rows.height
