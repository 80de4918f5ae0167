"""The choice of episodes that the page shows, drawn by seed and stratum: equal folders show equal episodes.

The hardest samples come first, an episode each, and one sample of every scenario with all its cells, so that models and
conditions can be compared side by side; then an episode of every ending of every cell; then further samples, scenario by
scenario, up to the limit.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain, zip_longest
from random import Random

import polars as pl

Keys = list[str]


def sample_episodes(endings: pl.DataFrame, most: int, seed: int, linked: Sequence[str] = ()) -> Keys:
    """Return at most ``most`` keys in order of importance.

    Args:
        endings: Rows key, cell, scenario, protocol, sample_id, kind (``measures.endings``).
        most: Largest number of keys.
        seed: Seed of the draw.
        linked: Keys that a table links to; they come first.
    """
    rounds = _sample_rounds(endings, seed)
    first = next(rounds, [])
    order = chain(linked, first, _strata(endings, {*linked, *first}, seed), chain.from_iterable(rounds))
    return [key for key, _ in zip(dict.fromkeys(order), range(most), strict=False)]


def _sample_rounds(endings: pl.DataFrame, seed: int) -> Iterator[Keys]:
    """Yield, round by round, one more sample of every scenario, with its episodes of all models and conditions.

    Samples that more cells have played come first, so that an unfinished sweep still has something to compare.
    """
    groups = endings.group_by("scenario", "protocol", "sample_id").agg(pl.col("key").sort())
    queues: dict[tuple[str, str], list[tuple[int, float, Keys]]] = {}
    for scenario, protocol, number, keys in groups.sort("scenario", "protocol", "sample_id").iter_rows():
        draw = Random(f"{seed}/{scenario}/{protocol}/{number}/page").random()
        queues.setdefault((scenario, protocol), []).append((-len(keys), draw, keys))
    for queue in queues.values():
        queue.sort()
    for samples in zip_longest(*queues.values()):
        yield [key for sample in samples if sample for key in sample[2]]


def _strata(endings: pl.DataFrame, present: Collection[str], seed: int) -> Iterable[str]:
    """Return one episode of every ending of every cell that is not present yet, in an order drawn by seed."""
    groups = endings.group_by("cell", "kind").agg(pl.col("key").sort()).sort("cell", "kind")
    picks = [
        Random(f"{seed}/{cell}/{kind}/page").choice(keys)
        for cell, kind, keys in groups.iter_rows()
        if not any(key in present for key in keys)
    ]
    Random(f"{seed}/strata").shuffle(picks)
    return picks
