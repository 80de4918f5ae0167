"""A training from start to end: states, cloning, steps, checkpoints, metrics, and the trained model.

A killed and resumed training gives the same weights as an uninterrupted one, bit for bit on a CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any

import polars as pl

from orchestrator.learning import evaluation, rollouts, run_files
from orchestrator.learning.metrics_log import MetricsLog
from orchestrator.learning.plan import drawable_states, load_training_states, with_steps
from orchestrator.learning.policy import Policy, SamplerDied
from orchestrator.learning.progress import TrainingOutcome, TrainingProgress, stop_on_signals
from orchestrator.learning.settings import Train, Training
from orchestrator.learning.states import Pool
from orchestrator.learning.update import PolicyOptimizer
from orchestrator.storage import job_paths, lock
from orchestrator.storage.disk import disk_errors


def train(training: Training, output: Path, say: Callable[[str], None] = print) -> TrainingOutcome:
    """Train, or resume an earlier attempt; raises TrainError, BadData or RunFolderError."""
    job_paths.durable_path(str(output))
    with disk_errors(output), lock.hold(output, "driver"):
        all_states = load_training_states(training)
        settings = with_steps(training.train, len(drawable_states(all_states, training.train)))
        run_files.claim(output, settings)
        training = training._replace(train=settings)
        if settings.engine == "trl":
            from orchestrator.learning import trl_engine

            return trl_engine.train(training, output, drawable_states(all_states, settings), say)
        pool = Pool(all_states, settings.states)
        with closing(_load_policy(settings)) as policy, MetricsLog(training.sweep, settings, output) as log:
            return NativeTraining(training, output, pool, policy, TrainingProgress(settings, log, say)).run()


def _load_policy(train: Train) -> Policy:
    if train.sampler == "transformers":
        return Policy(train)
    from orchestrator.learning.vllm_policy import VLLMPolicy

    return VLLMPolicy(train)


@dataclass
class NativeTraining:
    """One attempt of a training with the native engine."""

    training: Training
    output: Path
    pool: Pool
    policy: Policy
    progress: TrainingProgress
    rows: list[dict[str, Any]] = field(default_factory=list)
    """Rollouts since the last checkpoint."""
    first_step: int = 0
    """Step of the first of them."""

    def run(self) -> TrainingOutcome:
        """Make the remaining steps, then write the weights and ``model.toml``."""
        train = self.training.train
        optimizer = PolicyOptimizer(self.policy)
        checkpoint = run_files.load_checkpoint(self.output, self.policy, optimizer.adamw)
        start = -train.exploration.clone if checkpoint is None else checkpoint
        run_files.remove_rollouts(self.output, max(start, 0))
        self.first_step = max(start, 0)
        self.progress.announce(self.output, self.pool.counts(), start)
        with stop_on_signals() as stop:
            for step in range(start, train.steps):
                if stop.is_set() or not self._try_step(step, optimizer, stop):
                    self._checkpoint(step, optimizer)
                    return TrainingOutcome(None, step)
                if (step + 1) % train.checkpoint_every == 0 or step + 1 == train.steps:
                    self._checkpoint(step + 1, optimizer)
                self.progress.print_step(start, step)
        path = run_files.publish(self.output, train, self.policy.save)
        self.progress.log.send_file(path)
        return TrainingOutcome(path, train.steps)

    def _try_step(self, step: int, optimizer: PolicyOptimizer, stop: Event) -> bool:
        """Return False if Ctrl-C ended the sampling engine, and with it the step."""
        try:
            self._step(step, optimizer)
        except SamplerDied:
            if not stop.is_set():
                raise
            return False
        return True

    def _step(self, step: int, optimizer: PolicyOptimizer) -> None:
        train = self.training.train
        if step < 0:
            optimizer.clone(step, self.pool)
            return
        sample = rollouts.sample_turns if train.credit == "turn" else rollouts.sample_episodes
        batch = sample(self.policy, self.pool, train, step)
        optimizer.step(step, batch)
        rows = run_files.rollout_rows(step, batch)
        self.rows += rows
        measures = run_files.rollout_measures(pl.DataFrame(rows, schema=run_files.ROLLOUT))
        self.progress.record(step, {**measures, **self._evaluate(step)})

    def _evaluate(self, step: int) -> dict[str, float]:
        sweep, train = self.training
        if not train.evaluate_every or (step + 1) % train.evaluate_every:
            return {}
        scenarios = evaluation.evaluate(
            self.policy, Path(sweep.data), sweep.scenarios, train.evaluate_samples, sweep.seed
        )
        return evaluation.measures(scenarios, train.scenarios)

    def _checkpoint(self, step: int, optimizer: PolicyOptimizer) -> None:
        """Write rollouts, then the checkpoint: a resumed training removes rollouts without one."""
        run_files.write_rollouts(self.output, self.first_step, step - 1, self.rows)
        run_files.save_checkpoint(self.output, step, self.policy, optimizer.adamw)
        self.progress.log.send()
        self.rows, self.first_step = [], step
