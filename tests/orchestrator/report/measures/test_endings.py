"""Kinds of ending partition the episodes, and the rules of the game tell early guesses from clear ones."""

import dataclasses

import polars as pl
import pytest

from envs import SCENARIOS
from envs.types import Mode
from orchestrator.report.measures.endings import EndingKind, ending_counts, endings, view_clarity


def test_every_episode_has_one_kind_and_counts_add_up(run_data):
    ending_rows, counts = endings(run_data), ending_counts(run_data)

    assert ending_rows.height == ending_rows["key"].n_unique() == run_data.episodes.height
    assert set(ending_rows["kind"]) <= {kind.value for kind in EndingKind}
    sums = counts.group_by("cell").agg(pl.col("count").sum(), pl.col("percent").sum())
    finished = run_data.rows.select("cell", "finished").join(sums, on="cell")
    assert finished["count"].to_list() == finished["finished"].to_list()
    assert finished["percent"].to_list() == pytest.approx([100.0] * finished.height)


def test_clarity_matches_rules_on_replay(run_data):
    """Replay turn by turn instead of reading the columns that ``clear`` uses."""
    clear_by_key = dict(view_clarity(run_data).select("key", "clear").iter_rows())
    episodes = {row["key"]: row for row in run_data.episodes.iter_rows(named=True)}
    for key, turns in run_data.turns.collect().group_by("key", maintain_order=True):
        row = episodes[key[0]]
        mode = run_data.conditions[row["condition"]].mode
        if mode is Mode.RANDOM:
            continue
        game, sample = SCENARIOS[row["scenario"]], run_data.samples[row["scenario"]][row["sample_id"]]
        state = before = game.initial(sample, mode)
        for reply in turns.sort("turn")["reply"]:
            before = state
            state, _ = game.step(sample, state, reply)
        assert clear_by_key[key[0]] == game.telling(sample, before), key[0]


def test_without_samples_a_guess_stays_a_guess(run_data):
    guesses = run_data.episodes.filter(pl.col("model") == "guess")
    blind = dataclasses.replace(run_data, samples={}, episodes=guesses)

    assert set(endings(blind).filter(condition="zero-shot")["kind"]) == {EndingKind.CORRECT, EndingKind.GUESSED}
