"""Replies of one step, their rewards and advantages: a group is the replies to one state.

Only a live group, one whose rewards differ, has a gradient; what is drawn depends on (seed, step) alone.
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
DEEPEST = 16
"""Turns of an episode that are played for its credit."""
FEWEST = 3
"""Replies that a group of an episode's state needs."""


@dataclass(frozen=True, slots=True)
class Rollout:
    """One reply."""

    state: TrainingState
    group: int
    variant: str
    """``plain`` or ``hint``: the question that it was sampled from; it is trained under the plain one."""
    said: SampledReply
    reply: str
    outcome: ReplyOutcome
    reward: float
    advantage: float | None = None
    """None in a group without differences."""


def turns(policy: Policy, pool: Pool, train: Train, step: int) -> list[Rollout]:
    """Single turns, each with its own reward: the paper's."""
    states = pool.drawn(train.groups, Random(f"{train.seed}/learning/{step}/states"))
    rollouts = []
    for group, (state, replies) in enumerate(zip(states, sampled(policy, states, train, step), strict=True)):
        for variant, sample in replies:
            text = policy.text(sample.tokens)
            outcome = state.read(text)
            rollouts.append(Rollout(state, group, variant, sample, text, outcome, outcome.reward(train.rp)))
    return scored(rollouts, train, step)


def episodes(policy: Policy, pool: Pool, train: Train, step: int) -> list[Rollout]:
    """Whole episodes from the drawn states on: each turn's reward is the end's, discounted by the turns that follow it.

    Replies at one view are a group; ``rp`` plays no part.
    """
    starts = pool.drawn(train.groups, Random(f"{train.seed}/learning/{step}/states"))
    live: list[tuple[TrainingState, int, int]] = [
        (state, number, index) for number, state in enumerate(starts) for index in range(train.rollouts)
    ]
    running: dict[tuple[int, int], list[Rollout]] = {}
    for depth in range(DEEPEST):
        states = [state for state, _, _ in live]
        hints = [slot >= train.rollouts - hinted(train, step) for _, _, slot in live]
        samples = one_each(policy, states, hints, train, step, depth)
        following: list[tuple[TrainingState, int, int]] = []
        for (state, number, place), hint, reply in zip(live, hints, samples, strict=True):
            text = policy.text(reply.tokens)
            outcome = state.read(text)
            run = running.setdefault((number, place), [])
            run.append(Rollout(state, 0, HINTED if hint else PLAIN, reply, text, outcome, 0.0))
            if outcome.after is not None and isinstance(state, GameState):
                following.append((state.next(outcome.after), number, place))
        live = following
        if not live:
            break
    return scored(credited(list(running.values()), train.gamma), train, step)


def credited(played: Sequence[Sequence[Rollout]], gamma: float) -> list[Rollout]:
    """The turns of all episodes with their returns, grouped by state."""
    groups: dict[str, int] = {}
    rollouts = []
    for run in played:
        end = float(run[-1].outcome.right)
        for turn, rollout in enumerate(run):
            group = groups.setdefault(rollout.state.key, len(groups))
            rollouts.append(replace(rollout, group=group, reward=end * gamma ** (len(run) - 1 - turn)))
    return rollouts


def sampled(
    policy: Policy, states: Sequence[TrainingState], train: Train, step: int
) -> list[list[tuple[str, SampledReply]]]:
    """A group for each state: plain replies, then hinted ones."""
    hints = hinted(train, step)
    sampled_groups: list[list[tuple[str, SampledReply]]] = []
    for start in range(0, len(states), train.at_once):
        part = states[start : start + train.at_once]
        plain = _asked(policy, part, train.rollouts - hints, False, train, step, start)
        groups = [[(PLAIN, sample) for sample in group] for group in plain]
        if hints:
            hinted_groups = _asked(policy, part, hints, True, train, step, start)
            groups = [
                [*group, *((HINTED, sampled) for sampled in extra)]
                for group, extra in zip(groups, hinted_groups, strict=True)
            ]
        sampled_groups += groups
    return sampled_groups


def _asked(
    policy: Policy, states: Sequence[TrainingState], number: int, hint: bool, train: Train, step: int, start: int
) -> list[list[SampledReply]]:
    seed = Random(f"{train.seed}/learning/{step}/{start}/{hint}").getrandbits(62)
    return policy.sampled([state.job(hint) for state in states], [number] * len(states), train.temperature, seed)


def one_each(
    policy: Policy, states: Sequence[TrainingState], hints: Sequence[bool], train: Train, step: int, depth: int
) -> list[SampledReply]:
    """One reply to each state, equal questions computed once."""
    indices: dict[tuple[str, bool], list[int]] = {}
    for index, (state, hint) in enumerate(zip(states, hints, strict=True)):
        indices.setdefault((state.key, hint), []).append(index)
    samples: dict[int, SampledReply] = {}
    questions = list(indices.items())
    for start in range(0, len(questions), train.at_once):
        part = questions[start : start + train.at_once]
        jobs = [states[same[0]].job(hint) for (_, hint), same in part]
        seed = Random(f"{train.seed}/learning/{step}/{depth}/{start}").getrandbits(62)
        for (_, same), group in zip(
            part, policy.sampled(jobs, [len(s) for _, s in part], train.temperature, seed), strict=True
        ):
            samples |= dict(zip(same, group, strict=True))
    return [samples[place] for place in range(len(states))]


def hinted(train: Train, step: int) -> int:
    """Replies of a group that are sampled from the hinted question at this step."""
    return round(train.exploration.hint * train.rollouts) if step < train.exploration.until * train.steps else 0


def scored(rollouts: Sequence[Rollout], train: Train, step: int) -> list[Rollout]:
    """The rollouts with their advantages; as a control, rewards change places within each group first."""
    groups: dict[int, list[Rollout]] = {}
    for rollout in rollouts:
        groups.setdefault(rollout.group, []).append(rollout)
    with_advantages = []
    fewest = FEWEST if train.credit == "episode" else 2
    for number, group in groups.items():
        rewards = [rollout.reward for rollout in group]
        if train.shuffle_rewards:
            Random(f"{train.seed}/learning/{step}/{number}/shuffle").shuffle(rewards)
        values = advantages(rewards) if len(group) >= fewest else None
        for index, rollout in enumerate(group):
            with_advantages.append(
                replace(rollout, reward=rewards[index], advantage=None if values is None else values[index])
            )
    return with_advantages


def advantages(rewards: Sequence[float]) -> list[float] | None:
    """Rewards less their mean, over their standard deviation; None where all are equal (paper, section 5: GRPO)."""
    mean = sum(rewards) / len(rewards)
    deviation = sqrt(sum((reward - mean) ** 2 for reward in rewards) / len(rewards))
    if deviation < 1e-6:
        return None
    return [(reward - mean) / (deviation + STD_FLOOR) for reward in rewards]
