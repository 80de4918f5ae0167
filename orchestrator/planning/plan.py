"""The plan of a sweep: it numbers all episodes, and lists those that are pending.

Every planned episode has one ordinal and one key, and is pending until it is stored; to resume is to plan again. Where the
sweep stops by precision, the order of playing is drawn by seed, and what comes after a cell's stop belongs no more.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import accumulate, chain, groupby, zip_longest

from actors.prompts import version
from actors.turn_judge import turn_judge_key
from envs.bad_lines import LeftOut
from envs.chance import chance, episode_seed
from envs.types import Mode, Sample
from sweeps.conditions import Condition
from sweeps.precision import Precision
from sweeps.spec import Cell, Judge, ModelSpec, Protocol, Sweep
from sweeps.values import digest

BUILTIN_GROUP = "builtin"
"""Policies need no loading, so one worker hosts all of them."""
Ordinals = tuple[int, ...]
JUDGE = "judge:"
"""What the name of a judge's workers begins with; no model's name holds a colon."""


def group(model: ModelSpec) -> str:
    """The pool of workers that plays a model: its own, or the one of all built-in policies."""
    return BUILTIN_GROUP if model.backend == "builtin" else model.name


def judge_group(judge: Judge) -> str:
    """The pool of workers that reads for a judge."""
    return f"{JUDGE}{judge.model.name}"


@dataclass(frozen=True)
class OrdinalsOf:
    """The ordinals of some cells, without a list of them."""

    offsets: Sequence[int]
    cells: Collection[int]
    """Indexes."""

    def __contains__(self, ordinal: object) -> bool:
        return isinstance(ordinal, int) and bisect_right(self.offsets, ordinal) - 1 in self.cells


@dataclass(frozen=True)
class Plan:
    """Cells, samples, and the numbering of their product; it travels to every worker once."""

    cells: tuple[Cell, ...]
    samples: Mapping[str, tuple[Sample, ...]]
    """Scenario -> the samples played as multiple choice, by letter or by call, in file order."""
    pools: Mapping[str, tuple[Sample, ...]]
    """Scenario -> the samples that examples are drawn from; it does not shrink with a limit."""
    seed: int
    open_ended: Mapping[str, tuple[Sample, ...]] = field(default_factory=dict)
    """Scenario -> the samples played as open-ended generation."""
    left_out: tuple[LeftOut, ...] = ()
    """The bad lines of the scenarios' files that nobody plays (``skip_bad``)."""
    turn_judge: Judge | None = None
    """Who reads answers while their episodes wait (``oeg-multi``): part of those episodes' keys."""
    precision: Precision | None = None
    """The rule by which cells stop; with one, samples are played in an order drawn by seed, scenarios in turn."""
    stops: Mapping[int, int] = field(default_factory=dict)
    """Index of a cell -> after how many samples of that order it was stopped: the others do not belong."""

    def drawn(self, cell: Cell) -> tuple[Sample, ...]:
        """The samples of a cell, in the order of its ordinals."""
        return (self.open_ended if cell.protocol.in_words else self.samples)[cell.scenario]

    @cached_property
    def ranks(self) -> dict[str, tuple[int, ...]]:
        """Scenario -> the place of each sample of multiple choice in the drawn order, which is every model's and condition's."""
        return {name: drawn_order(self.seed, name, [one.id for one in found]) for name, found in self.samples.items()}

    @property
    def sizes(self) -> list[int]:
        """Samples of each cell, those after its stop included."""
        return [len(self.drawn(cell)) for cell in self.cells]

    def stopped(self, stops: Mapping[int, int]) -> Plan:
        """The same plan with these cells stopped, and no others."""
        return replace(self, stops=dict(stops))

    def size(self, index: int) -> int:
        """Samples of a cell that belong."""
        return self.stops.get(index, len(self.drawn(self.cells[index])))

    @cached_property
    def played(self) -> dict[str, dict[int, Sample]]:
        """Scenario -> id -> each sample that some cell plays."""
        found: dict[str, dict[int, Sample]] = {}
        for name, samples in (*self.samples.items(), *self.open_ended.items()):
            found.setdefault(name, {}).update((sample.id, sample) for sample in samples)
        return found

    @cached_property
    def offsets(self) -> list[int]:
        """First ordinal of each cell, and the total at the end."""
        return [0, *accumulate(self.sizes)]

    @property
    def total(self) -> int:
        """Planned episodes, those after a stop included."""
        return self.offsets[-1]

    @property
    def wanted(self) -> int:
        """Episodes that belong."""
        return sum(map(self.size, range(len(self.cells))))

    @cached_property
    def fingerprints(self) -> list[str]:
        """Hash of what changes each cell's answers, pool of examples and seed included."""
        pools = {name: digest("".join(s.digest for s in pool)) for name, pool in self.pools.items()}
        return [
            cell.fingerprint(version(cell.protocol, cell.condition))
            + f"/{self.seed}"
            + (pools[cell.scenario] if cell.condition.shots else "")
            + (self._known(cell) if cell.condition.mode is Mode.RANDOM else "")
            + (self._read_by if cell.protocol is Protocol.OEG_MULTI else "")
            + (_calling(cell.model) if cell.protocol is Protocol.TOOLS else "")
            for cell in self.cells
        ]

    @cached_property
    def _read_by(self) -> str:
        return turn_judge_key(self.turn_judge) if self.turn_judge else ""

    def _known(self, cell: Cell) -> str:
        """Hash of the suggestions that random-proactive draws from."""
        drawn = self.drawn(cell)
        return digest(json.dumps(drawn[0].known if drawn else None, sort_keys=True))

    def task(self, ordinal: int) -> tuple[int, Sample]:
        """Index of the cell and the sample behind an ordinal."""
        index = bisect_right(self.offsets, ordinal) - 1
        return index, self.drawn(self.cells[index])[ordinal - self.offsets[index]]

    def together(self, one: int, other: int) -> bool:
        """Whether two ordinals are one sample's, under two conditions of one model: pictures and prompt are shared."""
        return self.task(one)[1] is self.task(other)[1]

    def key(self, index: int, sample: Sample) -> str:
        """``model/scenario/condition/0042-3fa9c1d2``: readable, and unique to all that changes the answer."""
        cell = self.cells[index]
        return f"{cell.key}/{sample.id:04d}-{digest(self.fingerprints[index] + _content(cell, sample), 4)}"

    def episode_seed(self, sample: Sample, condition: Condition | None = None) -> int:
        """The seed of a sample's episodes: the same for every model and condition, another for each draw of a replicate."""
        purpose = f"episode-{condition.draw}" if condition and condition.draw else "episode"
        return episode_seed(self.seed, sample.scenario, sample.id, purpose)

    def keys(self, index: int) -> Iterator[str]:
        """Keys of one cell in the order of its ordinals, those after its stop included."""
        cell, fingerprint = self.cells[index], self.fingerprints[index]
        prefix = cell.key
        for sample in self.drawn(cell):
            yield f"{prefix}/{sample.id:04d}-{digest(fingerprint + _content(cell, sample), 4)}"

    def all_keys(self, model: str | None = None) -> Iterator[str]:
        """Keys of all episodes that belong, in the order of ordinals; of one model where it is named."""
        for index, cell in enumerate(self.cells):
            if model in (None, cell.model.name):
                yield from (key for number, key in enumerate(self.keys(index)) if self._belongs(index, number))

    def _belongs(self, index: int, number: int) -> bool:
        """Whether a cell was not stopped before its sample of this number."""
        return index not in self.stops or self.ranks[self.cells[index].scenario][number] < self.stops[index]

    def pending(self, finished: Collection[str]) -> dict[str, list[int]]:
        """Group -> ordinals still to play; the conditions of one sample stand side by side, so that caches help."""
        waiting: dict[str, list[int]] = {}
        for model, blocks in groupby(self._blocks(), lambda block: self.cells[block[0]].model):
            samples = [self._by_sample(block, finished) for block in blocks]
            queue = waiting.setdefault(group(model), [])
            queue.extend(ordinal for sample in self._in_turn(samples) for ordinal in sample if ordinal >= 0)
        return {name: queue for name, queue in waiting.items() if queue}

    def left(self, pending: Mapping[str, Sequence[int]]) -> Counter[int]:
        """Index of a cell -> how many of its ordinals these queues hold."""
        places = Counter(map(partial(bisect_right, self.offsets), chain.from_iterable(pending.values())))
        return Counter({place - 1: number for place, number in places.items()})

    def _by_sample(self, indexes: Sequence[int], finished: Collection[str]) -> list[Ordinals]:
        """The ordinals of cells that share samples, one tuple a sample, in the order of playing; -1 where nothing is to play."""
        rows = list(zip(*(self._unfinished(index, finished) for index in indexes), strict=True))
        cell = self.cells[indexes[0]]
        if not self.precision or cell.protocol.in_words:
            return rows
        return [row for _, row in sorted(zip(self.ranks[cell.scenario], rows, strict=True))]

    def _in_turn(self, scenarios: Sequence[list[Ordinals]]) -> Iterator[Ordinals]:
        """The samples of one model: scenario after scenario, or one of each in turn."""
        if not self.precision:
            return chain.from_iterable(scenarios)
        return chain.from_iterable(zip_longest(*scenarios, fillvalue=()))

    def _unfinished(self, index: int, finished: Collection[str]) -> list[int]:
        """The cell's ordinals, -1 where the episode is stored or does not belong."""
        first = self.offsets[index]
        if not finished and index not in self.stops:
            return list(range(first, self.offsets[index + 1]))
        return [
            -1 if key in finished or not self._belongs(index, number) else first + number
            for number, key in enumerate(self.keys(index))
        ]

    def _blocks(self) -> Iterator[list[int]]:
        """Cells that share model and samples, by index."""
        blocks: dict[tuple[str, str, str], list[int]] = {}
        for index, cell in enumerate(self.cells):
            blocks.setdefault((cell.model.name, cell.scenario, cell.protocol), []).append(index)
        yield from blocks.values()


def _calling(model: ModelSpec) -> str:
    """How its functions are called, where that is not by a service's own tool calling."""
    return f"/{model.tools}" if model.calls_natively and model.tools else "" if model.calls_natively else "/text"


def _content(cell: Cell, sample: Sample) -> str:
    """Digest of the sample's line, and of the one whose picture is shown in its place."""
    if cell.condition.picture != "swapped" or sample.swapped is None:
        return sample.digest
    return sample.digest + sample.swapped.digest


def drawn_order(seed: int, scenario: str, ids: Sequence[int]) -> tuple[int, ...]:
    """The place of each sample in an order drawn by seed; of fewer samples it is the same one without the others."""
    draws = [(chance(seed, scenario, one, "order").random(), one) for one in ids]
    order = sorted(range(len(ids)), key=draws.__getitem__)
    return tuple(sorted(range(len(order)), key=order.__getitem__))


def planned(
    sweep: Sweep,
    samples: Mapping[Protocol, Mapping[str, Sequence[Sample]]],
    pools: Mapping[str, Sequence[Sample]],
    left_out: Sequence[LeftOut] = (),
) -> Plan:
    """The plan of a sweep over loaded samples: protocol -> scenario -> those played."""
    openly = next((protocol for protocol in samples if protocol.in_words), Protocol.OEG)
    chosen = next((protocol for protocol in samples if not protocol.in_words), Protocol.MCQA)
    choice, open_ended = (
        {name: tuple(found) for name, found in samples.get(protocol, {}).items()} for protocol in (chosen, openly)
    )
    whole = {name: tuple(found) for name, found in pools.items()}
    rule, judge = sweep.precision, sweep.turn_judge
    return Plan(sweep.cells(), choice, whole, sweep.seed, open_ended, tuple(left_out), judge, rule)
