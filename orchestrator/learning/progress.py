"""The progress, stop request and outcome of a training, for every engine."""

import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event

from orchestrator.learning.metrics_log import MetricsLog
from orchestrator.learning.plan import describe_work
from orchestrator.learning.settings import Train

LIVE_CHECK_STEPS, MIN_LIVE_GROUPS = 20, 0.1
"""After so many steps, a lower share of live groups is reported: the model hardly learns."""
LINE_INTERVAL = 10
"""Steps between two lines of progress."""
LINE_METRICS = ("reward", "live_groups", "asks_hidden", "asks_clear")


def print_to_stderr(line: str) -> None:
    """Print a line at once."""
    print(line, file=sys.stderr, flush=True)


@dataclass(frozen=True, slots=True)
class TrainingOutcome:
    """The outcome of a training."""

    model: Path | None
    """``model.toml``; None if the training was interrupted."""
    steps: int
    """Completed steps, those of earlier attempts included."""

    @property
    def interrupted(self) -> bool:
        return self.model is None


@dataclass
class TrainingProgress:
    """Lines of progress, and metrics for MLflow."""

    train: Train
    log: MetricsLog
    say: Callable[[str], None]
    print_line: Callable[[str], None] = print_to_stderr
    start_time: float = field(default_factory=time.perf_counter)

    def announce(self, output: Path, counts: Mapping[str, int], start: int) -> None:
        """Announce the work; ``start`` steps are complete."""
        kinds = ", ".join(f"{number:,} {kind}" for kind, number in counts.items())
        self.say(f"{output}: {sum(counts.values()):,} states ({kinds}), {describe_work(self.train)}")
        if start > 0:
            self.say(f"{start:,} steps are already complete")
        self.start_time = time.perf_counter()

    def record(self, step: int, metrics: Mapping[str, float]) -> None:
        """Record the metrics of one step; report once if few of the first groups have a gradient."""
        self.log.record(step, metrics)
        if step + 1 != LIVE_CHECK_STEPS:
            return
        share = self.log.mean("live_groups", LIVE_CHECK_STEPS)
        if share < MIN_LIVE_GROUPS:
            explore = (
                "" if self.train.engine == "trl" else "train.exploration.hint = 0.5, or train.exploration.clone, or "
            )
            self.say(
                f"only {100 * share:.1f}% of the groups of the first {LIVE_CHECK_STEPS} steps have different rewards, and the "
                f"model learns nothing from the others: set {explore}a higher train.temperature"
            )

    def print_step(self, start: int, step: int) -> None:
        """Print a line of progress every ``LINE_INTERVAL`` steps; ``start`` is the first step of this attempt."""
        total = self.train.steps
        if (step + 1) % LINE_INTERVAL and step + 1 != total:
            return
        elapsed = time.perf_counter() - self.start_time
        remaining = elapsed / (step + 1 - start) * (total - step - 1)
        means = [f", {name} {self.log.mean(name, LINE_INTERVAL):.2f}" for name in LINE_METRICS if self.log.has(name)]
        clone = self.train.exploration.clone
        position = f"step {step + 1:,} of {total:,}" if step >= 0 else f"cloning step {step + 1 + clone:,} of {clone:,}"
        self.print_line(f"{position}{''.join(means)}, {remaining:.0f} s left")


@contextmanager
def stop_on_signals() -> Iterator[Event]:
    """Provide an event that Ctrl-C and SIGTERM set; the training then ends after the running step, with a checkpoint."""
    stop = Event()
    before = {
        number: signal.signal(number, lambda number, frame: stop.set()) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
