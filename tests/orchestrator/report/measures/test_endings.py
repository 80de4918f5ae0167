"""Kinds of ending partition the episodes: exactly with the samples, and nearly with only an oracle run."""

import dataclasses

import polars as pl
import pytest

from envs import SCENARIOS
from envs.types import Mode
from orchestrator.report.measures.endings import (
    EndingKind,
    ending_counts,
    endings,
    view_clarity,
    wrong_kind,
)
from orchestrator.report.read_run import read_run


def test_every_episode_has_one_kind_and_counts_add_up(run_data):
    ending_rows, counts = endings(run_data), ending_counts(run_data)

    assert ending_rows.height == ending_rows["key"].n_unique() == run_data.episodes.height
    assert set(ending_rows["kind"]) <= {kind.value for kind in EndingKind}
    sums = counts.group_by("cell").agg(pl.col("count").sum(), pl.col("percent").sum())
    finished = run_data.rows.select("cell", "finished").join(sums, on="cell")
    assert finished["count"].to_list() == finished["finished"].to_list()
    assert finished["percent"].to_list() == pytest.approx([100.0] * finished.height)


def test_each_policy_ends_as_it_must(run_data):
    kinds = ending_counts(run_data).filter(condition="zero-shot", protocol="mcqa")
    kinds_by_model = {name: set(part["kind"]) for (name,), part in kinds.group_by(["model"])}

    assert kinds_by_model["oracle"] == {EndingKind.CORRECT}
    assert kinds_by_model["abstain"] == {EndingKind.GAVE_UP}
    assert kinds_by_model["guess"] <= {EndingKind.CORRECT, EndingKind.GUESSED_EARLY, EndingKind.GUESSED_CLEAR}
    rod_endings = kinds.filter(model="always-ask", scenario="ROD")
    assert set(rod_endings["kind"]) == {EndingKind.ASKED_TO_LIMIT}
    in_c = kinds.filter(model="always-ask", scenario="IN-C")
    assert EndingKind.ASKED_WRONG in set(in_c["kind"]), "another repair than the picture needs"


def test_wrong_category_is_early_on_first_view_and_clear_on_reference(run_data):
    ending_rows = endings(run_data).filter(model="guess")
    first = ending_rows.filter(condition="zero-shot", scenario="ROD")
    reference = ending_rows.filter(condition="reference")

    assert set(first["kind"]) == {EndingKind.GUESSED_EARLY}, (
        "nothing counts on ROD's first turn, not even the right category"
    )
    assert set(reference["kind"]) <= {EndingKind.CORRECT, EndingKind.GUESSED_CLEAR}


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


def test_clarity_from_oracle_pictures_matches_rules(run_data):
    blind = dataclasses.replace(run_data, samples={})
    both = view_clarity(run_data).join(view_clarity(blind), on="key", suffix="_blind").join(run_data.episodes, on="key")
    played = both.filter(pl.col("condition") != "random-proactive")

    assert played["clear_blind"].null_count() == 0
    assert played["clear"].equals(played["clear_blind"], null_equal=True)


def test_without_samples_and_oracle_a_guess_stays_a_guess(run_data):
    guesses = run_data.episodes.filter(pl.col("model") == "guess")
    blind = dataclasses.replace(run_data, samples={}, episodes=guesses)

    assert set(endings(blind).filter(condition="zero-shot")["kind"]) == {EndingKind.CORRECT, EndingKind.GUESSED}


def test_endings_need_only_the_run_folder(run, tmp_path):
    without = read_run(run, data=tmp_path / "gone")

    assert without.samples == {}
    assert "not available" in without.notes[0]
    assert endings(without).height == without.episodes.height


@pytest.mark.parametrize(
    ("move", "action", "category", "clear", "kind"),
    [
        ("left", "suggestion", "mismatch", True, "led out of the video"),
        ("left", "category", "wrong", True, "led out of the video"),
        (None, "category", "wrong", None, "guessed wrong"),
        (None, "category", "wrong", True, "guessed wrong on a clear view"),
        (None, "category", "wrong", False, "guessed too early"),
        (None, "abstention", "mismatch", True, "gave up"),
        (None, "suggestion", "mismatch", False, "asked for the wrong thing"),
        (None, "unparsable", "mismatch", None, "unparsable"),
        (None, "category", "mismatch", True, "unparsable"),
    ],
)
def test_a_wrong_ending_is_named_by_its_last_turn(move, action, category, clear, kind):
    schema = {**dict.fromkeys(("move", "action", "category"), pl.String), "clear": pl.Boolean}
    last = pl.DataFrame([(move, action, category, clear)], schema=schema, orient="row")

    assert last.select(wrong_kind()).item() == kind
