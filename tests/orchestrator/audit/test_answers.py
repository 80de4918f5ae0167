"""Recorded answers are replayed, and a line that cannot be scored is named with its reason."""

import json

import pytest

from envs import SCENARIOS
from envs.samples import load_samples
from orchestrator.audit.answers import ReplayError, score_answers, score_lines


def line(**fields):
    return json.dumps({"scenario": "QD", "id": 0, "answers": ["A"], **fields})


def test_right_answer_ends_the_episode_and_the_rest_is_unused(demo_data):
    sample = load_samples(demo_data, "QD", filtered=False)[0]
    view = score_answers(sample, ["A"])["turns"][0]
    assert set(view) == {"image", "op", "prompt", "options", "answer", "action", "category"}
    (replayed,) = score_lines(demo_data, [" \n", line(scenario="QuickDraw", id=sample.id, protocol="mcqa")])
    assert replayed == score_answers(sample, ["A"]) and (replayed["scenario"], replayed["id"]) == ("QD", sample.id)
    ends = [score_answers(sample, [chr(ord("A") + n)] * 9) for n in range(len(view["options"]))]
    assert sum(end["correct"] is True for end in ends) == 1
    for end in ends:
        assert end["num_turns"] == len(end["turns"]) and end["unused_answers"] == 9 - len(end["turns"])
        assert (end["ending"] == "correct") is (end["correct"] is True)
    asks = score_answers(sample, ["zzz"] * 99)
    assert (asks["num_turns"] == SCENARIOS["QD"].limit(sample)) is asks["max_steps"]
    hinted, bare = (score_answers(sample, ["A"], hint)["turns"][0]["prompt"] for hint in (True, False))
    assert hinted.startswith(bare.rstrip()) and len(hinted) > len(bare)
    assert score_answers(sample, ["A", "B"], reference=True)["unused_answers"] == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "is not JSON"), ("[1]", '{"scenario": "ROD"'), (line(scenario=3), "scenario"),
        (line(scenario="XX"), "choose from ROD, "), (line(id=True), "id = True"), (line(id="7"), "id = '7'"),
        (line(answers=["A", 1]), "answers.1 = 1"), (line(hint=1), "hint = 1"), (line(protocol="oeg"), "'mcqa'"),
        (line(answer="A"), "did you mean 'answers'"), (line(id=-1), "QD has no sample with id -1"),
    ],
)  # fmt: skip
def test_refused_line_is_named_with_its_reason(demo_data, text, words):
    with pytest.raises(ReplayError) as refusal:
        list(score_lines(demo_data, ["", text], "a.jsonl"))
    assert str(refusal.value).startswith("a.jsonl, line 2") and words in str(refusal.value)
