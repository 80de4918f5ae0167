"""The command line without a cluster: what it prints, what it refuses, and with which exit code."""

from __future__ import annotations

import json
import re
from contextlib import redirect_stdout
from io import StringIO

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from envs import SCENARIOS
from envs.samples import load_samples
from envs.stimulus import OPEN_ENDED_HINT
from orchestrator.cli.main import app, omit_types
from orchestrator.inspection.replay import as_json
from orchestrator.storage.status import write_status
from sweeps.conditions import CONDITIONS, VARIANTS, Condition
from sweeps.load import build_cell
from tests.orchestrator.report import runs


def call(*args):
    outcome = CliRunner().invoke(app, [str(arg) for arg in args])
    assert outcome.exception is None or isinstance(outcome.exception, SystemExit), outcome.exception
    return outcome


def test_ls_lists_models_scenarios_and_conditions():
    assert "uniform" in call("ls", "models").output
    assert "QuickDraw_preprocessed.jsonl" in call("ls", "scenarios").output
    assert "random-proactive" in call("ls", "conditions").output
    assert call("ls", "planets").exit_code == 2


def run_quietly(program, *arguments):
    """Return what a command prints."""
    with redirect_stdout(StringIO()) as output, pytest.raises(SystemExit):
        program(list(arguments))
    return output.getvalue()


def test_help_shows_types_of_options_with_a_value_alone():
    program = get_command(app)
    omit_types(program)
    for name in ("report", "data", "prompt"):
        text = run_quietly(program, name, "--help")

        assert "--help" in text and "<bool>" not in text and "<list" not in text
    assert "<int range>" in text


def test_new_condition_is_listed_and_played_without_further_change(monkeypatch):
    added = Condition(name="hint-history", description="ablation: hint and history", hint=True, history=True)
    monkeypatch.setitem(VARIANTS, added.name, added)
    row = next(line for line in call("ls", "conditions").output.splitlines() if "hint-history" in line)

    assert "ablation: hint and history" in row and "all" in row
    cell = build_cell("QD", "hint-history")
    assert cell.condition is added
    assert all(condition.description for condition in {**CONDITIONS, **VARIANTS}.values())


def test_a_description_is_no_part_of_a_key_and_is_not_stored():
    plain, described = Condition(name="c", hint=True), Condition(name="c", hint=True, description="anything")

    assert plain == described and hash(plain) == hash(described) and plain != Condition(name="c")
    assert plain.identity == described.identity and plain.model_dump() == described.model_dump()


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        (("report", ""), "the name of the run folder is empty"),
        (("judge", ""), "the name of the run folder is empty"),
        (("status", "README.md"), "README.md is a file, not a run folder; name a folder"),
        (
            ("prompt", "COCO", "4000", "--data", "{data}"),
            "no sample with id 4000; the nearest id is 43, and ids run from 0 to 43",
        ),
        (("run", "sweeps/baselines.toml", "--output", ""), "--output is empty"),
        (("plan", "sweeps/baselines.toml", "--price", "3"), "require --gpus N"),
        (("plan", "sweeps/baselines.toml", "--gpu-type", "abacus"), "require --gpus N"),
        (("report", "{run}", "--data", "nowhere"), "--data nowhere is not a folder"),
        (("audit", "{run}", "--data", "nowhere"), "--data nowhere is not a folder"),
        (("judge", "{run}", "--set", "instruction=paper"), "proactivebench"),
    ],
)
def test_unusable_command_is_one_sentence(command, sentence, demo_data, tmp_path):
    run = runs.play_sweep(tmp_path / "run", runs.sweep(demo_data, ["refuse"], ["hint"], protocol="oeg"))
    outcome = call(*(part.format(run=run, data=demo_data) for part in command))

    assert outcome.exit_code == 2 and sentence in outcome.output


def test_unwritable_report_and_missing_results_are_reported(demo_data, tmp_path):
    run = runs.play_sweep(tmp_path / "run", runs.sweep(demo_data, ["uniform"], ["hint"], selection={"limit": 2}))
    (run / "results.parquet").unlink()
    brief = call("report", run, "--brief")
    assert brief.exit_code == 3 and "uniform" in brief.output, "the episodes are enough"
    assert "results.parquet is missing" in brief.stderr

    (run / "tables").write_text("mine")
    outcome = call("report", run)
    assert outcome.exit_code == 2 and "cannot be written" in outcome.output and "copy it" in outcome.output


def test_status_shows_brackets_as_they_are(demo_data, tmp_path):
    run = runs.play_sweep(tmp_path / "run", runs.sweep(demo_data, ["uniform"], ["hint"], selection={"limit": 2}))
    reason = "pip install 'proactive-sweep[openai]'"
    cell = {"cell": "m/QD/hint", "planned": 2, "finished": 0, "errors": 0, "state": "partial", "reason": reason}
    write_status(run, [cell], finished=True)

    assert reason.replace(" ", "") in "".join(call("status", run).output.split())


def test_ls_names_its_kinds_for_unknown_kind():
    assert (
        "type models, judges, scenarios, conditions, measures, sweeps, differences or columns"
        in call("ls", "planets").stderr
    )


def test_plan_counts_cells_and_episodes(demo_data, tmp_path):
    outcome = call("plan", "sweeps/baselines.toml", "--set", f"data={demo_data}", "--output", tmp_path / "none")

    assert outcome.exit_code == 0
    assert "168 cells, 1,680 episodes, 0 done" in outcome.output


def test_plan_and_status_begin_with_a_summary_and_list_cells_on_request(demo_data, tmp_path):
    command = ("plan", "sweeps/baselines.toml", "--set", f"data={demo_data}", "--output", tmp_path / "none")
    summary, every = call(*command).output, call(*command, "--cells").output
    assert summary.startswith("168 cells, 1,680 episodes, 0 done") and "oracle/ROD/hint" not in summary
    assert re.search(r"oracle +28 +280 +0", summary) and "oracle/ROD/hint" in every

    run = runs.play_sweep(tmp_path / "run", runs.sweep(demo_data, ["uniform"], ["hint"], selection={"limit": 2}))
    assert "7 cells: 7 complete (--cells lists them)" in call("status", run).output
    assert (
        "uniform/ROD/hint" not in call("status", run).output
        and "uniform/ROD/hint" in call("status", run, "--cells").output
    )


def test_status_lists_the_first_cells_with_a_reason(demo_data, tmp_path):
    run = runs.play_sweep(tmp_path / "run", runs.sweep(demo_data, ["uniform"], ["hint"], selection={"limit": 2}))
    cell = {"planned": 2, "finished": 0, "errors": 0, "state": "partial", "reason": "its GPU left"}
    write_status(run, [{**cell, "cell": f"m/QD/hint-{number}"} for number in range(12)], finished=True)
    output = call("status", run).output

    assert "12 cells: 12 partial" in output and "m/QD/hint-9: partial, its GPU left" in output
    assert "m/QD/hint-10" not in output and "and 2 more cells with a reason (--cells lists them)" in output


@pytest.mark.parametrize("value", ["a,b", "[a, b]", "['a', b]"])
def test_a_list_without_quotes_gets_the_command_to_type(value):
    outcome = call("plan", "sweeps/baselines.toml", "--set", f"models={value}")

    assert outcome.exit_code == 2 and """type --set 'models=["a", "b"]'""" in outcome.stderr


def test_a_missing_data_folder_gets_the_nearest_name(tmp_path):
    (tmp_path / "demo-data").mkdir()
    outcome = call("plan", "sweeps/baselines.toml", "--set", f"data={tmp_path / 'demo-dat'}")

    assert outcome.exit_code == 2 and f"did you mean '{tmp_path / 'demo-data'}'?" in outcome.stderr


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


def test_unfinished_episode_is_neither_right_nor_wrong(demo_data, tmp_path):
    sample = load_samples(demo_data, "ROD")[0]
    ask = next(option for option in sample.options if "left" in option)
    path = tmp_path / "answers.jsonl"
    lines = [
        {"scenario": "ROD", "id": sample.id, "answers": answers} for answers in ([], [ask], [ask, sample.answer], ["?"])
    ]
    path.write_text("\n".join(map(json.dumps, lines)))
    rows = [json.loads(line) for line in call("audit", "--data", demo_data, "--answers", path).output.splitlines()]

    assert [(line["num_turns"], line["ending"], line["correct"]) for line in rows] == [
        (0, None, None), (1, None, None), (2, "correct", True), (1, "wrong", False),
    ]  # fmt: skip


def test_lone_surrogate_survives_audit(demo_data, tmp_path):
    path = tmp_path / "answers.jsonl"
    path.write_text(r'{"scenario": "ROD", "id": 0, "answers": ["\ud800 Baum"], "protocol": "mcqa"}')
    outcome = call("audit", "--data", demo_data, "--answers", path)

    assert outcome.exit_code == 0
    assert json.loads(outcome.output)["turns"][0]["answer"] == "\ud800 Baum"


def test_a_line_stays_readable_where_the_output_can_hold_it():
    assert as_json({"answer": "Bäume"}) == '{"answer": "Bäume"}'
    assert as_json({"answer": "Bäume"}, "ascii") == r'{"answer": "B\u00e4ume"}'


def test_crop_is_reported_in_floats(demo_data, tmp_path):
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
    outcome = call("audit", "--data", demo_data, "--answers", path)

    assert outcome.exit_code == 2
    assert sentence in outcome.stderr


@pytest.mark.parametrize(
    "args",
    [
        ("plan", "none.toml"), ("run", "sweeps/baselines.toml", "--set", "data=nowhere"), ("report", "nowhere"),
        ("status", "nowhere"), ("track", "nowhere"), ("audit", "--answers", "none.jsonl", "--data", "nowhere"),
        ("data", "check", "nowhere"), ("data", "demo", "x", "--samples", "0"), ("prompt", "QD", "1", "--data", "nowhere"),
        ("prompt", "QD", "1", "--condition", "icl-1"), ("prompt", "QD", "1", "--protocol", "oeg", "--condition", "history"),
        ("prompt", "QD", "1", "--judge", "rule-judge"), ("prompt", "QD", "1", "--protocol", "oeg", "--turn", "1"),
        ("prompt", "QD", "1", "--protocol", "oeg", "--answer", "More strokes."),
        ("prompt", "QD", "1", "--protocol", "oeg", "--judge", "nobody"),
    ],
)  # fmt: skip
def test_user_mistake_is_one_sentence_with_exit_code_2(args):
    outcome = call(*args)

    assert outcome.exit_code == 2
    assert outcome.stderr.startswith("proactive-sweep: ") and outcome.stderr.count("\n") == 1, outcome.stderr


@pytest.mark.parametrize("command", [("data", "fetch"), ("data", "demo")])
@pytest.mark.parametrize("below", ["", "deeper/still"])
def test_data_command_refuses_path_of_a_file(command, below, tmp_path):
    file = tmp_path / "notes"
    file.write_text("mine")
    outcome = call(*command, file / below)

    assert outcome.exit_code == 2
    assert outcome.stderr.startswith(f"proactive-sweep: {file}") and outcome.stderr.count("\n") == 1
    assert "name a" in outcome.stderr and file.read_text() == "mine"


def test_prompt_shows_the_open_question_and_what_a_judge_is_sent(demo_data):
    asks = ("prompt", "ROD", 0, "--data", demo_data, "--protocol", "oeg", "--condition", "hint")
    question = call(*asks).output
    sent = call(*asks, "--judge", "rule-judge", "--answer", "<think>hm</think>Move the blocks. 1,1,1").output

    assert question.startswith("[user]\n<picture ") and "A. " not in question
    assert OPEN_ENDED_HINT.strip() in question and OPEN_ENDED_HINT.strip() in sent
    fence = re.search("=== [0-9a-f]{24} ===", sent).group()
    assert f"{fence}\nMove the blocks. 1,1,1\n{fence}" in sent and "<picture" not in sent


def test_data_demo_and_check(tmp_path):
    assert "QD 1" in call("data", "demo", tmp_path / "d", "--samples", 7).output
    assert call("data", "check", tmp_path / "d", "--deep").exit_code == 0
    next((tmp_path / "d" / "QuickDraw").rglob("*.*")).unlink()
    broken = call("data", "check", tmp_path / "d")
    assert broken.exit_code == 1
    assert "is not there" in broken.output and "1 problem\n" in broken.output


def test_non_text_folder_name_is_one_sentence(tmp_path):
    done = call("report", tmp_path, "--data", "\udc80")

    assert done.exit_code == 2 and "is not a folder" in done.stderr and "\udc80" not in done.stderr
