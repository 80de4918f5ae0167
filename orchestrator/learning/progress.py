"""The progress, stop request and outcome of a training, for every engine."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.learning.metrics_log import MetricsLog
from orchestrator.learning.plan import described
from orchestrator.learning.settings import Train

FIRST_LOOK, FEW_LIVE = 20, 0.1
"""Steps after which the share of live groups is judged, and the share below which hardly anything is learnt."""
TOLD_EVERY = 10
"""Steps between two lines of progress."""
SHOWN = ("reward", "live_groups", "asks_hidden", "asks_clear")
"""Measures that a line of progress has."""


def to_stderr(line: str) -> None:
    """One line at once."""
    print(line, file=sys.stderr, flush=True)


@dataclass(frozen=True, slots=True)
class Trained:
    """The outcome of a training."""

    folder: Path
    model: Path | None
    """``model.toml``; None where it was interrupted."""
    steps: int
    """Steps done in all."""

    @property
    def interrupted(self) -> bool:
        return self.model is None


@dataclass
class TrainingProgress:
    """Lines for the person who waits, and measures for MLflow."""

    train: Train
    log: MetricsLog
    say: Callable[[str], None]
    tell_line: Callable[[str], None] = to_stderr
    began: float = field(default_factory=time.perf_counter)

    def announce(self, output: Path, counts: Mapping[str, int], start: int) -> None:
        """Announce the work; ``start`` steps are already done."""
        kinds = ", ".join(f"{number:,} {kind}" for kind, number in counts.items())
        self.say(f"{output}: {sum(counts.values()):,} states ({kinds}), {described(self.train)}")
        if start > 0:
            self.say(f"{start:,} steps were done before")
        self.began = time.perf_counter()

    def step(self, step: int, measured: Mapping[str, float]) -> None:
        """Record the measures of one step; say so once if hardly any group has a gradient after the first steps."""
        self.log.step(step, measured)
        if step + 1 != FIRST_LOOK:
            return
        share = self.log.mean("live_groups", FIRST_LOOK)
        if share < FEW_LIVE:
            explore = (
                "" if self.train.engine == "trl" else "train.exploration.hint = 0.5, or train.exploration.clone, or "
            )
            self.say(
                f"{100 * share:.1f}% of the groups of the first {FIRST_LOOK} steps have replies with different rewards, and the "
                f"others teach nothing: set {explore}a higher train.temperature"
            )

    def tell(self, start: int, step: int) -> None:
        """A line of progress with the time left."""
        total = self.train.steps
        if (step + 1) % TOLD_EVERY and step + 1 != total:
            return
        spent = time.perf_counter() - self.began
        left = spent / (step + 1 - start) * (total - step - 1)
        measured = "".join(f", {name} {self.log.mean(name, TOLD_EVERY):.2f}" for name in SHOWN if self.log.has(name))
        cloned = self.train.exploration.clone
        position = (
            f"step {step + 1:,} of {total:,}" if step >= 0 else f"cloning step {step + 1 + cloned:,} of {cloned:,}"
        )
        self.tell_line(f"{position}{measured}, {left:.0f} s left")


@dataclass
class StopRequest:
    """True if somebody asked for the end."""

    asked: bool = False


@contextmanager
def stoppable() -> Iterator[StopRequest]:
    """Ctrl-C and SIGTERM end the training after the running step, with a checkpoint."""
    stop = StopRequest()

    def asked(number: int, frame: object) -> None:
        stop.asked = True

    before = {number: signal.signal(number, asked) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
