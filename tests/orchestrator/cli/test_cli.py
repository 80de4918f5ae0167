"""The command line without a cluster: what it prints, what it refuses, and with which exit code."""

from __future__ import annotations

import json
import re

import pytest
from typer.testing import CliRunner

from envs import SCENARIOS
from envs.samples import load_samples
from envs.stimulus import OPEN_ENDED_HINT
from orchestrator.cli.main import app
from orchestrator.inspection.replay import as_json
from orchestrator.storage.status import write_status
from sweeps.conditions import CONDITIONS, VARIANTS, Condition
from sweeps.load import build_cell
from tests.orchestrator.report import runs


def call(*args):
    result = CliRunner().invoke(app, [str(arg) for arg in args])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def test_ls_lists_models_scenarios_and_conditions():
    assert "uniform" in call("ls", "models").output
    assert "QuickDraw_preprocessed.jsonl" in call("ls", "scenarios").output
    assert "random-proactive" in call("ls", "conditions").output
    assert call("ls", "planets").exit_code == 2


def test_a_condition_added_to_the_registry_is_listed_and_played_without_a_second_place(monkeypatch):
    added = Condition(name="hint-history", description="ablation: hint and history", hint=True, history=True)
    monkeypatch.setitem(VARIANTS, added.name, added)
    row = next(line for line in call("ls", "conditions").output.splitlines() if "hint-history" in line)

    assert "ablation: hint and history" in row and "all" in row
    cell = build_cell("QD", "hint-history")
    assert cell.condition is added
    assert all(condition.description for condition in {**CONDITIONS, **VARIANTS}.values())


def test_a_description_is_no_part_of_a_key_and_is_not_stored():
    plain, told = Condition(name="c", hint=True), Condition(name="c", hint=True, description="anything")

    assert plain == told and hash(plain) == hash(told) and plain != Condition(name="c")
    assert plain.identity == told.identity and plain.model_dump() == told.model_dump()


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("report", ""), "the name of the run folder is empty"),
        (("judge", ""), "the name of the run folder is empty"),
        (("run", "sweeps/baselines.toml", "--output", ""), "--output is empty"),
        (("plan", "sweeps/baselines.toml", "--price", "3"), "require --gpus N"),
        (("plan", "sweeps/baselines.toml", "--gpu-type", "abacus"), "require --gpus N"),
        (("report", "{run}", "--data", "nowhere"), "--data nowhere is not a folder"),
        (("audit", "{run}", "--data", "nowhere"), "--data nowhere is not a folder"),
        (("judge", "{run}", "--set", "instruction=paper"), "proactivebench"),
    ],
)
def test_what_cannot_be_meant_is_a_sentence(command, said, demo_data, tmp_path):
    run = runs.played(tmp_path / "run", runs.sweep(demo_data, ["refuse"], ["hint"], protocol="oeg"))
    found = call(*(part.format(run=run) for part in command))

    assert found.exit_code == 2 and said in found.output


def test_a_report_that_cannot_be_written_and_a_run_without_results_are_told(demo_data, tmp_path):
    run = runs.played(tmp_path / "run", runs.sweep(demo_data, ["uniform"], ["hint"], selection={"limit": 2}))
    (run / "results.parquet").unlink()
    brief = call("report", run, "--brief")
    assert brief.exit_code == 0 and "uniform" in brief.output, "the episodes are enough"

    (run / "tables").write_text("mine")
    found = call("report", run)
    assert found.exit_code == 2 and "cannot be written" in found.output and "copy it" in found.output


def test_status_shows_brackets_as_they_are(demo_data, tmp_path):
    run = runs.played(tmp_path / "run", runs.sweep(demo_data, ["uniform"], ["hint"], selection={"limit": 2}))
    reason = "pip install 'proactive-sweep[openai]'"
    cell = {"cell": "m/QD/hint", "planned": 2, "finished": 0, "errors": 0, "state": "partial", "reason": reason}
    write_status(run, [cell], finished=True)

    assert reason.replace(" ", "") in "".join(call("status", run).output.split())


def test_ls_names_all_that_it_can_list_when_asked_for_something_else():
    assert "type models, judges, scenarios, conditions, measures or sweeps" in call("ls", "planets").stderr


def test_plan_counts_cells_and_episodes(demo_data, tmp_path):
    found = call("plan", "sweeps/baselines.toml", "--set", f"data={demo_data}", "--output", tmp_path / "none")

    assert found.exit_code == 0
    assert "168 cells, 1,680 episodes, 0 done" in found.output


def test_replay_scores_transcripts_as_json_lines(demo_data, tmp_path):
    sample = load_samples(demo_data, "ROD")[0]
    ask = next(option for option in sample.options if "left" in option)
    path = tmp_path / "answers.jsonl"
    path.write_text(
        json.dumps({"scenario": "ROD", "id": sample.id, "answers": [ask, sample.answer, "A"]})
        + "\n\n"
        + json.dumps(
            {
                "scenario": "Realistic-Occlusion-Dataset",
                "id": sample.id,
                "reference": True,
                "hint": True,
                "answers": ["X"],
            }
        )
    )
    first, second = map(json.loads, call("audit", "--data", demo_data, "--answers", path).output.splitlines())

    assert (first["num_turns"], first["correct"], first["unused_answers"], first["max_steps"]) == (2, True, 1, False)
    assert [turn["action"] for turn in first["turns"]] == ["correct", "mismatch"]
    assert [turn["category"] for turn in first["turns"]] == ["mismatch", "correct"]
    assert first["turns"][0]["image"] == sample.image.format(image=sample.first_frame)
    assert first["turns"][0]["op"] is None
    assert first["turns"][0]["options"] == [*sample.options, *sample.categories]
    assert second["turns"][0]["options"] == list(sample.categories)
    assert second["turns"][0]["prompt"].endswith(SCENARIOS["ROD"].hint)


def test_an_episode_that_the_answers_do_not_end_is_neither_right_nor_wrong(demo_data, tmp_path):
    sample = load_samples(demo_data, "ROD")[0]
    ask = next(option for option in sample.options if "left" in option)
    path = tmp_path / "answers.jsonl"
    lines = [
        {"scenario": "ROD", "id": sample.id, "answers": answers} for answers in ([], [ask], [ask, sample.answer], ["?"])
    ]
    path.write_text("\n".join(map(json.dumps, lines)))
    found = [json.loads(line) for line in call("audit", "--data", demo_data, "--answers", path).output.splitlines()]

    assert [(line["num_turns"], line["ending"], line["correct"]) for line in found] == [
        (0, None, None), (1, None, None), (2, "correct", True), (1, "wrong", False),
    ]  # fmt: skip


def test_half_a_character_in_an_answer_comes_out_as_it_went_in(demo_data, tmp_path):
    path = tmp_path / "answers.jsonl"
    path.write_text(r'{"scenario": "ROD", "id": 0, "answers": ["\ud800 Baum"], "protocol": "mcqa"}')
    found = call("audit", "--data", demo_data, "--answers", path)

    assert found.exit_code == 0
    assert json.loads(found.output)["turns"][0]["answer"] == "\ud800 Baum"


def test_a_line_stays_readable_where_the_output_can_hold_it():
    assert as_json({"answer": "Bäume"}) == '{"answer": "Bäume"}'
    assert as_json({"answer": "Bäume"}, "ascii") == r'{"answer": "B\u00e4ume"}'


def test_a_crop_is_told_in_floats(demo_data, tmp_path):
    sample = load_samples(demo_data, "COCO")[0]
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"scenario": "COCO", "id": sample.id, "answers": ["?"]}))
    op = json.loads(call("audit", "--data", demo_data, "--answers", path).output)["turns"][0]["op"]

    assert op[0] == "crop" and len(op) == 5 and all(isinstance(edge, float) for edge in op[1:])


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("{", "line 1 is not JSON"),
        ("[]", "line 1 must be an object"),
        ('{"scenario": "XX", "id": 1, "answers": []}', "scenario 'XX' is none of"),
        ('{"scenario": "QD", "id": "1", "answers": []}', "id must be a whole number"),
        ('{"scenario": "QD", "id": 99999, "answers": []}', "QD has no sample with id 99999"),
        ('{"scenario": "QD", "id": 1, "answers": "A"}', "answers must be a list"),
        ('{"scenario": "QD", "id": 1, "answers": [], "hint": "yes"}', "hint must be true or false"),
        ('{"scenario": "QD", "id": true, "answers": []}', "line 1: id must be a whole number, not true"),
        ('{"scenario": ["QD"], "id": 1, "answers": []}', "line 1: scenario ['QD'] is none of"),
        (
            '{"scenario": "QD", "id": 1, "answers": [], "hnit": true}',
            "line 1: unknown key 'hnit'; did you mean 'hint'?",
        ),
        (
            '{"scenario": "QD", "id": 1, "answers": [], "x": 1}',
            "line 1: unknown key 'x'; a line has the keys scenario, id,",
        ),
        ('{"scenario": "QD", "id": 1, "answers": [], "protocol": "oeg"}', "line 1: protocol 'oeg' cannot be replayed"),
    ],
)
def test_a_bad_line_of_a_transcript_is_one_sentence(line, sentence, demo_data, tmp_path):
    path = tmp_path / "bad.jsonl"
    path.write_text(line)
    found = call("audit", "--data", demo_data, "--answers", path)

    assert found.exit_code == 2
    assert sentence in found.stderr


@pytest.mark.parametrize(
    "args",
    [
        ("plan", "none.toml"), ("run", "sweeps/demo.toml", "--set", "data=nowhere"), ("report", "nowhere"),
        ("status", "nowhere"), ("track", "nowhere"), ("audit", "--answers", "none.jsonl", "--data", "nowhere"),
        ("data", "check", "nowhere"), ("data", "demo", "x", "--samples", "0"), ("prompt", "QD", "1", "--data", "nowhere"),
        ("prompt", "QD", "1", "--condition", "icl-1"), ("prompt", "QD", "1", "--protocol", "oeg", "--condition", "history"),
        ("prompt", "QD", "1", "--judge", "rule-judge"), ("prompt", "QD", "1", "--protocol", "oeg", "--turn", "1"),
        ("prompt", "QD", "1", "--protocol", "oeg", "--answer", "More strokes."),
        ("prompt", "QD", "1", "--protocol", "oeg", "--judge", "nobody"),
    ],
)  # fmt: skip
def test_a_users_mistake_is_one_sentence_and_exit_code_2(args):
    found = call(*args)

    assert found.exit_code == 2
    assert found.stderr.startswith("proactive-sweep: ") and found.stderr.count("\n") == 1, found.stderr


@pytest.mark.parametrize("command", [("data", "fetch"), ("data", "demo")])
@pytest.mark.parametrize("below", ["", "deeper/still"])
def test_data_does_not_go_where_a_file_is(command, below, tmp_path):
    file = tmp_path / "notes"
    file.write_text("mine")
    found = call(*command, file / below)

    assert found.exit_code == 2
    assert found.stderr.startswith(f"proactive-sweep: {file}") and found.stderr.count("\n") == 1
    assert "name a" in found.stderr and file.read_text() == "mine"


def test_prompt_shows_the_open_question_and_what_a_judge_is_sent(demo_data):
    asks = ("prompt", "ROD", 0, "--data", demo_data, "--protocol", "oeg", "--condition", "hint")
    asked = call(*asks).output
    sent = call(*asks, "--judge", "rule-judge", "--answer", "<think>hm</think>Move the blocks. 1,1,1").output

    assert asked.startswith("[user]\n<picture ") and "A. " not in asked
    assert OPEN_ENDED_HINT.strip() in asked and OPEN_ENDED_HINT.strip() in sent
    fence = re.search("=== [0-9a-f]{24} ===", sent).group()
    assert f"{fence}\nMove the blocks. 1,1,1\n{fence}" in sent and "<picture" not in sent


def test_data_demo_and_check(tmp_path):
    assert "QD 1" in call("data", "demo", tmp_path / "d", "--samples", 7).output
    assert call("data", "check", tmp_path / "d", "--deep").exit_code == 0
    next((tmp_path / "d" / "QuickDraw").rglob("*.*")).unlink()
    broken = call("data", "check", tmp_path / "d")
    assert broken.exit_code == 1
    assert "is not there" in broken.output and "1 problems" in broken.output


def test_a_data_folder_whose_name_is_no_text_is_one_sentence(tmp_path):
    done = call("report", tmp_path, "--data", "\udc80")

    assert done.exit_code == 2 and "is not a folder" in done.stderr and "\udc80" not in done.stderr
