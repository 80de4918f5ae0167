"""Kinds of ending partition the episodes: exactly with the samples, and nearly with only an oracle run."""

import dataclasses

import polars as pl
import pytest

from envs import SCENARIOS
from envs.types import Ending, Mode
from orchestrator.report.measures.endings import (
    EndingKind,
    ending_counts,
    endings,
    kind_of_ending,
    view_clarity,
    wrong_kind,
)
from orchestrator.report.read_run import read_run
from orchestrator.report.statistics.proportion import proportion_interval
from tests.orchestrator.blocks import episode
from tests.orchestrator.report.measures.test_estimates import replace_episodes


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


@pytest.mark.parametrize(
    ("ending", "kind"),
    [
        (Ending.UNPROCESSABLE, EndingKind.UNPROCESSABLE),
        (Ending.REFUSED, EndingKind.REFUSED),
        (Ending.FAILED, EndingKind.FAILED),
        (Ending.LIMIT, EndingKind.ASKED_TO_LIMIT),
    ],
)
def test_an_ending_without_any_turn_keeps_its_name(run_data, ending, kind):
    ending_rows = endings(replace_episodes(run_data, [episode(1, ending=ending, correct=False, turns=0)]))

    assert ending_rows["kind"].to_list() == [kind]


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


def test_every_other_ending_has_its_kind():
    kinds = {
        "correct": "correct", "limit": "asked to the limit", "overflow": "outgrew the model",
        "truncated": "spent its tokens in silence", "answered": "answered in words", "unprocessable": "unprocessable",
        "refused": "refused", "failed": "failed",
    }  # fmt: skip
    rows = pl.DataFrame({"ending": [*kinds, "wrong", "wrong"], "kind": ["gave up"] * (len(kinds) + 1) + [None]})

    assert rows.select(kind_of_ending()).to_series().to_list() == [*kinds.values(), "gave up", "unparsable"]


def test_each_kind_is_explained_in_a_sentence():
    assert {kind.value: kind.meaning for kind in EndingKind} == {
        "correct": "The right category was named when it could count.",
        "guessed too early": (
            "A category was named before the view could show it, and it was wrong or could not count yet."
        ),
        "guessed wrong on a clear view": (
            "A wrong category was named although the view was as clear as the reference."
        ),
        "guessed wrong": "A wrong category was named; whether the view was clear is not known.",
        "gave up": "The abstention was chosen.",
        "asked for the wrong thing": "A suggestion was chosen that does not count here.",
        "led out of the video": "The random move that a suggestion caused left the video.",
        "asked to the limit": "The last turn was spent on one more suggestion.",
        "outgrew the model": (
            "The next prompt did not fit the model: too many tokens or pictures. Counted as not right."
        ),
        "spent its tokens in silence": (
            "The tokens of a reply were spent before its first word. Counted as not right."
        ),
        "unparsable": "The last reply names none of the options.",
        "answered in words": "One free answer was given (open-ended); the judge's verdict is shown below it.",
        "unprocessable": "No answer: a picture could not be read, or the model's processor refused it.",
        "refused": "No answer: the provider declined.",
        "failed": "No answer: the episode failed and was given up.",
    }


def test_counts_of_a_cell_have_percentages_with_bounds_and_the_order_of_kinds(run_data):
    rows = [
        episode(number, "m/QD/hint", ending=ending, correct=ending is Ending.CORRECT, turns=0)
        for number, ending in enumerate([Ending.FAILED, Ending.CORRECT, Ending.CORRECT, Ending.LIMIT])
    ]
    counts = ending_counts(replace_episodes(run_data, rows))

    assert counts.columns == [
        "model", "scenario", "condition", "protocol", "cell", "kind", "count", "finished", "percent", "percent_low",
        "percent_high",
    ]  # fmt: skip
    assert counts.select("kind", "count", "finished", "percent").rows() == [
        ("correct", 2, 4, 50.0), ("asked to the limit", 1, 4, 25.0), ("failed", 1, 4, 25.0)
    ]  # fmt: skip
    bounds = [tuple(100 * end for end in proportion_interval(hits, 4)) for hits in (2, 1, 1)]
    assert counts.select("percent_low", "percent_high").rows() == [pytest.approx(ends) for ends in bounds]
    empty = ending_counts(replace_episodes(run_data, []))
    assert empty.is_empty() and empty.columns == counts.columns
