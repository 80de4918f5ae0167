"""The keys of stored episodes, grouped by cell, so that a plan only computes the keys of samples that are stored."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from envs.types import Sample

if TYPE_CHECKING:
    import polars as pl

SAMPLE_PART = "0123456789abcdef-"
"""Characters that a key can have after its cell and ``/``."""
HASH_LENGTH = 9
"""Number of characters in a key after its sample's id, such as ``-3fa9c1d2``."""


class StoredKeys:
    """Stored keys by cell; may include keys of other plans, and keys that occur twice."""

    def __init__(self, keys: Collection[str] | pl.Series) -> None:
        self._by_cell: Mapping[tuple[object, ...], pl.DataFrame] = _partition(keys) if len(keys) else {}

    def of_cell(self, cell_key: str) -> set[str]:
        """Return the stored keys of a cell, also those whose sample or settings have changed since."""
        frame = self._by_cell.get((f"{cell_key}/",))
        return set() if frame is None else set(frame["key"].to_list())


def ids_in_keys(samples: Iterable[Sample]) -> list[str]:
    """Return the samples' ids as they are written in keys."""
    return [f"{sample.id:04d}" for sample in samples]


def sample_ids(cell_key: str, keys: Iterable[str]) -> set[str]:
    """Return the ids of the samples in these keys of a cell."""
    first = len(cell_key) + 1
    return {key[first:-HASH_LENGTH] for key in keys}


def _partition(keys: Collection[str] | pl.Series) -> Mapping[tuple[object, ...], pl.DataFrame]:
    import polars as pl  # imported only here: that takes longer than planning a sweep without stored episodes

    column = keys if isinstance(keys, pl.Series) else pl.Series(list(keys), dtype=pl.String)
    frame = column.alias("key").to_frame().with_columns(pl.col("key").str.strip_chars_end(SAMPLE_PART).alias("cell"))
    return frame.partition_by("cell", as_dict=True, include_key=False)
