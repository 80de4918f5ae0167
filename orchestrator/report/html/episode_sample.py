"""Which episodes the page shows.

Drawn by seed and stratum: equal folders show equal episodes, and no ending is left out.

First the hardest samples, an episode each, and one sample of every scenario with all its cells, so that models and conditions
can be laid side by side; then an episode of every ending of every cell; then further samples, scenario by scenario, as far as
the bound allows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain, zip_longest
from random import Random

import polars as pl

Keys = list[str]


def chosen(endings: pl.DataFrame, most: int, seed: int, wanted: Sequence[str] = ()) -> Keys:
    """At most ``most`` keys in order of importance, from rows key, cell, scenario, protocol, sample_id, kind (``endings``).

    ``wanted`` are those that a table links to.
    """
    rounds = _samples(endings, seed)
    first = next(rounds, [])
    order = chain(wanted, first, _strata(endings, {*wanted, *first}, seed), chain.from_iterable(rounds))
    return [key for key, _ in zip(dict.fromkeys(order), range(most), strict=False)]


def _samples(endings: pl.DataFrame, seed: int) -> Iterator[Keys]:
    """Round after round one more sample of every scenario, with its episodes of all models and conditions.

    Samples that more cells have played come first: an unfinished sweep still has something to lay side by side.
    """
    groups = endings.group_by("scenario", "protocol", "sample_id").agg(pl.col("key").sort())
    queues: dict[tuple[str, str], list[tuple[int, float, Keys]]] = {}
    for scenario, protocol, number, keys in groups.sort("scenario", "protocol", "sample_id").iter_rows():
        draw = Random(f"{seed}/{scenario}/{protocol}/{number}/page").random()
        queues.setdefault((scenario, protocol), []).append((-len(keys), draw, keys))
    for queue in queues.values():
        queue.sort()
    for found in zip_longest(*queues.values()):
        yield [key for sample in found if sample for key in sample[2]]


def _strata(endings: pl.DataFrame, there: Collection[str], seed: int) -> Iterable[str]:
    """One episode of every ending of every cell that is not there already, in an order drawn by seed."""
    groups = endings.group_by("cell", "kind").agg(pl.col("key").sort()).sort("cell", "kind")
    picks = [
        Random(f"{seed}/{cell}/{kind}/page").choice(keys)
        for cell, kind, keys in groups.iter_rows()
        if not any(key in there for key in keys)
    ]
    Random(f"{seed}/strata").shuffle(picks)
    return picks
