"""One training from start to end: states, cloning, steps, checkpoints, metrics, and the model that comes of it.

Killed at any moment and started again with the same command it gives the same weights, bit for bit on a CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from orchestrator.learning import evaluation, rollouts, run_files
from orchestrator.learning.metrics_log import MetricsLog
from orchestrator.learning.plan import counted, drawable, states
from orchestrator.learning.policy import Policy, SamplerDied
from orchestrator.learning.progress import Progress, Stop, Trained, stoppable
from orchestrator.learning.settings import Train, Training
from orchestrator.learning.states import Pool
from orchestrator.learning.update import Optimiser
from orchestrator.storage import job_paths, lock
from orchestrator.storage.disk import disk


def train(training: Training, output: Path, say: Callable[[str], None] = print) -> Trained:
    """Train, or go on where an earlier attempt was stopped; raises TrainError, BadData or RunFolderError."""
    job_paths.lasting(str(output))
    with disk(output), lock.held(output, "driver"):
        found = states(training)
        settings = counted(training.train, len(drawable(found, training.train)))
        run_files.claim(output, settings)
        made = training._replace(train=settings)
        if settings.engine == "trl":
            from orchestrator.learning import trl_engine

            return trl_engine.train(made, output, drawable(found, settings), say)
        pool = Pool(found, settings.states)
        with closing(_policy(settings)) as policy, MetricsLog(training.sweep, settings, output) as log:
            return Attempt(made, output, pool, policy, Progress(settings, log, say)).run()


def _policy(train: Train) -> Policy:
    """The model that learns, with what samples its replies."""
    if train.sampler == "transformers":
        return Policy(train)
    from orchestrator.learning.vllm_policy import VLLMPolicy

    return VLLMPolicy(train)


@dataclass
class Attempt:
    """One attempt at a training."""

    training: Training
    output: Path
    pool: Pool
    policy: Policy
    progress: Progress
    kept: list[dict[str, Any]] = field(default_factory=list)
    """Rollouts since the last checkpoint."""
    first: int = 0
    """Step of the first of them."""

    def run(self) -> Trained:
        """All steps that are left; then the weights and ``model.toml``."""
        train = self.training.train
        optimiser = Optimiser(self.policy)
        done = run_files.load_checkpoint(self.output, self.policy, optimiser.adamw)
        start = -train.exploration.clone if done is None else done
        run_files.forget_rollouts(self.output, max(start, 0))
        self.first = max(start, 0)
        self.progress.announce(self.output, self.pool.counts(), start)
        with stoppable() as stop:
            for step in range(start, train.steps):
                if stop.asked or not self._stepped(step, optimiser, stop):
                    self._checkpoint(step, optimiser)
                    return Trained(self.output, None, step)
                if (step + 1) % train.checkpoint_every == 0 or step + 1 == train.steps:
                    self._checkpoint(step + 1, optimiser)
                self.progress.tell(start, step)
        path = run_files.publish(self.output, train, self.policy.save)
        self.progress.log.file(path)
        return Trained(self.output, path, train.steps)

    def _stepped(self, step: int, optimiser: Optimiser, stop: Stop) -> bool:
        """Whether the step was made: Ctrl-C reaches an engine that samples too, and ends it before the step begins."""
        try:
            self._step(step, optimiser)
        except SamplerDied:
            if not stop.asked:
                raise
            return False
        return True

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
        measured = run_files.measures(pl.DataFrame(rows, schema=run_files.ROLLOUT))
        self.progress.step(step, {**measured, **self._evaluated(step)})

    def _evaluated(self, step: int) -> dict[str, float]:
        sweep, train = self.training
        if not train.evaluate_every or (step + 1) % train.evaluate_every:
            return {}
        found = evaluation.evaluate(self.policy, Path(sweep.data), sweep.scenarios, train.evaluate_samples, sweep.seed)
        return evaluation.measures(found, train.scenarios)

    def _checkpoint(self, step: int, optimiser: Optimiser) -> None:
        """Rollouts first: the checkpoint is the commit."""
        run_files.write_rollouts(self.output, self.first, step - 1, self.kept)
        run_files.save_checkpoint(self.output, step, self.policy, optimiser.adamw)
        self.progress.log.send()
        self.kept, self.first = [], step
