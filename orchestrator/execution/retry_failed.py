"""Episodes that ended without a right to, made pending again: failed ones, or those whose limits have changed since.

Their rows are kept in the attempt's logs before the first one is taken back, so that a crash in between loses nothing.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import polars as pl

from envs.types import CUT_SHORT, ERRORS, Ending
from orchestrator.planning.build_plan import belonging
from orchestrator.planning.plan import Plan
from orchestrator.storage import atomic_write
from orchestrator.storage.episode_store import EpisodeStore
from sweeps.load import SweepError

RECORD = "retried.jsonl"
RETRIED = (*ERRORS, *CUT_SHORT)
"""Endings that another attempt may better: none of them is an answer."""


def endings(text: str) -> tuple[Ending, ...]:
    """The endings of ``--retry failed,overflow``; raises SweepError for one that is none of ``RETRIED``."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    known = {str(ending): ending for ending in RETRIED}
    for name in names:
        if name not in known:
            raise SweepError(
                f"--retry {name!r} is no ending that can be retried; type one or more of {','.join(known)}"
            )
    return tuple(known[name] for name in names)


def take_back(store: EpisodeStore, plan: Plan, log_folder: Path, kinds: Collection[Ending] = (Ending.FAILED,)) -> int:
    """Make the plan's episodes that ended as one of ``kinds`` pending again; how many they were."""
    return len(taken_back(store, plan, log_folder, kinds))


def taken_back(
    store: EpisodeStore,
    plan: Plan,
    log_folder: Path,
    kinds: Collection[Ending],
    cells: Collection[str] | None = None,
) -> list[int]:
    """The same, of these cells alone; the ordinals of what is pending again.

    ``log_folder``, that of the attempt, has their old rows on the disk before the first one goes. After a crash in between
    the same command takes back the rest. Episodes of other plans stay as they are.
    """
    store.flush()
    wanted = pl.col("ending").is_in([str(kind) for kind in kinds])
    found = (
        belonging(plan, store.folder).filter(wanted & (cells is None or pl.col("cell").is_in(cells or ()))).collect()
    )
    if not found.height:
        return []
    record = log_folder / RECORD
    before = record.read_bytes() if record.exists() else b""
    atomic_write.write(record, before + found.select("key", "cell", "ending", "error").write_ndjson().encode())
    keys = set(found["key"])
    store.take_back(keys)
    places = [(n, plan.offsets[n]) for n, cell in enumerate(plan.cells) if cell.key in set(found["cell"])]
    return [first + number for n, first in places for number, key in enumerate(plan.keys(n)) if key in keys]
