"""One optimizer step from the rollouts of a step: a policy gradient on live groups, with an optional KL term.

Each batch is used once, so the ratio of new to old probabilities is 1 and nothing is clipped.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import cos, pi
from random import Random

import torch

from orchestrator.learning.policy import Policy
from orchestrator.learning.rollouts import Rollout
from orchestrator.learning.states import Pool

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
        """Update the weights from the right replies to as many states as a step has groups."""
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
