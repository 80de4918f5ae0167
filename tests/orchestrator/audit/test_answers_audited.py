"""Open-ended answers, endings and counts without the package: replays that are written out stand for its own."""

import pytest

from envs.openended import accepted_answers
from envs.samples import load_samples
from envs.types import Action, Ending
from orchestrator.audit import game_turns, open_ended
from orchestrator.audit.records import Recording
from sweeps.conditions import CONDITIONS
from sweeps.spec import Cell, ModelSpec, Protocol

MODEL = ModelSpec(name="m", source="s")


def cell_of(condition="zero-shot", protocol=Protocol.OEG):
    return Cell(model=MODEL, scenario="QD", condition=CONDITIONS[condition], protocol=protocol)


@pytest.fixture
def sample(demo_data):
    return load_samples(demo_data, "QD", filtered=False)[0]


def verdict(text, bits, attempts=1, strict=None):
    names = ("category", "suggestion", "aggregate")
    strict_bits = bits if strict is None else strict
    return {
        "judge": "j", "text": text, "attempts": attempts, **dict(zip(names, bits, strict=True)),
        **{f"strict_{name}": bit for name, bit in zip(names, strict_bits, strict=True)},
    }  # fmt: skip


def record(sample, *verdicts, condition="zero-shot", image=None):
    from actors.playing.prompts import open_view
    from envs import SCENARIOS

    cell = cell_of(condition)
    view = open_view(sample, SCENARIOS["QD"].initial(sample, cell.condition.mode), cell.condition)
    return Recording({"key": "k", "image": [image or view.image.key]}, cell, sample, verdicts)


def package_of(episode, bits, **changed):
    """Return the package's answer that agrees with ours on the question, with these bits of each verdict."""
    nothing = {"question": 0, "accepted answers": 0, "bits": bits or [None] * len(episode.verdicts), "raised": None}
    ours = {d.what: d.ours for d in open_ended.differences(episode, nothing) if d.stored == "not stored"}
    return {**nothing, **ours, **changed}


def marks(sample, *ones):
    """A judge's reply that marks these of the accepted answers."""
    return ",".join("1" if number in ones else "0" for number in range(len(accepted_answers(sample))))


def test_an_answer_that_all_read_alike_has_no_difference(sample):
    last = len(accepted_answers(sample)) - 1
    yes, no = [True, False, True], [False, False, False]
    episode = record(sample, verdict(marks(sample, last), yes), verdict(marks(sample), no))
    assert list(open_ended.differences(episode, package_of(episode, [yes, no]))) == []
    theirs = list(open_ended.differences(episode, package_of(episode, [yes, yes])))
    assert [(d.what, d.stored, d.ours, d.package) for d in theirs] == [
        ("verdict of j", no, no, yes), ("verdict of j, strict", no, no, yes),
    ]  # fmt: skip
    raised = package_of(episode, [], raised="KeyError", question=None)
    assert list(open_ended.differences(episode, raised)) == [], "where the package raises, our code alone reads again"


def test_a_stored_verdict_that_its_text_does_not_give_is_a_difference(sample):
    no = [False, False, False]
    for stored, whats in (
        (verdict(marks(sample), [True, False, True]), ["verdict of j", "verdict of j, strict"]),
        (verdict(marks(sample), no, strict=[True, False, True]), ["verdict of j, strict"]),
        (verdict(marks(sample), no, attempts=2, strict=[True, False, True]), []),
        (verdict(marks(sample), no, strict=[None, None, None]), []),
        (verdict(marks(sample), [None, None, None], strict=no), ["verdict of j"]),
    ):
        episode = record(sample, stored)
        assert [d.what for d in open_ended.differences(episode, package_of(episode, [no]))] == whats


def test_question_answers_and_picture_are_compared(sample):
    episode = record(sample, image="other.png")
    (image,) = open_ended.differences(episode, package_of(episode, []))
    assert (image.what, image.stored, image.package) == ("image", "other.png", "not asked")
    episode = record(sample)
    for what in ("question", "accepted answers"):
        (difference,) = open_ended.differences(episode, package_of(episode, [], **{what: ["else"]}))
        assert (difference.key, difference.what, difference.stored, difference.package) == (
            "k",
            what,
            "not stored",
            ["else"],
        )


def test_the_package_gets_sample_answers_and_judges_replies(sample):
    replies = [verdict("1", [True, False, True]), verdict("0", [False, False, False])]
    plain, clear = (open_ended.task(record(sample, *replies, condition=name)) for name in ("hint", "reference"))
    assert plain == {
        "stem": "QuickDraw", "id": sample.id, "mode": CONDITIONS["hint"].mode.value, "options": sample.options,
        "categories": sample.categories, "scenario": "QD", "accepted": None, "judged": ["1", "0"],
    }  # fmt: skip
    assert clear["accepted"] == ", ".join(accepted_answers(sample, reference=True)) and clear["mode"] == "reference"


# -- endings and counts ------------------------------------------------------------------------------------------------
def total(ending, ours, package, raised=None, move="left", **stored):
    """Return the differences of the totals of an episode of one suggestion that ended so in store, replay and package."""
    row = {
        "key": "k",
        "ending": ending,
        "n_turns": 1,
        "n_correct": ours == "correct",
        **{f"n_{n}": 0 for n in game_turns.COUNTED},
    }
    row |= {"n_suggestions": 1} | {f"n_{name}": value for name, value in stored.items()}
    facts = [{"ending": ours, "move": move, "action": Action.SUGGESTION}]
    reference = {"turns": [], "ending": package, "raised": raised}
    found = game_turns._total_differences(Recording(row, cell_of(), None), facts, reference)
    return [(d.what, d.stored, d.ours, d.package) for d in found]


@pytest.mark.parametrize(
    ("ending", "ours", "package", "more", "differs"),
    [
        (Ending.CORRECT, "correct", "correct", {}, False),
        (Ending.CORRECT, "correct", "wrong", {}, True),
        (Ending.CORRECT, "correct", "wrong", {"raised": "KeyError"}, False),
        (Ending.CORRECT, "wrong", "wrong", {}, True),
        (Ending.LIMIT, "limit", "wrong", {"move": None}, False),
        (Ending.LIMIT, "limit", "wrong", {}, True),
        (Ending.TRUNCATED, "wrong", "wrong", {}, False),
        (Ending.TRUNCATED, "correct", "correct", {}, True),
        (Ending.FAILED, None, None, {}, False),
        (Ending.FAILED, "wrong", "wrong", {}, True),
    ],
)
def test_an_ending_is_that_of_game_and_package(ending, ours, package, more, differs):
    found = total(ending, ours, package, correct=ours == "correct", **more)
    assert found == ([("ending", ending, ours, package)] if differs else [])


def test_counts_are_those_of_the_replay_and_an_overflow_has_a_turn_without_reply():
    assert total(Ending.OVERFLOW, None, None, turns=2) == []
    assert total(Ending.OVERFLOW, None, None) == [("turns", 1, 2, "not asked")]
    for name, stored, ours in (
        ("suggestions", 3, 1),
        ("abstentions", 1, 0),
        ("categories", 2, 0),
        ("unparsable", 4, 0),
    ):
        assert total(Ending.WRONG, "wrong", "wrong", **{name: stored}) == [(name, stored, ours, "not asked")]
    assert total(Ending.WRONG, "wrong", "wrong", correct=True) == [("correct", True, False, "not asked")]


# -- the package's process ---------------------------------------------------------------------------------------------


PACKAGE = """
class Picture: ...
class Game:
    action_map = {}
    num_turns, max_steps = 1, 1
    def __init__(self, entry, data_dir, reference, random=False):
        self.entry, self.stop, self.correct_prediction = entry, False, False
        self.action_history, self.action_evaluation_history, self.category_evaluation_history = [], [], []
    def get_state(self, hint):
        return {"image_path": "a.png", "prompt": self.entry["prompt"], "options": self.entry["options"], "transform": id}
    def evaluate_generated_answer(self, reply):
        self.action_history.append(1), self.action_evaluation_history.append(False)
        self.category_evaluation_history.append(reply == "A")
        self.stop, self.correct_prediction = True, reply == "A"
def get_environment(stem):
    print("a warning of the package")
    return Game
"""
