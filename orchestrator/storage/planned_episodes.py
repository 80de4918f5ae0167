"""Which stored episodes belong to a plan: the one rule for driver, status, audit and reports.

An episode belongs if the plan names its key. Where nobody knows the keys, the newest episode of each cell and sample does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import islice

import polars as pl

KEY = pl.Schema({"key": pl.String})
CHUNK = 50_000
"""Keys that are Python's strings at once."""


def planned_only(
    stored: pl.LazyFrame, keys: Iterable[str] | pl.LazyFrame | None, scenarios: Collection[str] | None = None
) -> pl.LazyFrame:
    """The rows of ``stored`` (``EPISODES``, in the order of storing) that belong to the plan with these keys.

    ``keys``: those of all planned episodes, as one column ``key`` or one by one; None where nobody knows them.
    ``scenarios``: those that the keys are known of; left out, they are of all.
    """
    if keys is None:
        return _newest(stored)
    planned = keys if isinstance(keys, pl.LazyFrame) else key_frame(keys).lazy()
    if scenarios is None:
        return stored.join(planned, on="key", how="semi")
    known = pl.col("scenario").is_in(list(scenarios))
    return pl.concat([stored.filter(known).join(planned, on="key", how="semi"), _newest(stored.filter(~known))])


def key_frame(keys: Iterable[str]) -> pl.DataFrame:
    """One column ``key``."""
    return pl.concat([KEY.to_frame(), *key_frames(keys)])


def key_frames(keys: Iterable[str]) -> Iterator[pl.DataFrame]:
    """The same, ``CHUNK`` rows at a time: in polars a key takes half of the memory that it takes in Python."""
    left = iter(keys)
    while chunk := list(islice(left, CHUNK)):
        yield pl.DataFrame({"key": chunk}, schema=KEY)


def _newest(stored: pl.LazyFrame) -> pl.LazyFrame:
    return stored.unique(["cell", "sample_id"], keep="last", maintain_order=True)
