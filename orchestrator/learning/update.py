"""One step of the weights from one step's rollouts: a policy gradient on live groups, with the divergence as asked for.

Each batch is used once, so the ratio of new to old probabilities is 1 and there is nothing to clip.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import cos, pi
from random import Random

import torch

from orchestrator.learning.policy import Policy
from orchestrator.learning.rollouts import Rollout
from orchestrator.learning.states import Pool, TrainingState

GRADIENT_NORM = 1.0
"""Gradients longer than this are shortened to it (transformers' default)."""
BETAS = (0.9, 0.95)
"""Of AdamW; the paper states none."""
LARGEST_GAP = 10.0
"""Of log-probabilities, so that one rare token does not decide the divergence."""


class PolicyOptimizer:
    """AdamW without weight decay, its rate after a cosine (paper, appendix C)."""

    def __init__(self, policy: Policy) -> None:
        self.policy, self.train = policy, policy.train
        self.adamw = torch.optim.AdamW(policy.trained, lr=self.train.learning_rate, betas=BETAS, weight_decay=0.0)

    def rate(self, step: int) -> float:
        """The learning rate of a step; cloning steps, which are negative, have the full one."""
        train = self.train
        if step < 0:
            return train.learning_rate
        grown = min(1.0, (step + 1) / train.warmup) if train.warmup else 1.0
        wave = 0.5 * (1 + cos(pi * step / train.steps))
        return train.learning_rate * grown * (train.final_rate + (1 - train.final_rate) * wave)

    def step(self, step: int, rollouts: Sequence[Rollout]) -> None:
        """Learn from the live groups."""
        live = [rollout for rollout in rollouts if rollout.advantage is not None]
        if not live:
            return
        self._begin(step)
        total = sum(len(rollout.said.tokens) for rollout in live)
        groups = list(dict.fromkeys(rollout.group for rollout in live))
        for start in range(0, len(groups), self.train.at_once):
            part = set(groups[start : start + self.train.at_once])
            self._part([rollout for rollout in live if rollout.group in part], total)
        self._end()

    def clone(self, step: int, pool: Pool) -> None:
        """Learn the right reply of as many states as a step has groups."""
        states = pool.drawn(self.train.groups, Random(f"{self.train.seed}/learning/{step}/clone"))
        self._begin(step)
        replies = [self.policy.tokens(state.solution) for state in states]
        total = sum(map(len, replies))
        for start in range(0, len(states), self.train.at_once):
            part = slice(start, start + self.train.at_once)
            self._clone_part(states[part], replies[part], total)
        self._end()

    def _clone_part(self, states: Sequence[TrainingState], replies: Sequence[tuple[int, ...]], total: int) -> None:
        jobs = [state.job() for state in states]
        log_probabilities, counted = self.policy.logprobs(self.policy.network, jobs, range(len(jobs)), replies, True)
        (-(log_probabilities * counted).sum() / total).backward()

    def _part(self, live: Sequence[Rollout], total: int) -> None:
        """Gradients of some groups; the loss is the mean over all tokens of the step."""
        policy, kl = self.policy, self.train.kl
        first = {rollout.group: rollout.state for rollout in reversed(live)}
        positions = {group: number for number, group in enumerate(first)}
        jobs = [state.job() for state in first.values()]
        index, replies = [positions[rollout.group] for rollout in live], [rollout.said.tokens for rollout in live]
        log_probabilities, counted = policy.logprobs(policy.network, jobs, index, replies, True)
        weight = torch.tensor([rollout.advantage for rollout in live], device=log_probabilities.device)[:, None]
        loss = -(torch.exp(log_probabilities - log_probabilities.detach()) * weight * counted).sum() / total
        if kl:
            with torch.no_grad(), policy.untrained() as before:
                theirs, _ = policy.logprobs(before, jobs, index, replies, False)
            gap = (theirs - log_probabilities).clamp(max=LARGEST_GAP)
            loss = loss + kl * ((gap.exp() - gap - 1) * counted).sum() / total
        loss.backward()

    def _begin(self, step: int) -> None:
        """Dropout and rate of a step depend on (seed, step) alone, so that a resumed run gives the same weights."""
        torch.manual_seed(Random(f"{self.train.seed}/learning/{step}/dropout").getrandbits(62))
        self.policy.network.train()
        for group in self.adamw.param_groups:
            group["lr"] = self.rate(step)

    def _end(self) -> None:
        torch.nn.utils.clip_grad_norm_(self.policy.trained, GRADIENT_NORM)
        self.adamw.step()
        self.adamw.zero_grad(set_to_none=True)
