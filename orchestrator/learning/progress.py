"""The progress, metrics, stop request and outcome of a training, for every engine.

Metrics are sent to MLflow at each checkpoint. The first MLflow error is reported and turns tracking off.
"""

import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from types import TracebackType
from typing import Self

from actors.text.redaction import redact_address
from orchestrator.learning.plan import describe_work
from orchestrator.learning.settings import Train
from orchestrator.tracking.mlflow.client import first_line, now_ms
from orchestrator.tracking.mlflow.run import MlflowRun
from orchestrator.tracking.mlflow.run_tree import LEVEL
from orchestrator.tracking.tracked_run import TrackedRun
from orchestrator.tracking.tracker import is_mlflow
from sweeps.spec import Sweep

HISTORY = 1_000
"""Number of steps in memory."""
NOTE = """A training of **MODEL** on single turns of ProactiveBench (GRPO).

- `live_groups`: the share of groups with different rewards. Only these have a gradient; below 0.1 the model hardly learns.
- `asks_hidden`, `asks_clear`: percent of replies that ask, at views that show nothing yet and at clear ones. A model that learns
  to ask raises the first and not the second.
- `acc_in_domain`, `acc_out_of_domain`: percent of greedy episodes on the sweep's own data that end right, if evaluations are on.
"""


class MetricsLog:
    """The metrics of one training, sent to MLflow on ``send`` and on exit."""

    def __init__(self, sweep: Sweep, train: Train, folder: Path) -> None:
        self.sweep, self.train, self.folder = sweep, train, folder
        self.history: deque[tuple[int, Mapping[str, float]]] = deque(maxlen=HISTORY)
        self.unsent: list[tuple[int, int, Mapping[str, float]]] = []
        """Step, time in milliseconds, and metrics."""
        self.off = not is_mlflow(sweep.tracking.uri)
        self.run: MlflowRun | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.send()
        if self.run is not None:
            with self._tracking() as run:
                run.client.set_terminated(run.parent, "FAILED" if kind else "FINISHED")

    def record(self, step: int, metrics: Mapping[str, float]) -> None:
        """Record the metrics of one step."""
        self.history.append((step, metrics))
        if not self.off:
            self.unsent.append((step, now_ms(), metrics))

    def has(self, name: str) -> bool:
        """Return True if a recent step has this metric."""
        return any(name in metrics for _, metrics in self.history)

    def mean(self, name: str, steps: int) -> float:
        """Return the mean of a metric over the last ``steps`` steps that have it."""
        values = [metrics[name] for _, metrics in self.history if name in metrics][-steps:]
        return sum(values) / len(values)

    def send(self) -> None:
        """Send the metrics that MLflow does not have yet."""
        if self.off or not self.unsent:
            return
        with self._tracking() as run:
            for step, time, metrics in self.unsent:
                for name, value in metrics.items():
                    run.client.log_metric(run.parent, name, value, time, step)
        self.unsent = []

    def send_file(self, path: Path) -> None:
        """Store a file with the run."""
        if not self.off:
            with self._tracking() as run:
                run.send_files([path])

    @contextmanager
    def _tracking(self) -> Iterator[MlflowRun]:
        """Provide the MLflow run, created at first use; any error turns tracking off."""
        try:
            self.run = self.run or self._create_run()
            yield self.run
        except Exception as error:  # MLflow raises errors of any type
            self.off = True
            message = f"MLflow at {redact_address(self.sweep.tracking.uri)} takes no metrics ({first_line(error)})"
            print(f"{message}; the training continues without it", file=sys.stderr, flush=True)

    def _create_run(self) -> MlflowRun:
        tracking, model = self.sweep.tracking, self.train.model.name
        params = {**{key: str(value) for key, value in self.train.settings.items()}, "model": model}
        experiment = tracking.experiment or self.sweep.name
        run = MlflowRun(TrackedRun(tracking.uri, experiment, self.folder, f"train {self.folder.name}", params))
        run.client.set_tag(run.parent, LEVEL, "training")
        run.client.set_tag(run.parent, "mlflow.note.content", NOTE.replace("MODEL", model))
        return run


LIVE_CHECK_STEPS, MIN_LIVE_GROUPS = 20, 0.1
"""A mean share of live groups below the minimum is reported after the first steps: the model hardly learns."""
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
    old_handlers = {
        number: signal.signal(number, lambda number, frame: stop.set()) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield stop
    finally:
        for number, handler in old_handlers.items():
            signal.signal(number, handler)
