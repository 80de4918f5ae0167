"""Groups, advantages and credit, without a model."""

from random import Random
from statistics import mean, pstdev

import pytest

from envs.types import Action
from orchestrator.learning.rollouts import Rollout, add_advantages, advantages, count_hinted, credit_episodes
from orchestrator.learning.settings import train_table
from orchestrator.learning.states import ReplyOutcome, SampledReply, load_states


@pytest.fixture(scope="module")
def state(demo_data):
    return load_states(demo_data, ("QD",), 1, 0)[0]


def train(**more):
    return train_table({"train": {"model": "embedded", "data": "d", "steps": 10, **more}}, "x.toml")


def rollout(state, group, reward, right=False):
    return Rollout(
        state, group, "plain", SampledReply((5, 2), -1.0), "r", ReplyOutcome(Action.CATEGORY, right, False), reward
    )


def test_advantages_are_rewards_in_standard_deviations():
    values = advantages([1.0, 0.5, 0.0, 0.5])

    assert values == pytest.approx([(r - 0.5) / (pstdev([1, 0.5, 0, 0.5]) + 1e-4) for r in (1.0, 0.5, 0.0, 0.5)])
    assert advantages([0.5] * 8) is None and advantages([0.0, 0.0]) is None


def test_only_groups_with_differences_are_live(state):
    rollouts = add_advantages(
        [rollout(state, 0, 1.0), rollout(state, 0, 0.0), rollout(state, 1, 1.0), rollout(state, 1, 1.0)], train(), 0
    )

    assert [r.advantage is None for r in rollouts] == [False, False, True, True]
    assert mean(r.advantage for r in rollouts[:2]) == pytest.approx(0)


def test_shuffled_control_permutes_rewards_within_groups(state):
    group = [rollout(state, 0, float(k), right=k == 7) for k in range(8)]
    orders = [tuple(r.reward for r in add_advantages(group, train(shuffle_rewards=True), step)) for step in range(5)]

    assert all(sorted(order) == [float(k) for k in range(8)] for order in orders) and len(set(orders)) == 5
    assert [r.reward for r in add_advantages(group, train(), 0)] == [float(k) for k in range(8)]


def test_turn_rewards_are_discounted_episode_outcome(state):
    later_state = state._replace(state=state.state._replace(turn=1))
    won = [rollout(state, 0, 0.0), rollout(later_state, 0, 0.0, right=True)]
    lost = [rollout(state, 0, 0.0)]
    rollouts = credit_episodes([won, lost], 0.9)

    assert [r.reward for r in rollouts] == [0.9, 1.0, 0.0]
    assert [r.group for r in rollouts] == [0, 1, 0]


def test_episode_state_needs_three_replies_for_group(state):
    two = [rollout(state, 0, 1.0), rollout(state, 0, 0.0)]

    assert all(r.advantage is None for r in add_advantages(two, train(credit="episode"), 0))
    assert all(r.advantage is not None for r in add_advantages([*two, two[0]], train(credit="episode"), 0))


def test_hints_stop_after_their_share_of_steps():
    config = train(exploration={"hint": 0.5, "until": 0.3})

    assert [count_hinted(config, step) for step in range(5)] == [4, 4, 4, 0, 0]
    assert count_hinted(train(), 0) == 0


def test_rewards_that_differ_by_rounding_alone_are_equal():
    assert advantages([0.0, 1e-6]) is None and advantages([0.0, 3e-6]) is not None


def test_the_control_shuffles_by_seed_step_and_group(state):
    group = [rollout(state, 0, float(k)) for k in range(8)]
    rewards = [float(k) for k in range(8)]
    Random("0/learning/4/0/shuffle").shuffle(rewards)

    assert [r.reward for r in add_advantages(group, train(shuffle_rewards=True), 4)] == rewards
