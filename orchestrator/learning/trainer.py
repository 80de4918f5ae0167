"""A training from start to end: states, cloning, steps, checkpoints, metrics, and the trained model.

A killed and resumed training gives the same weights as an uninterrupted one, bit for bit on a CPU.
"""

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from math import cos, pi
from pathlib import Path
from random import Random
from threading import Event
from typing import Any

import polars as pl
import torch

from orchestrator.learning import evaluation, rollouts, run_files
from orchestrator.learning.plan import drawable_states, load_training_states, with_steps
from orchestrator.learning.policy import Policy, SamplerDied
from orchestrator.learning.progress import MetricsLog, TrainingOutcome, TrainingProgress, stop_on_signals
from orchestrator.learning.rollouts import Rollout
from orchestrator.learning.settings import Train, Training
from orchestrator.learning.states import Pool
from orchestrator.storage import job_paths, lock
from orchestrator.storage.disk import disk_errors

GRADIENT_NORM = 1.0
"""Maximum norm of the gradient (transformers' default)."""
BETAS = (0.9, 0.95)
"""Betas of AdamW; the paper states none."""
MAX_LOGPROB_GAP = 10.0
"""Clamp of log-probability differences in the KL term, so that one rare token does not dominate it."""


class PolicyOptimizer:
    """AdamW without weight decay and with a cosine schedule (paper, appendix C)."""

    def __init__(self, policy: Policy) -> None:
        self.policy, self.train = policy, policy.train
        self.adamw = torch.optim.AdamW(policy.trained, lr=self.train.learning_rate, betas=BETAS, weight_decay=0.0)

    def rate(self, step: int) -> float:
        """Return the learning rate of a step; cloning steps, which are negative, have the full rate."""
        train = self.train
        if step < 0:
            return train.learning_rate
        warmup = min(1.0, (step + 1) / train.warmup) if train.warmup else 1.0
        cosine = 0.5 * (1 + cos(pi * step / train.steps))
        return train.learning_rate * warmup * (train.final_rate + (1 - train.final_rate) * cosine)

    def step(self, step: int, rollouts: Sequence[Rollout]) -> None:
        """Update the weights from the live groups."""
        live = [rollout for rollout in rollouts if rollout.advantage is not None]
        if not live:
            return
        self._begin_step(step)
        total = sum(len(rollout.completion.tokens) for rollout in live)
        groups = list(dict.fromkeys(rollout.group for rollout in live))
        for start in range(0, len(groups), self.train.at_once):
            part = set(groups[start : start + self.train.at_once])
            self._backward([rollout for rollout in live if rollout.group in part], total)
        self._end_step()

    def clone(self, step: int, pool: Pool) -> None:
        """Train the right replies to ``train.groups`` drawn states."""
        states = pool.draw(self.train.groups, Random(f"{self.train.seed}/learning/{step}/clone"))
        self._begin_step(step)
        replies = [self.policy.tokens(state.solution) for state in states]
        total = sum(map(len, replies))
        for start in range(0, len(states), self.train.at_once):
            part = slice(start, start + self.train.at_once)
            jobs = [state.job() for state in states[part]]
            logprobs, mask = self.policy.logprobs(self.policy.network, jobs, range(len(jobs)), replies[part], True)
            (-(logprobs * mask).sum() / total).backward()
        self._end_step()

    def _backward(self, live: Sequence[Rollout], total: int) -> None:
        """Add the gradients of some groups; the loss is the mean over all tokens of the step."""
        policy, kl = self.policy, self.train.kl
        states = {rollout.group: rollout.state for rollout in reversed(live)}
        positions = {group: number for number, group in enumerate(states)}
        jobs = [state.job() for state in states.values()]
        index, replies = [positions[rollout.group] for rollout in live], [rollout.completion.tokens for rollout in live]
        logprobs, mask = policy.logprobs(policy.network, jobs, index, replies, True)
        weight = torch.tensor([rollout.advantage for rollout in live], device=logprobs.device)[:, None]
        loss = -(torch.exp(logprobs - logprobs.detach()) * weight * mask).sum() / total
        if kl:
            with torch.no_grad(), policy.untrained() as reference:
                reference_logprobs, _ = policy.logprobs(reference, jobs, index, replies, False)
            gap = (reference_logprobs - logprobs).clamp(max=MAX_LOGPROB_GAP)
            loss = loss + kl * ((gap.exp() - gap - 1) * mask).sum() / total
        loss.backward()

    def _begin_step(self, step: int) -> None:
        """Set dropout and learning rate by (seed, step) only, so that a resumed training gives the same weights."""
        torch.manual_seed(Random(f"{self.train.seed}/learning/{step}/dropout").getrandbits(62))
        self.policy.network.train()
        for group in self.adamw.param_groups:
            group["lr"] = self.rate(step)

    def _end_step(self) -> None:
        torch.nn.utils.clip_grad_norm_(self.policy.trained, GRADIENT_NORM)
        self.adamw.step()
        self.adamw.zero_grad(set_to_none=True)


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
    """Step of the first of these rollouts."""

    def run(self) -> TrainingOutcome:
        """Run the remaining steps, then write the weights and ``model.toml``."""
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
        measures = run_files.rollout_measures(pl.DataFrame(rows, schema=run_files.ROLLOUT_SCHEMA))
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
        """Write rollouts, then the checkpoint: a resumed training removes rollouts newer than its checkpoint."""
        run_files.write_rollouts(self.output, self.first_step, step - 1, self.rows)
        run_files.save_checkpoint(self.output, step, self.policy, optimizer.adamw)
        self.progress.log.send()
        self.rows, self.first_step = [], step
