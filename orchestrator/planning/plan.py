"""The plan of a sweep: numbers all episodes and lists the pending ones.

Every planned episode has one ordinal and one key and is pending until it is stored; resuming means planning again. Samples
are played in an order drawn by seed, so that an unfinished cell is a random sample of its scenario. With a precision rule,
scenarios take turns sample by sample, and episodes after a cell's stop no longer belong to the plan.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import accumulate, chain, count, groupby, repeat, zip_longest
from typing import TYPE_CHECKING

from actors.playing.judge import turn_judge_key
from actors.playing.prompts import version
from envs.chance import chance, episode_seed
from envs.samples import SkippedLines
from envs.types import Mode, Sample
from sweeps.conditions import Condition
from sweeps.sections import Precision
from sweeps.spec import Cell, Judge, ModelSpec, Protocol, Sweep
from sweeps.values import digest

if TYPE_CHECKING:
    import polars as pl

BUILTIN_GROUP = "builtin"
"""The worker group of all built-in policies; they load nothing, so one worker can play all of them."""
JUDGE = "judge:"
"""Prefix of the name of a judge's worker group; no model's name has a colon."""


def worker_group(model: ModelSpec) -> str:
    """Return the name of a model's worker group: the model's own, or that of all built-in policies."""
    return BUILTIN_GROUP if model.backend == "builtin" else model.name


def judge_group(judge: Judge) -> str:
    """Return the name of a judge's worker group."""
    return f"{JUDGE}{judge.model.name}"


@dataclass(frozen=True)
class Plan:
    """The cells and samples of a sweep, and the numbers of their episodes; sent to every worker once."""

    cells: tuple[Cell, ...]
    samples: Mapping[str, tuple[Sample, ...]]
    """Scenario -> the samples that are played as multiple choice (by letter or by tool call), in file order."""
    pools: Mapping[str, tuple[Sample, ...]]
    """Scenario -> the samples from which examples are drawn; ``limit`` does not reduce them."""
    seed: int
    open_ended: Mapping[str, tuple[Sample, ...]] = field(default_factory=dict)
    """Scenario -> the samples that are played as open-ended generation."""
    left_out: tuple[SkippedLines, ...] = ()
    """The bad lines of the scenarios' files, which are not played (``skip_bad``)."""
    turn_judge: Judge | None = None
    """The judge that reads answers during episodes (``oeg-multi``); it is part of their keys."""
    precision: Precision | None = None
    """The rule by which cells stop early; None plays all episodes."""
    stops: Mapping[int, int] = field(default_factory=dict)
    """Index of a stopped cell -> the number of samples, in the drawn order, that it plays."""

    def cell_samples(self, cell: Cell) -> tuple[Sample, ...]:
        """Return the samples of a cell, in the order of its ordinals."""
        return (self.open_ended if cell.protocol.is_open_ended else self.samples)[cell.scenario]

    @cached_property
    def ranks(self) -> dict[str, tuple[int, ...]]:
        """Scenario -> rank of each multiple-choice sample in the drawn order, which is the same for all models and conditions."""
        return {name: drawn_order(self.seed, name, tuple(s.id for s in own)) for name, own in self.samples.items()}

    @property
    def sizes(self) -> list[int]:
        """The number of samples of each cell, without stops."""
        return [len(self.cell_samples(cell)) for cell in self.cells]

    def with_stops(self, stops: Mapping[int, int]) -> Plan:
        return replace(self, stops=dict(stops))

    def size(self, index: int) -> int:
        """Return the number of samples of a cell up to its stop."""
        return self.stops.get(index, len(self.cell_samples(self.cells[index])))

    @cached_property
    def samples_by_id(self) -> dict[str, dict[int, Sample]]:
        """Scenario -> id -> sample, for every sample of the plan."""
        by_scenario: dict[str, dict[int, Sample]] = {}
        for name, samples in (*self.samples.items(), *self.open_ended.items()):
            by_scenario.setdefault(name, {}).update((sample.id, sample) for sample in samples)
        return by_scenario

    @cached_property
    def offsets(self) -> list[int]:
        """The first ordinal of each cell, and the total number of episodes at the end."""
        return [0, *accumulate(self.sizes)]

    @property
    def total(self) -> int:
        """The number of planned episodes, without stops."""
        return self.offsets[-1]

    @property
    def total_with_stops(self) -> int:
        """The number of planned episodes up to the stops."""
        return sum(map(self.size, range(len(self.cells))))

    @cached_property
    def fingerprints(self) -> list[str]:
        """For each cell, a text that differs if anything differs that changes its answers, including example pool and seed."""
        pools = {name: digest("".join(s.digest for s in pool)) for name, pool in self.pools.items()}
        turn_judge = turn_judge_key(self.turn_judge) if self.turn_judge else ""
        return [
            cell.fingerprint(version(cell.protocol, cell.condition))
            + f"/{self.seed}"
            + (pools[cell.scenario] if cell.condition.shots else "")
            + (self._suggestions_digest(cell) if cell.condition.mode is Mode.RANDOM else "")
            + (turn_judge if cell.protocol is Protocol.OEG_MULTI else "")
            + (_calling_mode(cell.model) if cell.protocol is Protocol.TOOLS else "")
            for cell in self.cells
        ]

    def _suggestions_digest(self, cell: Cell) -> str:
        samples = self.cell_samples(cell)
        return digest(json.dumps(samples[0].suggestion_pool if samples else None, sort_keys=True))

    def ordinals(self, cells: Iterable[int]) -> frozenset[int]:
        """Return the ordinals of the cells with these indexes."""
        return frozenset(chain.from_iterable(range(*self.offsets[index : index + 2]) for index in cells))

    def task(self, ordinal: int) -> tuple[int, Sample]:
        """Return the cell's index and the sample of an ordinal."""
        index = bisect_right(self.offsets, ordinal) - 1
        return index, self.cell_samples(self.cells[index])[ordinal - self.offsets[index]]

    def key(self, index: int, sample: Sample) -> str:
        """Return the episode's key, such as ``model/scenario/condition/0042-3fa9c1d2``; it covers all that changes the answer."""
        cell = self.cells[index]
        return f"{cell.key}/{sample.id:04d}-{digest(self.fingerprints[index] + _content_digest(cell, sample), 4)}"

    def episode_seed(self, sample: Sample, condition: Condition | None = None) -> int:
        """Return the seed of a sample's episodes: the same for all models and conditions, but another one per draw."""
        purpose = f"episode-{condition.draw}" if condition and condition.draw else "episode"
        return episode_seed(self.seed, sample.scenario, sample.id, purpose)

    def keys(self, index: int) -> Iterator[str]:
        """Yield the keys of one cell in the order of its ordinals, also those after its stop."""
        return (self.key(index, sample) for sample in self.cell_samples(self.cells[index]))

    def all_keys(self, model: str | None = None) -> Iterator[str]:
        """Yield the keys of all episodes up to the stops in the order of their ordinals, of all models or of one."""
        for index, cell in enumerate(self.cells):
            if model in (None, cell.model.name):
                ranks = self.ranks[cell.scenario] if index in self.stops else repeat(0)
                size = self.size(index)
                yield from (key for rank, key in zip(ranks, self.keys(index), strict=False) if rank < size)

    def first_ordinals(self, model: str) -> list[int]:
        """Return the ordinal of the first episode of each cell of a model."""
        own = (index for index, cell in enumerate(self.cells) if cell.model.name == model)
        return [self.offsets[index] for index in own if self.offsets[index] < self.offsets[index + 1]]

    def pending(self, finished: Collection[str] | pl.Series) -> dict[str, list[int]]:
        """Return worker group -> pending ordinals; the conditions of a sample are adjacent, so that caches help."""
        queues: dict[str, list[int]] = {}
        stored = frozenset(finished)
        for model, blocks in groupby(self._blocks(), lambda block: self.cells[block[0]].model):
            samples = [self._by_sample(block, stored) for block in blocks]
            queue = queues.setdefault(worker_group(model), [])
            # scenario after scenario, or in turns, sample by sample, if the sweep has a precision rule
            ordered = zip_longest(*samples, fillvalue=()) if self.precision else samples
            queue.extend(ordinal for block in ordered for sample in block for ordinal in sample)
        return {name: queue for name, queue in queues.items() if queue}

    def cells_of(self, ordinals: Iterable[int]) -> list[int]:
        """Return the indexes of the cells to which these ordinals belong, in order."""
        return sorted({bisect_right(self.offsets, ordinal) - 1 for ordinal in ordinals})

    def _by_sample(self, indexes: Sequence[int], stored: Collection[str]) -> list[list[int]]:
        """Return for each sample, in playing order, its ordinals in these cells that are neither stored nor after a stop."""
        cell = self.cells[indexes[0]]
        ranks = drawn_order(self.seed, cell.scenario, tuple(sample.id for sample in self.cell_samples(cell)))
        samples: list[list[int]] = [[] for _ in ranks]
        for index in indexes:
            keys, size = self.keys(index) if stored else repeat(""), self.size(index)  # a million keys take a second
            for ordinal, rank, key in zip(count(self.offsets[index]), ranks, keys, strict=False):
                if rank < size and key not in stored:
                    samples[rank].append(ordinal)
        return samples

    def _blocks(self) -> Iterable[list[int]]:
        """Return groups of cell indexes; the cells of a group share model and samples."""
        blocks: dict[tuple[str, str, str], list[int]] = {}
        for index, cell in enumerate(self.cells):
            blocks.setdefault((cell.model.name, cell.scenario, cell.protocol), []).append(index)
        return blocks.values()


def _calling_mode(model: ModelSpec) -> str:
    """Return the way in which a model calls functions; empty for a service's default tool calling."""
    if not model.calls_natively:
        return "/text"
    return f"/{model.tools}" if model.tools else ""


def _content_digest(cell: Cell, sample: Sample) -> str:
    """Return the digest of the sample's line, followed by that of the line whose picture replaces its own, if one does."""
    if cell.condition.picture != "swapped" or sample.swapped is None:
        return sample.digest
    return sample.digest + sample.swapped.digest


@lru_cache(64)
def drawn_order(seed: int, scenario: str, ids: tuple[int, ...]) -> tuple[int, ...]:
    """Return each sample's rank in an order drawn by seed; leaving samples out does not reorder the rest."""
    draws = [(chance(seed, scenario, sample_id, "order").random(), sample_id) for sample_id in ids]
    order = sorted(range(len(draws)), key=draws.__getitem__)
    return tuple(sorted(range(len(order)), key=order.__getitem__))


def make_plan(
    sweep: Sweep,
    samples: Mapping[Protocol, Mapping[str, Sequence[Sample]]],
    pools: Mapping[str, Sequence[Sample]],
    left_out: Sequence[SkippedLines] = (),
) -> Plan:
    """Return the plan of a sweep; ``samples``: protocol -> scenario -> samples to play."""
    played = {protocol.is_open_ended: loaded for protocol, loaded in reversed([*samples.items()])}
    choice, open_ended, example_pools = (
        {name: tuple(loaded) for name, loaded in group.items()}
        for group in (played.get(False, {}), played.get(True, {}), pools)
    )
    rule, judge = sweep.precision, sweep.turn_judge
    return Plan(sweep.cells(), choice, example_pools, sweep.seed, open_ended, tuple(left_out), judge, rule)
