"""Dialogues and tool calls replayed without the package: replies are parsed again, and the hint is not the package's."""

import copy

import pytest

from actors.playing.prompts import apply_condition
from envs import SCENARIOS
from orchestrator.audit.audit import STORED
from orchestrator.audit.game_turns import COUNTED, differences, task
from orchestrator.audit.records import Recording
from orchestrator.planning.build_plan import build_plan
from orchestrator.storage.episode_store import episodes, turns
from tests.orchestrator.report.runs import play_sweep, sweep


def recordings_of(wanted, folder):
    plan = build_plan(wanted)
    play_sweep(folder, wanted)
    cells = {cell.key: cell for cell in plan.cells}
    lists = turns(folder).sort("key", "turn").group_by("key").agg(*STORED)
    names = {name: f"n_{name}" for name in ("turns", "correct", *COUNTED)}
    rows = episodes(folder).rename(names).join(lists, on="key").sort("key").collect()
    return [
        Recording(
            row, cells[row["cell"]],
            apply_condition(plan.samples_by_id[row["scenario"]][row["sample_id"]], cells[row["cell"]].condition, plan.seed),
        )
        for row in rows.iter_rows(named=True)
    ]  # fmt: skip


@pytest.fixture(scope="module")
def dialogues(demo_data, tmp_path_factory):
    wanted = sweep(
        demo_data, ["ask-properly", "oracle"], ["zero-shot", "hint"], protocol="oeg-multi", judge={"model": "rule-judge"},
        scenarios=["ROD", "QD"], open_ended={"selection": {"limit": 4}},
    )  # fmt: skip
    return recordings_of(wanted, tmp_path_factory.mktemp("audit") / "talked")


@pytest.fixture(scope="module")
def calls(demo_data, tmp_path_factory):
    wanted = sweep(
        demo_data, ["uniform", "malformed-calls"], ["hint"], protocol="tools", scenarios=["ROD", "QD"],
        selection={"limit": 4},
    )  # fmt: skip
    return recordings_of(wanted, tmp_path_factory.mktemp("audit") / "called")


def honest(recording):
    """Return what a package that plays as we do answers."""
    nothing = {"turns": [], "ending": recording.row["ending"], "raised": ""}
    return {**nothing, "turns": [d.ours for d in differences(recording, nothing) if d.package is None]}


def test_what_was_judged_and_read_is_parsed_alike_again(dialogues, calls):
    for recording in (*dialogues, *calls):
        reference = honest(recording)
        assert not list(differences(recording, reference)) and len(reference["turns"]) == len(recording.row["reply"])
    longest = max(dialogues, key=lambda recording: len(recording.row["reply"]))
    assert len(longest.row["reply"]) > 2


def test_the_package_gets_options_and_no_hint_for_a_dialogue(dialogues, calls):
    hinted = next(each for each in dialogues if each.cell.condition.name == "hint" and len(each.row["reply"]) > 1)
    assert task(hinted)["hint"] is False and task(hinted)["replies"] == hinted.row["read_as"] != hinted.row["reply"]
    plain = SCENARIOS[hinted.sample.scenario].initial(hinted.sample, hinted.cell.condition.mode)
    prompt = SCENARIOS[hinted.sample.scenario].view(hinted.sample, plain, False).prompt
    assert honest(hinted)["turns"][0][2] == prompt
    call = calls[0]
    assert task(call)["hint"] is True and task(call)["replies"] == call.row["read_as"]
    view = SCENARIOS[call.sample.scenario].view(
        call.sample, SCENARIOS[call.sample.scenario].initial(call.sample, call.cell.condition.mode), True
    )
    assert honest(call)["turns"][0][2] == view.prompt


@pytest.mark.parametrize("column", ["judged", "read_as"])
def test_a_changed_reading_is_named_with_its_turn(dialogues, column):
    recording = next(each for each in dialogues if len(each.row["reply"]) > 2)
    row = copy.deepcopy(recording.row)
    row[column][1] = "nonsense"
    found = list(differences(Recording(row, recording.cell, recording.sample), honest(recording)))
    assert found[0].what == "turn 1, read as"
    assert (found[0].stored, found[0].ours) == (
        ("nonsense", recording.row["read_as"][1]) if column == "read_as" else (recording.row["read_as"][1], None)
    )
    assert (len(found) == 1) is (column == "read_as")


def test_a_changed_call_is_another_option(calls):
    recording = next(each for each in calls if each.cell.model.name == "uniform" and each.row["read_as"][0])
    row = copy.deepcopy(recording.row)
    row["reply"][0] = "no call"
    found = next(differences(Recording(row, recording.cell, recording.sample), honest(recording)))
    assert (found.what, found.stored, found.ours) == ("turn 0, read as", recording.row["read_as"][0], "")
