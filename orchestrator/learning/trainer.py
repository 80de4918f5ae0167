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
from orchestrator.learning.progress import StopRequest, Trained, TrainingProgress, stoppable
from orchestrator.learning.settings import Train, Training
from orchestrator.learning.states import Pool
from orchestrator.learning.update import PolicyOptimizer
from orchestrator.storage import job_paths, lock
from orchestrator.storage.disk import disk_errors


def train(training: Training, output: Path, say: Callable[[str], None] = print) -> Trained:
    """Train, or go on where an earlier attempt was stopped; raises TrainError, BadData or RunFolderError."""
    job_paths.durable_path(str(output))
    with disk_errors(output), lock.hold(output, "driver"):
        all_states = states(training)
        settings = counted(training.train, len(drawable(all_states, training.train)))
        run_files.claim(output, settings)
        counted_training = training._replace(train=settings)
        if settings.engine == "trl":
            from orchestrator.learning import trl_engine

            return trl_engine.train(counted_training, output, drawable(all_states, settings), say)
        pool = Pool(all_states, settings.states)
        with closing(_policy(settings)) as policy, MetricsLog(training.sweep, settings, output) as log:
            return NativeTraining(counted_training, output, pool, policy, TrainingProgress(settings, log, say)).run()


def _policy(train: Train) -> Policy:
    """The model that learns, with what samples its replies."""
    if train.sampler == "transformers":
        return Policy(train)
    from orchestrator.learning.vllm_policy import VLLMPolicy

    return VLLMPolicy(train)


@dataclass
class NativeTraining:
    """One attempt at a training."""

    training: Training
    output: Path
    pool: Pool
    policy: Policy
    progress: TrainingProgress
    kept: list[dict[str, Any]] = field(default_factory=list)
    """Rollouts since the last checkpoint."""
    first: int = 0
    """Step of the first of them."""

    def run(self) -> Trained:
        """All steps that are left; then the weights and ``model.toml``."""
        train = self.training.train
        optimizer = PolicyOptimizer(self.policy)
        done = run_files.load_checkpoint(self.output, self.policy, optimizer.adamw)
        start = -train.exploration.clone if done is None else done
        run_files.forget_rollouts(self.output, max(start, 0))
        self.first = max(start, 0)
        self.progress.announce(self.output, self.pool.counts(), start)
        with stoppable() as stop:
            for step in range(start, train.steps):
                if stop.asked or not self._stepped(step, optimizer, stop):
                    self._checkpoint(step, optimizer)
                    return Trained(self.output, None, step)
                if (step + 1) % train.checkpoint_every == 0 or step + 1 == train.steps:
                    self._checkpoint(step + 1, optimizer)
                self.progress.tell(start, step)
        path = run_files.publish(self.output, train, self.policy.save)
        self.progress.log.file(path)
        return Trained(self.output, path, train.steps)

    def _stepped(self, step: int, optimizer: PolicyOptimizer, stop: StopRequest) -> bool:
        """Return True if the step was made: Ctrl-C reaches an engine that samples too, and ends it before the step begins."""
        try:
            self._step(step, optimizer)
        except SamplerDied:
            if not stop.asked:
                raise
            return False
        return True

    def _step(self, step: int, optimizer: PolicyOptimizer) -> None:
        train = self.training.train
        if step < 0:
            optimizer.clone(step, self.pool)
            return
        roll = rollouts.turns if train.credit == "turn" else rollouts.episodes
        batch = roll(self.policy, self.pool, train, step)
        optimizer.step(step, batch)
        rows = run_files.rows(step, batch)
        self.kept += rows
        measured = run_files.measures(pl.DataFrame(rows, schema=run_files.ROLLOUT))
        self.progress.step(step, {**measured, **self._evaluated(step)})

    def _evaluated(self, step: int) -> dict[str, float]:
        sweep, train = self.training
        if not train.evaluate_every or (step + 1) % train.evaluate_every:
            return {}
        evaluation_rows = evaluation.evaluate(
            self.policy, Path(sweep.data), sweep.scenarios, train.evaluate_samples, sweep.seed
        )
        return evaluation.measures(evaluation_rows, train.scenarios)

    def _checkpoint(self, step: int, optimizer: PolicyOptimizer) -> None:
        """Rollouts first: the checkpoint is the commit."""
        run_files.write_rollouts(self.output, self.first, step - 1, self.kept)
        run_files.save_checkpoint(self.output, step, self.policy, optimizer.adamw)
        self.progress.log.send()
        self.kept, self.first = [], step
