"""One training from start to end: states, cloning, steps, checkpoints, metrics, and the model that comes of it.

Killed at any moment and started again with the same command it gives the same weights, bit for bit on a CPU.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from orchestrator.learning import evaluation, rollouts, run_files
from orchestrator.learning.metrics_log import MetricsLog
from orchestrator.learning.plan import counted, described, states
from orchestrator.learning.policy import Policy
from orchestrator.learning.settings import Training
from orchestrator.learning.states import Pool
from orchestrator.learning.update import Optimiser
from orchestrator.storage import job_paths, lock
from orchestrator.storage.run_folder import disk

FIRST_LOOK, FEW_LIVE = 20, 0.1
"""Steps after which the share of live groups is judged, and the share below which hardly anything is learnt."""
TOLD_EVERY = 10
"""Steps between two lines of progress."""


@dataclass(frozen=True, slots=True)
class Trained:
    """What a training came to."""

    folder: Path
    model: Path | None
    """``model.toml``; None where it was interrupted."""
    steps: int
    """Steps done in all."""

    @property
    def interrupted(self) -> bool:
        return self.model is None


def train(training: Training, output: Path, say: Callable[[str], None] = print) -> Trained:
    """Train, or go on where an earlier attempt was stopped; raises TrainError, BadData or RunFolderError."""
    job_paths.lasting(str(output))
    with disk(output), lock.held(output, "driver"):
        found = states(training)
        settings = counted(training.train, len(found))
        run_files.claim(output, settings)
        pool = Pool(found, settings.states)
        policy = Policy(settings)
        with MetricsLog(training.sweep, settings, output) as log:
            return Attempt(training._replace(train=settings), output, pool, policy, log, say).run()


@dataclass
class Attempt:
    """One attempt at a training."""

    training: Training
    output: Path
    pool: Pool
    policy: Policy
    log: MetricsLog
    say: Callable[[str], None]
    kept: list[dict[str, Any]] = field(default_factory=list)
    """Rollouts since the last checkpoint."""
    first: int = 0
    """Step of the first of them."""
    began: float = 0.0
    stopped: bool = False

    def run(self) -> Trained:
        """All steps that are left; then the weights and ``model.toml``."""
        train = self.training.train
        optimiser = Optimiser(self.policy)
        done = run_files.load_checkpoint(self.output, self.policy, optimiser.adamw)
        start = -train.exploration.clone if done is None else done
        run_files.forget_rollouts(self.output, max(start, 0))
        self.first, self.began = max(start, 0), time.perf_counter()
        self._announce(start)
        with self._stoppable():
            for step in range(start, train.steps):
                if self.stopped:
                    self._checkpoint(step, optimiser)
                    return Trained(self.output, None, step)
                self._step(step, optimiser)
                if (step + 1) % train.checkpoint_every == 0 or step + 1 == train.steps:
                    self._checkpoint(step + 1, optimiser)
                self._tell(start, step)
        path = run_files.publish(self.output, self.policy)
        self.log.file(path)
        return Trained(self.output, path, train.steps)

    def _announce(self, start: int) -> None:
        train, counts = self.training.train, self.pool.counts()
        kinds = ", ".join(f"{number:,} {kind}" for kind, number in counts.items())
        self.say(f"{self.output}: {sum(counts.values()):,} states ({kinds}), {described(train)}")
        if start > 0:
            self.say(f"{start:,} steps were done before")

    def _step(self, step: int, optimiser: Optimiser) -> None:
        train = self.training.train
        if step < 0:
            optimiser.clone(step, self.pool)
            return
        roll = rollouts.turns if train.credit == "turn" else rollouts.episodes
        made = roll(self.policy, self.pool, train, step)
        optimiser.step(step, made)
        rows = run_files.rows(step, made)
        self.kept += rows
        self.log.step(
            step, {**run_files.measures(pl.DataFrame(rows, schema=run_files.ROLLOUT)), **self._evaluated(step)}
        )
        if step + 1 == FIRST_LOOK:
            self._judge_live_groups()

    def _evaluated(self, step: int) -> dict[str, float]:
        sweep, train = self.training
        if not train.evaluate_every or (step + 1) % train.evaluate_every:
            return {}
        found = evaluation.evaluate(self.policy, Path(sweep.data), sweep.scenarios, train.evaluate_samples, sweep.seed)
        return evaluation.measures(found, train.scenarios)

    def _judge_live_groups(self) -> None:
        """One sentence where hardly any group has a gradient."""
        share = self.log.mean("live_groups", FIRST_LOOK)
        if share < FEW_LIVE:
            self.say(
                f"{100 * share:.1f}% of the groups of the first {FIRST_LOOK} steps have replies with different rewards, and the "
                "others teach nothing: set train.exploration.hint = 0.5, or train.exploration.clone, or a higher "
                "train.temperature"
            )

    def _checkpoint(self, step: int, optimiser: Optimiser) -> None:
        """Rollouts first: the checkpoint is the commit."""
        run_files.write_rollouts(self.output, self.first, step - 1, self.kept)
        run_files.save_checkpoint(self.output, step, self.policy, optimiser.adamw)
        self.log.send()
        self.kept, self.first = [], step

    def _tell(self, start: int, step: int) -> None:
        """A line of progress with the time left."""
        total = self.training.train.steps
        if (step + 1) % TOLD_EVERY and step + 1 != total:
            return
        spent = time.perf_counter() - self.began
        left = spent / (step + 1 - start) * (total - step - 1)
        measured = "".join(
            f", {name} {self.log.mean(name, TOLD_EVERY):.2f}"
            for name in ("reward", "live_groups", "asks_hidden", "asks_clear")
            if self.log.has(name)
        )
        cloned = self.training.train.exploration.clone
        place = f"step {step + 1:,} of {total:,}" if step >= 0 else f"cloning step {step + 1 + cloned:,} of {cloned:,}"
        print(f"{place}{measured}, {left:.0f} s left", file=sys.stderr, flush=True)

    @contextmanager
    def _stoppable(self) -> Iterator[None]:
        """Ctrl-C and SIGTERM end the training after the running step, with a checkpoint."""

        def stop(number: int, frame: object) -> None:
            self.stopped = True

        before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
