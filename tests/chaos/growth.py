"""Memory, file handles and threads of a sweep's processes over time, and whether they grow.

A process is judged once it lived ``JUDGED_FROM_S``; its slope counts when even the low end of its interval is above the bound.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from scipy.stats import theilslopes

INTERVAL_S = 5.0
JUDGED_FROM_S = 1500.0
"""A worker takes some two thousand episodes until its allocator, pictures and connections have what they need: from 185 MiB
after 400 episodes to 204 after 2,000, and 204 after 2,400."""
WARM_UP = 0.25
"""Share of a process's life that is left out: imports, first connections, first tables."""
CONFIDENCE = 0.99
HOUR = 3600.0
BOUNDS = {"MiB": 64.0, "handles": 16.0, "threads": 8.0}
"""Growth an hour from which on a process leaks: a sweep of two days would take 3 GiB, 768 handles or 384 threads more."""


@dataclass
class Life:
    """One process: seconds since the start, MiB of its own memory (RssAnon), open file handles, threads."""

    name: str
    seconds: list[float] = field(default_factory=list)
    measured: Mapping[str, list[float]] = field(default_factory=lambda: {unit: [] for unit in BOUNDS})

    @property
    def lived(self) -> float:
        return self.seconds[-1] - self.seconds[0]

    def slope(self, unit: str) -> tuple[float, float, float]:
        """Growth an hour after the warm-up, and the interval around it (Theil-Sen: a lone peak moves it little)."""
        first = next(n for n, at in enumerate(self.seconds) if at - self.seconds[0] >= WARM_UP * self.lived)
        fit = theilslopes(self.measured[unit][first:], self.seconds[first:], alpha=CONFIDENCE)
        return fit.slope * HOUR, fit.low_slope * HOUR, fit.high_slope * HOUR


class Recorder:
    """Looks at processes every few seconds, from a thread of its own; ``living`` returns their pids and names."""

    def __init__(self, living: Callable[[], Iterable[tuple[int, str]]]) -> None:
        self.living, self.lives = living, dict[tuple[int, str, str], Life]()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._record, name="growth", daemon=True)

    def __enter__(self) -> Recorder:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _record(self) -> None:
        began = time.monotonic()
        while not self._ended.wait(INTERVAL_S):
            for pid, name in self.living():
                if (readings := read_process(pid)) is not None:
                    life = self.lives.setdefault((pid, start_ticks(pid), name), Life(name))
                    life.seconds.append(time.monotonic() - began)
                    for unit, value in readings.items():
                        life.measured[unit].append(value)

    def judged(self) -> list[Life]:
        """The processes that lived long enough, longest first."""
        return sorted(
            (life for life in self.lives.values() if life.lived >= JUDGED_FROM_S), key=lambda life: -life.lived
        )


def read_process(pid: int) -> dict[str, float] | None:
    """Memory, handles and threads of a process now; None when it is gone."""
    try:
        status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
        handles = float(len(os.listdir(f"/proc/{pid}/fd")))
        return {
            "MiB": int(status["RssAnon"].split()[0]) / 1024,
            "handles": handles,
            "threads": float(status["Threads"]),
        }
    except (OSError, KeyError):  # a zombie has no memory
        return None


def start_ticks(pid: int) -> str:
    """When a process started, in clock ticks since boot: an hour of short lives gives a pid twice."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def table(lives: Iterable[Life]) -> tuple[list[str], bool]:
    """Lines to print, and whether nothing grows."""
    lines, flat = [], True
    for life in lives:
        for unit, bound in BOUNDS.items():
            slope, low, high = life.slope(unit)
            flat = flat and bool(low <= bound)
            first, last = life.measured[unit][0], life.measured[unit][-1]
            lines.append(
                f"{life.name:<34}{life.lived / 60:>6.0f} min {first:>7.0f} -> {last:>5.0f} {unit:<8}{slope:>+8.1f} an hour"
                f"  [{low:+.1f}, {high:+.1f}]  bound {bound:.0f}{'' if low <= bound else '  GROWS'}"
            )
    return lines, flat
