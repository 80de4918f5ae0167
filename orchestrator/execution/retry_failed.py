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
    cells: Collection[str] | None = None,
) -> list[int]:
    """Make the episodes with these endings pending again, in ``cells`` or in all cells; return their ordinals.

    Their rows are saved in ``log_folder``. After a crash, the same command makes the rest pending.
    """
    store.flush()
    selected = pl.col("ending").is_in([str(ending) for ending in endings])
    if cells is not None:
        selected &= pl.col("cell").is_in(cells)
    rows = stored_episodes(plan, store.folder).filter(selected).collect()
    if not rows.height:
        return []
    record = log_folder / RECORD
    earlier = record.read_bytes() if record.exists() else b""
    safe_write.write(record, earlier + rows.select("key", "cell", "ending", "error").write_ndjson().encode())
    keys, row_cells = set(rows["key"]), set(rows["cell"])
    store.discard(keys)
    indexes = (index for index, cell in enumerate(plan.cells) if cell.key in row_cells)
    return [ordinal for index in indexes for ordinal, key in plan.numbered_keys(index) if key in keys]
