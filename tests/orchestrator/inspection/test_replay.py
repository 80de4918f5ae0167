"""Recorded answers that are replayed, the lines that are refused, and the judge that a preview of prompts needs."""

import json

import pytest

from envs.samples import load_samples
from orchestrator.inspection.overflow import SIZES, Bounds
from orchestrator.inspection.prompt_preview import find_judge
from orchestrator.inspection.replay import ReplayError, as_json, replay, replay_answers
from sweeps.load import SweepError
from sweeps.protocol import Protocol


def line(**fields):
    return json.dumps({"scenario": "QD", "id": 0, "answers": ["A"], **fields})


def test_right_answer_ends_the_episode_and_the_rest_is_unused(demo_data):
    sample = load_samples(demo_data, "QD", filtered=False)[0]
    view = replay_answers(sample, ["A"])["turns"][0]
    assert view["answer"] == "A" and view["options"] and set(view) == {
        "image", "op", "prompt", "options", "answer", "action", "category",
    }  # fmt: skip
    (replayed,) = replay(demo_data, [" \n", line(id=sample.id)])
    assert replayed == replay_answers(sample, ["A"]) and (replayed["scenario"], replayed["id"]) == ("QD", sample.id)
    ends = [replay_answers(sample, [chr(ord("A") + n)] * 9) for n in range(len(view["options"]))]
    assert sum(end["correct"] is True for end in ends) == 1
    for end in ends:
        assert end["num_turns"] == len(end["turns"]) and end["unused_answers"] == 9 - len(end["turns"])
        assert (end["ending"] == "correct") is (end["correct"] is True)
    assert replay_answers(sample, []) == {
        "scenario": "QD", "id": sample.id, "turns": [], "num_turns": 0, "ending": None, "correct": None,
        "max_steps": False, "unused_answers": 0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not JSON"),
        ("[1]", 'must be an object such as {"scenario": "ROD", "id": 3, "answers": ["A"]}'),
        (line(scenario=3), ": scenario 3 is none of ROD, "),
        (line(scenario=None), ": scenario None is none of ROD, "),
        (line(scenario="XX"), ": scenario 'XX' is none of ROD, "),
        (line(id=True), ": id must be a whole number, not true"),
        (line(id="7"), ': id must be a whole number, not "7"'),
        (line(answers="A"), ": answers must be a list of strings"),
        (line(answers=["A", 1]), ": answers must be a list of strings"),
        (line(hint=1), ": hint must be true or false, not 1"),
        (line(reference="no"), ": reference must be true or false, not 'no'"),
        (
            line(protocol="oeg"),
            ": protocol 'oeg' cannot be replayed; replay scores multiple choice only, leave protocol out",
        ),
        (line(answer="A"), ": unknown key 'answer'; did you mean 'answers'?"),
        (line(zzz=1), ": unknown key 'zzz'; a line has the keys scenario, id, hint, reference, answers"),
        (line(id=-1), ": QD has no sample with id -1"),
    ],
)
def test_refused_line_is_named_with_its_reason(demo_data, text, message):
    with pytest.raises(ReplayError) as refusal:
        list(replay(demo_data, ["", text], "a.jsonl"))
    assert str(refusal.value).removeprefix("a.jsonl, line 2").lstrip().startswith(message.lstrip())
    assert str(refusal.value).startswith("a.jsonl, line 2")


def test_a_line_of_json_escapes_what_the_encoding_lacks_or_a_terminal_obeys():
    assert as_json({"a": "é"}) == '{"a": "é"}' == as_json({"a": "é"}, "latin-1")
    assert as_json({"a": "é"}, "ascii") == '{"a": "\\u00e9"}'
    assert as_json({"a": "\u202e\x9b"}) == '{"a": "\\u202e\\u009b"}'


def test_options_of_a_previewed_judge_must_fit_together():
    assert find_judge("", "", Protocol.MCQA, 3) is None and find_judge("", "", Protocol.OEG, 0) is None
    assert find_judge("rule-judge", "a cat", Protocol.OEG, 0).model.name == "rule-judge"
    assert find_judge("rule-judge", "", Protocol.OEG_MULTI, 2).model.name == "rule-judge"
    for options, message in (
        (("rule-judge", "", Protocol.MCQA, 0), "--judge and --answer require open-ended answers: add --protocol oeg"),
        (("", "a cat", Protocol.MCQA, 0), "--judge and --answer require open-ended answers: add --protocol oeg"),
        (("", "", Protocol.OEG, 1), "open-ended generation has one turn, 0; remove --turn 1"),
        (
            ("", "a cat", Protocol.OEG, 0),
            "--answer requires --judge NAME; `proactive-sweep ls judges` lists the judges",
        ),
    ):
        with pytest.raises(SweepError) as refusal:
            find_judge(*options)
        assert str(refusal.value) == message


def test_a_picture_has_the_tokens_of_the_smallest_size_with_as_many_pixels():
    limits = Bounds(None, None, {name: number for number, name in enumerate(SIZES, start=1)})
    (height, width), photo = SIZES["full"], SIZES["photo"]
    sizes = [(1, 1), SIZES["small"], (width, height), (height, width), (height, width + 1), photo, (9999, 9999)]
    assert limits.picture_tokens(sizes) == [1, 1, 2, 2, 3, 4, 4] and limits.source == "table"
    assert Bounds(None, None, {}).picture_tokens([(1, 1)]) == [0]
