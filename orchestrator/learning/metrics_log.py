"""Metrics of a training, step by step: in memory for lines of progress, and in MLflow from one checkpoint to the next.

A dead server never stops a training: it is told once, and asked no more.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from actors.text.redaction import redact_address
from orchestrator.learning.settings import Train
from orchestrator.tracking.mlflow.client import first_line, now_ms
from orchestrator.tracking.mlflow.run import MlflowRun
from orchestrator.tracking.mlflow.run_tree import LEVEL
from orchestrator.tracking.tracked_run import UNTRACKED, TrackedRun
from sweeps.spec import Sweep

REMEMBERED = 1_000
"""Steps that lines of progress may look back."""
NOTE = """A training of **MODEL** on single turns of ProactiveBench (GRPO).

- `live_groups`: the share of groups whose rewards differ. Only they teach; below 0.1 hardly anything is learnt.
- `asks_hidden`, `asks_clear`: percent of replies that ask, at views that show nothing yet and at clear ones. Learning to ask
  means that the first rises and the second does not.
- `acc_in_domain`, `acc_out_of_domain`: percent right in greedy episodes of the sweep's own data, where evaluations are made.
"""


class MetricsLog:
    """Remembers what each step measured, and sends it."""

    def __init__(self, sweep: Sweep, train: Train, folder: Path) -> None:
        self.sweep, self.train, self.folder = sweep, train, folder
        self.seen: deque[tuple[int, Mapping[str, float]]] = deque(maxlen=REMEMBERED)
        self.unsent: list[tuple[int, int, Mapping[str, float]]] = []
        self.off = sweep.tracking.uri == UNTRACKED
        self.run: Any = None

    def __enter__(self) -> MetricsLog:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.send()
        if self.run is not None:
            self._try(lambda: self.run.client.set_terminated(self.run.parent, "FAILED" if kind else "FINISHED"))

    def step(self, step: int, measured: Mapping[str, float]) -> None:
        """Record the measures of one step."""
        self.seen.append((step, measured))
        if not self.off:
            self.unsent.append((step, now_ms(), measured))

    def has(self, name: str) -> bool:
        """Return True if a measure was taken lately."""
        return any(name in measured for _, measured in self.seen)

    def mean(self, name: str, steps: int) -> float:
        """The mean of a measure over the last ``steps`` steps that have it."""
        values = [measured[name] for _, measured in self.seen if name in measured][-steps:]
        return sum(values) / len(values)

    def send(self) -> None:
        """Send what is new."""
        if not self.off and self.unsent and self._try(self._send):
            self.unsent = []

    def file(self, path: Path) -> None:
        """A file to keep with the run."""
        if not self.off:
            self._try(lambda: self._opened().send_files([path]))

    def _send(self) -> None:
        run = self._opened()
        for step, at, measured in self.unsent:
            for name, value in measured.items():
                run.client.log_metric(run.parent, name, value, at, step)

    def _opened(self) -> Any:
        if self.run is None:
            tracking, train = self.sweep.tracking, self.train
            params = {key: str(value) for key, value in train.settings.items() if key != "model"}
            name = f"train {self.folder.name}"
            experiment = tracking.experiment or self.sweep.name
            params = {"model": train.model.name, **params}
            self.run = MlflowRun(TrackedRun(tracking.uri, experiment, self.folder, name, params))
            self.run.client.set_tag(self.run.parent, LEVEL, "training")
            self.run.client.set_tag(self.run.parent, "mlflow.note.content", NOTE.replace("MODEL", train.model.name))
        return self.run

    def _try(self, act: Any) -> bool:
        if self.off:
            return False
        try:
            act()
        except Exception as problem:  # MLflow raises anything; the training goes on without it
            self.off = True
            message = f"MLflow at {redact_address(self.sweep.tracking.uri)} takes no metrics ({first_line(problem)})"
            print(f"{message}; the training goes on without it", file=sys.stderr, flush=True)
            return False
        return True
