"""Measures sides alternately on one machine, and refuses a ratio if the machine was too busy."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import psutil

ALLOWED = 0.10
"""Share of all processors that other programs may use while a bench measures, before its ratio is refused."""
HEADER = "| bench | measured | side | median | min | max | runs |\n| --- | --- | --- | ---: | ---: | ---: | ---: |"

Figures = Mapping[str, float]
"""What one run of one side gives: a measure with its unit (``turns/s``) -> its value."""


@dataclass(frozen=True)
class Row:
    """The values of one measure and side over all rounds."""

    bench: str
    measure: str
    side: str
    values: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    def __str__(self) -> str:
        figures = " | ".join(_short(value) for value in (self.median, min(self.values), max(self.values)))
        return f"| {self.bench} | {self.measure} | {self.side} | {figures} | {len(self.values)} |"


@dataclass
class Others:
    """Processor use of other programs, sampled while nothing of ours runs."""

    seconds: float = 1.0
    shares: list[float] = field(default_factory=list)

    def look(self) -> None:
        """Measure for ``seconds``; time that the hypervisor gave to other machines (steal) counts too."""
        self.shares.append(psutil.cpu_percent(self.seconds) / 100)

    @property
    def share(self) -> float:
        """The median of the looks, of all processors: 0 to 1."""
        return statistics.median(self.shares)


def run_alternately(bench: str, sides: Mapping[str, Callable[[], Figures]], rounds: int, others: Others) -> list[Row]:
    """Run each side once per round, in turn."""
    values_by_side: dict[tuple[str, str], list[float]] = {}
    for _ in range(rounds):
        for side, run in sides.items():
            others.look()
            for measure, value in run().items():
                values_by_side.setdefault((measure, side), []).append(value)
    return [Row(bench, measure, side, tuple(values)) for (measure, side), values in values_by_side.items()]


def ratio(first: Row, second: Row, others: Others) -> str:
    """Return one sentence: the ratio of two medians with its spread over the rounds, or why there is none."""
    what = f"{first.bench}: {first.side} / {second.side}, {first.measure}:"
    if others.share > ALLOWED:
        return f"{what} no ratio, other programs used {others.share:.0%} of the processors ({ALLOWED:.0%} is allowed)"
    if 0 in second.values:
        return f"{what} no ratio to 0"
    rounds = [a / b for a, b in zip(first.values, second.values, strict=True)]
    return (
        f"{what} {first.median / second.median:.2f} ({min(rounds):.2f} to {max(rounds):.2f} over {len(rounds)} rounds)"
    )


def machine() -> str:
    """Cores, Python and load of this machine; no name of it."""
    return (
        f"{os.cpu_count()} cores, {psutil.virtual_memory().total / 2**30:.0f} GiB, {platform.machine()}, "
        f"Python {platform.python_version()}, load {os.getloadavg()[0]:.2f}"
    )


def lines(rows: Sequence[Row]) -> Iterator[str]:
    """A Markdown table."""
    yield HEADER
    yield from map(str, rows)


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
