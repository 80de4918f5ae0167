"""Turns and episodes that a scripted policy plays: variants, seeds, groups and rewards, without a model."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import polars as pl
import pytest

from actors.engine.batching import Job
from envs.scenario import suggestions
from orchestrator.learning.asking import ASKING, asking_table
from orchestrator.learning.rollouts import HINTED, PLAIN, Rollout, sample_episodes, sample_turns
from orchestrator.learning.settings import Train, train_table
from orchestrator.learning.states import GameState, Pool, SampledReply, load_states
from orchestrator.report.tables.table import MISSING


@pytest.fixture(scope="module")
def states(demo_data: Any) -> list[GameState]:
    """The hidden, middle and clear states of one sample of QuickDraw."""
    return load_states(demo_data, ("QD",), 1, 0)


class Scripted:
    """A policy that asks for its first ``asks`` calls and then answers right; it records what it is asked."""

    def __init__(self, asks: int = 0) -> None:
        self.asks, self.calls = asks, list[tuple[list[str], list[int], float, int]]()
        self.ask = self.answer = ""

    def sample(self, jobs: Sequence[Job], numbers: Sequence[int], temperature: float, seed: int) -> Any:
        texts = [job.request.messages[-1].text for job in jobs]
        self.calls.append((texts, list(numbers), temperature, seed))
        chosen = 0 if len(self.calls) <= self.asks else 1
        return [[SampledReply((chosen, number), -0.5) for _ in range(count)] for number, count in enumerate(numbers)]

    def text(self, tokens: Sequence[int]) -> str:
        return (self.ask, self.answer)[tokens[0]]


def train(**more: Any) -> Train:
    table = {"model": "embedded", "data": "d", "steps": 10, "rollouts": 4, "batch": 8, "temperature": 0.7}
    return train_table({"train": {**table, **more}}, "x.toml")


def policy(states: Sequence[GameState], asks: int = 0) -> Any:
    scripted = Scripted(asks)
    sample = states[0].sample
    scripted.ask, scripted.answer = suggestions(sample.options)[0], sample.answer
    return scripted


def pool(states: Sequence[GameState], settings: Train) -> Pool:
    return Pool(states, settings.states)


def seed(text: str) -> int:
    return Random(text).getrandbits(62)


def test_a_group_is_half_hinted_and_its_draws_depend_on_seed_and_step(states: list[GameState]) -> None:
    settings = train(exploration={"hint": 0.5, "until": 1.0}, at_once=1)
    scripted = policy(states)
    rollouts = sample_turns(scripted, pool(states, settings), settings, 3)
    drawn = pool(states, settings).draw(2, Random("0/learning/3/states"))

    assert [r.variant for r in rollouts] == [PLAIN, PLAIN, HINTED, HINTED] * 2 == ["plain", "plain", "hint", "hint"] * 2
    assert [r.group for r in rollouts] == [0] * 4 + [1] * 4 and [r.state for r in rollouts[::4]] == drawn
    texts = [[state.job(hint).request.messages[-1].text] for state in drawn for hint in (False, True)]
    assert [call[0] for call in scripted.calls] == texts and {call[1][0] for call in scripted.calls} == {2}
    assert [call[2:] for call in scripted.calls] == [
        (0.7, seed(f"0/learning/3/{start}/{hint}")) for start in (0, 1) for hint in (False, True)
    ]
    assert [r.reply for r in rollouts] == [states[0].sample.answer] * 8


def test_without_hints_states_are_sampled_together(states: list[GameState]) -> None:
    scripted = policy(states)
    settings = train()
    rollouts = sample_turns(scripted, pool(states, settings), settings, 0)

    assert [(call[1], call[3]) for call in scripted.calls] == [([4, 4], seed("0/learning/0/0/False"))]
    assert {r.variant for r in rollouts} == {"plain"} and {r.completion.logprob for r in rollouts} == {-0.5}


def played(states: list[GameState], asks: int, **more: Any) -> tuple[Any, list[Rollout]]:
    settings = train(credit="episode", rollouts=2, batch=2, states={"hidden": 1, "middle": 0, "clear": 0}, **more)
    scripted = policy(states, asks)
    return scripted, sample_episodes(scripted, pool(states, settings), settings, 5)


def test_an_episode_asks_and_answers_with_discounted_rewards(states: list[GameState]) -> None:
    """Both replies ask once and then answer right: the asking earns 0.9 of the end."""
    scripted, rollouts = played(states, 1, gamma=0.9)
    first = states[0]

    assert [(r.reward, r.group, r.variant) for r in rollouts] == [(0.9, 0, "plain")] * 2 + [(1.0, 1, "plain")] * 2
    assert [r.state.key for r in rollouts] == [first.key] * 2 + [f"QD/{first.sample.id}/1"] * 2
    assert [(call[1], call[3]) for call in scripted.calls] == [
        ([2], seed("0/learning/5/0/0")), ([2], seed("0/learning/5/1/0")),
    ]  # fmt: skip
    assert [r.completion.tokens for r in rollouts] == [(0, 0)] * 2 + [(1, 0)] * 2
    assert all(r.advantage is None for r in rollouts), "two replies to a state are too few"


def test_an_episode_without_an_answer_ends_at_the_limit_with_nothing(states: list[GameState]) -> None:
    _, rollouts = played(states, 99)

    assert 2 < len(rollouts) <= 32 and {r.reward for r in rollouts} == {0.0}


def test_a_hinted_reply_of_an_episode_is_asked_with_the_hint(states: list[GameState]) -> None:
    scripted, rollouts = played(states, 0, exploration={"hint": 0.5, "until": 1.0})

    assert [r.variant for r in rollouts] == ["plain", "hint"]
    assert scripted.calls[0][0] == [states[0].job(hint).request.messages[-1].text for hint in (False, True)]


def test_a_successor_is_clear_where_the_answer_is_visible(states: list[GameState]) -> None:
    path = states[: [state.kind for state in states].index("clear") + 1]

    for state in path[1:]:
        later = path[0].successor(state.state)
        assert (later.kind, later.key, later.scenario) == (state.kind, state.key, "QD")
        assert (later.solution == later.sample.answer) is (state.kind == "clear")
        assert (later.sample, later.renderer) == (path[0].sample, path[0].renderer)


def test_asking_more_and_better_is_a_line_per_stage_and_group() -> None:
    row: dict[str, Any] = dict.fromkeys(ASKING)
    row |= {"model": "m", "stage": "stage 1", "group": "trained", "family": "plain", "scenarios": 2, "difference": 1.5}
    row |= {"difference_low": 0.5, "difference_high": 2.5, "more": -0.5, "better": None}
    rows = pl.DataFrame([row, {**row, "family": "persistent"}, {**row, "model": "n"}], schema=ASKING)
    table = asking_table("m", rows)

    assert table.title.startswith("m: exact acc after minus before, and its parts at equal numbers of suggestions")
    assert [column.name for column in table.columns] == ["change", "scenarios", "acc", "asking more", "asking better"]
    assert [row[0].text for row in table.rows] == ["stage 1, trained", "stage 1, trained, never giving up"]
    assert [cell.text for cell in table.rows[0][1:4]] == ["2", "+1.5", "\N{MINUS SIGN}0.5"] and table.rows[0][
        4
    ] == MISSING
    assert table.name == "learning-asking" and table.rows[0][1].value == 2
