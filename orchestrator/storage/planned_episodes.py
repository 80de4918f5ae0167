"""The rule by which stored episodes belong to a plan, for driver, status, audit and reports.

An episode belongs if the plan names its key. If the keys are unknown, the newest episode per cell and sample belongs.
"""

from collections.abc import Collection, Iterable, Iterator
from itertools import islice

import polars as pl

KEY = pl.Schema({"key": pl.String})
CHUNK = 50_000
"""Most keys that are held as Python strings at the same time."""


def filter_planned(
    stored: pl.LazyFrame, keys: Iterable[str] | pl.LazyFrame | None, scenarios: Collection[str] | None = None
) -> pl.LazyFrame:
    """Return the rows of ``stored`` (``EPISODES``, in stored order) that belong to the plan with these keys.

    Args:
        keys: the keys of all planned episodes, as a frame with the column ``key`` or as strings; None if they are unknown.
        scenarios: the scenarios that the keys cover; None for all.
    """
    if keys is None:
        return _newest_per_sample(stored)
    planned = keys if isinstance(keys, pl.LazyFrame) else key_frame(keys).lazy()
    if scenarios is None:
        return stored.join(planned, on="key", how="semi")
    has_keys = pl.col("scenario").is_in(list(scenarios))
    return pl.concat(
        [stored.filter(has_keys).join(planned, on="key", how="semi"), _newest_per_sample(stored.filter(~has_keys))]
    )


def key_frame(keys: Iterable[str]) -> pl.DataFrame:
    """Return the keys as one column ``key``."""
    return pl.concat([KEY.to_frame(), *key_chunks(keys)])


def key_chunks(keys: Iterable[str]) -> Iterator[pl.DataFrame]:
    """Yield the keys as frames of ``CHUNK`` rows; a key takes half as much memory in polars as in Python."""
    remaining = iter(keys)
    while chunk := list(islice(remaining, CHUNK)):
        yield pl.DataFrame({"key": chunk}, schema=KEY)


def _newest_per_sample(stored: pl.LazyFrame) -> pl.LazyFrame:
    return stored.unique(["cell", "sample_id"], keep="last", maintain_order=True)
