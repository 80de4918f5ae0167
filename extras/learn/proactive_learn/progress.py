"""The lines of progress of a training, its metrics in MLflow, and the request to stop it.

Metrics are sent to MLflow at each checkpoint. The first MLflow error is reported and turns tracking off.
"""

import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from threading import Event
from types import TracebackType

from actors.text.redaction import redact_address
from orchestrator.tracking.client import first_line
from orchestrator.tracking.mlflow_run import LEVEL, NOTE, MlflowRun
from orchestrator.tracking.tracker import TrackedRun, is_mlflow
from proactive_learn.settings import Training

DESCRIPTION = """A training of **MODEL** on single turns of ProactiveBench (GRPO).

- `live_groups`: the share of groups with different rewards. Only these have a gradient; below 0.1 the model hardly learns.
- `asks_hidden`, `asks_clear`: percent of replies that ask, at views that show nothing yet and at clear ones. A model that learns
  to ask raises the first and not the second.
"""
LIVE_CHECK_STEPS, MIN_LIVE_GROUPS = 20, 0.1
"""A mean share of live groups below the minimum is reported after the first steps: the model hardly learns."""
LINE_INTERVAL = 10
"""Steps between two lines of progress."""
LINE_METRICS = ("reward", "live_groups", "asks_hidden", "asks_clear")


class TrainingProgress(AbstractContextManager["TrainingProgress"]):
    """The metrics of one training: printed, and sent to MLflow on ``send`` and on exit."""

    def __init__(self, training: Training, folder: Path, say: Callable[[str], None], off: bool = False) -> None:
        self.sweep, self.train = training
        self.folder, self.say, self.start_time = folder, say, time.perf_counter()
        self.off = off or not is_mlflow(self.sweep.tracking.uri)
        self._recent = deque[Mapping[str, float]](maxlen=LIVE_CHECK_STEPS)
        self._unsent: list[tuple[int, int, Mapping[str, float]]] = []
        """Step, time in milliseconds, and metrics."""
        self._run: MlflowRun | None = None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.send()
        if self._run is not None:
            self._track(lambda run: run.client.set_terminated(run.parent, "FAILED" if kind else "FINISHED"))

    def record(self, step: int, metrics: Mapping[str, float]) -> None:
        """Record the metrics of one step; report once if few of the first groups have a gradient."""
        if not self.off:
            self._unsent.append((step, int(time.time() * 1000), metrics))
        self._recent.append(metrics)
        share = self._mean("live_groups", LIVE_CHECK_STEPS)
        if step + 1 == LIVE_CHECK_STEPS and share < MIN_LIVE_GROUPS:
            self.say(
                f"only {100 * share:.1f}% of the groups of the first {LIVE_CHECK_STEPS} steps have different rewards, and the "
                "model learns nothing from the others: set train.exploration.hint = 0.5, or a higher train.temperature"
            )

    def print_step(self, start: int, step: int) -> None:
        """Print a line of progress every ``LINE_INTERVAL`` steps; ``start`` is the first step of this attempt."""
        total = self.train.steps
        if (step + 1) % LINE_INTERVAL and step + 1 != total:
            return
        remaining = (time.perf_counter() - self.start_time) / (step + 1 - start) * (total - step - 1)
        means = (f", {name} {self._mean(name, LINE_INTERVAL):.2f}" for name in LINE_METRICS if self._values(name))
        print(f"step {step + 1:,} of {total:,}{''.join(means)}, {remaining:.0f} s left", file=sys.stderr, flush=True)

    def send(self) -> None:
        """Send the metrics that MLflow does not have yet."""
        if not self.off and self._unsent:
            self._track(self._send_unsent)
        self._unsent = []

    def _send_unsent(self, run: MlflowRun) -> None:
        for step, time_ms, metrics in self._unsent:
            for name, value in metrics.items():
                run.client.log_metric(run.parent, name, value, time_ms, step)

    def _track(self, action: Callable[[MlflowRun], None]) -> None:
        """Act on the MLflow run, created at first use; any error turns tracking off."""
        try:
            self._run = self._run or self._create_run()
            action(self._run)
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
        run.client.set_tag(run.parent, NOTE, DESCRIPTION.replace("MODEL", model))
        return run

    def _values(self, name: str) -> list[float]:
        return [metrics[name] for metrics in self._recent if name in metrics]

    def _mean(self, name: str, steps: int) -> float:
        """Return the mean of a metric over the last ``steps`` steps that have it."""
        values = self._values(name)[-steps:]
        return sum(values) / len(values)


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
