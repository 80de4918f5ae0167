"""Replies of one step with rewards and advantages; the replies to one state are a group.

Only a live group, whose rewards differ, has a gradient. All random draws depend on (seed, step) only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import sqrt
from random import Random
from typing import TYPE_CHECKING

from orchestrator.learning.settings import Train
from orchestrator.learning.states import GameState, Pool, ReplyOutcome, SampledReply, TrainingState

if TYPE_CHECKING:
    from orchestrator.learning.policy import Policy

PLAIN, HINTED = "plain", "hint"
STD_FLOOR = 1e-4
"""Added to a group's standard deviation (TRL's GRPO)."""
MAX_TURNS = 16
"""Turn limit of an episode (``credit = "episode"``)."""
MIN_GROUP_OF_EPISODES = 3
"""Minimum size of a group with advantages, for credit by episode."""


@dataclass(frozen=True, slots=True)
class Rollout:
    """One reply."""

    state: TrainingState
    group: int
    variant: str
    """``plain`` or ``hint``: the question it was sampled from; the gradient is always that of the plain one."""
    completion: SampledReply
    reply: str
    outcome: ReplyOutcome
    reward: float
    advantage: float | None = None
    """None in a group with equal rewards."""


def sample_turns(policy: Policy, pool: Pool, train: Train, step: int) -> list[Rollout]:
    """Sample single turns, each with its own reward, as in the paper."""
    states = pool.draw(train.groups, Random(f"{train.seed}/learning/{step}/states"))
    rollouts = []
    for group, (state, replies) in enumerate(zip(states, _sample_groups(policy, states, train, step), strict=True)):
        for variant, sample in replies:
            text = policy.text(sample.tokens)
            outcome = state.outcome(text)
            rollouts.append(Rollout(state, group, variant, sample, text, outcome, outcome.reward(train.rp)))
    return add_advantages(rollouts, train, step)


def sample_episodes(policy: Policy, pool: Pool, train: Train, step: int) -> list[Rollout]:
    """Sample episodes that start at drawn states; a turn's reward is the episode's, discounted once per later turn.

    Replies to one state are a group; ``rp`` is not used.
    """
    starts = pool.draw(train.groups, Random(f"{train.seed}/learning/{step}/states"))
    live: list[tuple[TrainingState, int, int]] = [
        (state, number, slot) for number, state in enumerate(starts) for slot in range(train.rollouts)
    ]
    episodes: dict[tuple[int, int], list[Rollout]] = {}
    for depth in range(MAX_TURNS):
        states = [state for state, _, _ in live]
        hints = [slot >= train.rollouts - count_hinted(train, step) for _, _, slot in live]
        replies = _sample_one_each(policy, states, hints, train, step, depth)
        continuing: list[tuple[TrainingState, int, int]] = []
        for (state, number, slot), hint, reply in zip(live, hints, replies, strict=True):
            text = policy.text(reply.tokens)
            outcome = state.outcome(text)
            turns = episodes.setdefault((number, slot), [])
            turns.append(Rollout(state, 0, HINTED if hint else PLAIN, reply, text, outcome, 0.0))
            if outcome.next_state is not None and isinstance(state, GameState):
                continuing.append((state.successor(outcome.next_state), number, slot))
        live = continuing
        if not live:
            break
    return add_advantages(credit_episodes(list(episodes.values()), train.gamma), train, step)


def credit_episodes(episodes: Sequence[Sequence[Rollout]], gamma: float) -> list[Rollout]:
    """Return the turns of all episodes with discounted rewards, grouped by state."""
    groups: dict[str, int] = {}
    rollouts = []
    for episode in episodes:
        end = float(episode[-1].outcome.right)
        for turn, rollout in enumerate(episode):
            group = groups.setdefault(rollout.state.key, len(groups))
            rollouts.append(replace(rollout, group=group, reward=end * gamma ** (len(episode) - 1 - turn)))
    return rollouts


def _sample_groups(
    policy: Policy, states: Sequence[TrainingState], train: Train, step: int
) -> list[list[tuple[str, SampledReply]]]:
    """Sample a group for each state: plain replies, then hinted ones."""
    count = count_hinted(train, step)
    groups: list[list[tuple[str, SampledReply]]] = []
    for start in range(0, len(states), train.at_once):
        part = states[start : start + train.at_once]
        plain = _sample_part(policy, part, train.rollouts - count, False, train, step, start)
        hinted = _sample_part(policy, part, count, True, train, step, start) if count else [[] for _ in part]
        for plain_replies, hinted_replies in zip(plain, hinted, strict=True):
            groups.append([*((PLAIN, r) for r in plain_replies), *((HINTED, r) for r in hinted_replies)])
    return groups


def _sample_part(
    policy: Policy, states: Sequence[TrainingState], number: int, hint: bool, train: Train, step: int, start: int
) -> list[list[SampledReply]]:
    seed = Random(f"{train.seed}/learning/{step}/{start}/{hint}").getrandbits(62)
    return policy.sample([state.job(hint) for state in states], [number] * len(states), train.temperature, seed)


def _sample_one_each(
    policy: Policy, states: Sequence[TrainingState], hints: Sequence[bool], train: Train, step: int, depth: int
) -> list[SampledReply]:
    """Sample one reply to each state, in one forward pass per distinct question."""
    indices: dict[tuple[str, bool], list[int]] = {}
    for index, (state, hint) in enumerate(zip(states, hints, strict=True)):
        indices.setdefault((state.key, hint), []).append(index)
    replies: dict[int, SampledReply] = {}
    questions = list(indices.items())
    for start in range(0, len(questions), train.at_once):
        part = questions[start : start + train.at_once]
        jobs = [states[same[0]].job(hint) for (_, hint), same in part]
        seed = Random(f"{train.seed}/learning/{step}/{depth}/{start}").getrandbits(62)
        for (_, same), group in zip(
            part, policy.sample(jobs, [len(s) for _, s in part], train.temperature, seed), strict=True
        ):
            replies |= dict(zip(same, group, strict=True))
    return [replies[index] for index in range(len(states))]


def count_hinted(train: Train, step: int) -> int:
    """Return the number of replies of a group that are sampled from the hinted question at this step."""
    return round(train.exploration.hint * train.rollouts) if step < train.exploration.until * train.steps else 0


def add_advantages(rollouts: Sequence[Rollout], train: Train, step: int) -> list[Rollout]:
    """Return the rollouts with advantages; with ``shuffle_rewards``, a control, rewards are shuffled within each group first."""
    groups: dict[int, list[Rollout]] = {}
    for rollout in rollouts:
        groups.setdefault(rollout.group, []).append(rollout)
    with_advantages = []
    min_size = MIN_GROUP_OF_EPISODES if train.credit == "episode" else 2
    for number, group in groups.items():
        rewards = [rollout.reward for rollout in group]
        if train.shuffle_rewards:
            Random(f"{train.seed}/learning/{step}/{number}/shuffle").shuffle(rewards)
        values: Sequence[float | None] | None = advantages(rewards) if len(group) >= min_size else None
        for rollout, reward, value in zip(group, rewards, values or [None] * len(group), strict=True):
            with_advantages.append(replace(rollout, reward=reward, advantage=value))
    return with_advantages


def advantages(rewards: Sequence[float]) -> list[float] | None:
    """Return rewards minus their mean, over their standard deviation; None if all are equal (paper, section 5: GRPO)."""
    mean = sum(rewards) / len(rewards)
    deviation = sqrt(sum((reward - mean) ** 2 for reward in rewards) / len(rewards))
    if deviation < 1e-6:
        return None
    return [(reward - mean) / (deviation + STD_FLOOR) for reward in rewards]
