"""Recorded answers are replayed, and a line that cannot be scored is named with its reason."""

import json
from pathlib import Path
from typing import Any

import pytest

from actors.text.printable import UNSAFE
from envs import SCENARIOS
from envs.samples import load_samples
from proactive_bridges.answers import ReplayError, score_answers, score_lines
from tests.orchestrator.cli.test_cli import call
from tests.orchestrator.report.test_hostile_data import hostile_run  # noqa: F401 - a fixture


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
        (line(scenario="XX"), "choose from ROD, "), (line(id=True), "id: "), (line(id="7"), "id: "),
        (line(answers=["A", 1]), "answers.1: "), (line(hint=1), "hint: "), (line(protocol="oeg"), "protocol: "),
        (line(answer="A"), "answer: "), (line(id=-1), "QD has no sample with id -1"),
    ],
)  # fmt: skip
def test_refused_line_is_named_with_its_reason(demo_data, text, words):
    with pytest.raises(ReplayError) as refusal:
        list(score_lines(demo_data, ["", text], "a.jsonl"))
    assert str(refusal.value).startswith("a.jsonl, line 2") and words in str(refusal.value)


def test_transcripts_are_scored_as_json_lines(demo_data: Path, tmp_path: Path) -> None:
    sample = load_samples(demo_data, "ROD")[0]
    ask = next(option for option in sample.options if "left" in option)
    answers: list[dict[str, Any]] = [
        {"answers": [ask, sample.answer, "A"]}, {"reference": True, "hint": True, "answers": ["X"]}, {"answers": [ask]},
        {"answers": ["\ud800 Baum"]},
    ]  # fmt: skip
    path = tmp_path / "answers.jsonl"
    path.write_text("\n\n".join(json.dumps({"scenario": "ROD", "id": sample.id, **line}) for line in answers))
    lines = call("audit", "--data", demo_data, "--answers", path).output.splitlines()
    first, second, unfinished, odd = map(json.loads, lines)

    assert (first["num_turns"], first["correct"], first["unused_answers"], first["max_steps"]) == (2, True, 1, False)
    assert first["turns"][0]["options"] == [*sample.options, *sample.categories]
    assert second["turns"][0]["prompt"].endswith(SCENARIOS["ROD"].hint)
    assert (unfinished["ending"], unfinished["correct"]) == (None, None)
    assert odd["turns"][0]["answer"] == "\ud800 Baum"


def test_a_bad_line_of_a_transcript_is_one_sentence(demo_data: Path, tmp_path: Path) -> None:
    (path := tmp_path / "bad.jsonl").write_text(line(hnit=True))
    outcome = call("audit", "--data", demo_data, "--answers", path)

    assert outcome.exit_code == 2 and "line 1: hnit" in outcome.stderr and outcome.stderr.count("\n") == 1


def test_hostile_questions_are_never_printed_raw(hostile_run: tuple[Path, Path], tmp_path: Path) -> None:  # noqa: F811
    (path := tmp_path / "answers.jsonl").write_text(line(id=load_samples(hostile_run[0], "QD")[0].id))
    output = call("audit", "--answers", path, "--data", hostile_run[0]).output

    assert "Cat <script>" in output and not UNSAFE.search(output)
