"""The kinds of ending are a partition, exact where the samples are at hand, and nearly so where only an oracle is."""

import dataclasses

import polars as pl
import pytest

from envs import SCENARIOS
from envs.types import Ending, Mode
from orchestrator.report.measures.endings import EndingKind, ending_counts, endings, view_clarity
from orchestrator.report.read_run import read_run
from tests.orchestrator.blocks import episode
from tests.orchestrator.report.measures.test_estimates import made


def test_every_episode_has_one_kind_and_counts_sum_to_the_finished(run_data):
    found, counted = endings(run_data), ending_counts(run_data)

    assert found.height == found["key"].n_unique() == run_data.episodes.height
    assert set(found["kind"]) <= {kind.value for kind in EndingKind}
    sums = counted.group_by("cell").agg(pl.col("count").sum(), pl.col("percent").sum())
    finished = run_data.rows.select("cell", "finished").join(sums, on="cell")
    assert finished["count"].to_list() == finished["finished"].to_list()
    assert finished["percent"].to_list() == pytest.approx([100.0] * finished.height)


def test_each_policy_ends_as_it_must(run_data):
    kinds = ending_counts(run_data).filter(condition="zero-shot", protocol="mcqa")
    seen = {name: set(part["kind"]) for (name,), part in kinds.group_by(["model"])}

    assert seen["oracle"] == {EndingKind.CORRECT}
    assert seen["abstain"] == {EndingKind.GAVE_UP}
    assert seen["guess"] <= {EndingKind.CORRECT, EndingKind.GUESSED_EARLY, EndingKind.GUESSED_CLEAR}
    asked = kinds.filter(model="always-ask", scenario="ROD")
    assert set(asked["kind"]) == {EndingKind.ASKED_FOR_EVER}
    in_c = kinds.filter(model="always-ask", scenario="IN-C")
    assert EndingKind.ASKED_WRONG in set(in_c["kind"]), "another repair than the picture needs"


def test_a_wrong_category_is_early_on_the_first_view_and_clear_on_the_reference(run_data):
    found = endings(run_data).filter(model="guess")
    first = found.filter(condition="zero-shot", scenario="ROD")
    reference = found.filter(condition="reference")

    assert set(first["kind"]) == {EndingKind.GUESSED_EARLY}, (
        "nothing counts on ROD's first turn, not even the right category"
    )
    assert set(reference["kind"]) <= {EndingKind.CORRECT, EndingKind.GUESSED_CLEAR}


def test_clear_is_what_the_rules_say_on_replay(run_data):
    """Replayed turn by turn, instead of from the columns that ``clear`` uses."""
    told = dict(view_clarity(run_data).select("key", "clear").iter_rows())
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
        assert told[key[0]] == game.telling(sample, before), key[0]


def test_without_the_samples_the_oracles_pictures_tell_the_same(run_data):
    blind = dataclasses.replace(run_data, samples={})
    both = view_clarity(run_data).join(view_clarity(blind), on="key", suffix="_blind").join(run_data.episodes, on="key")
    played = both.filter(pl.col("condition") != "random-proactive")

    assert set(played["how"]) == {"rules"}
    assert set(played["how_blind"]) == {"oracle"}
    assert played["clear"].equals(played["clear_blind"], null_equal=True)


def test_without_samples_and_oracle_a_guess_stays_a_guess(run_data):
    mine = run_data.episodes.filter(pl.col("model") == "guess")
    blind = dataclasses.replace(run_data, samples={}, episodes=mine)

    assert set(endings(blind).filter(condition="zero-shot")["kind"]) == {EndingKind.CORRECT, EndingKind.GUESSED}


@pytest.mark.parametrize(
    ("ending", "kind"),
    [
        (Ending.UNPROCESSABLE, EndingKind.UNPROCESSABLE),
        (Ending.REFUSED, EndingKind.REFUSED),
        (Ending.FAILED, EndingKind.FAILED),
        (Ending.LIMIT, EndingKind.ASKED_FOR_EVER),
    ],
)
def test_an_ending_without_any_turn_keeps_its_name(run_data, ending, kind):
    found = endings(made(run_data, [episode(1, ending=ending, correct=False, turns=0)]))

    assert found["kind"].to_list() == [kind]


def test_the_folder_alone_is_enough(run, tmp_path):
    without = read_run(run, data=tmp_path / "gone")

    assert without.samples == {}
    assert "not available" in without.notes[0]
    assert endings(without).height == without.episodes.height
