"""Episodes that outgrow their model are known before a run: by picture limits, contexts, and the pictures' own sizes."""

import shutil
from pathlib import Path

import pytest
from PIL import Image

from envs import SCENARIOS
from orchestrator.inspection.overflow import SIZES, Risk, bounds, lines, risks
from orchestrator.planning.build_plan import build_plan
from sweeps.load import build
from sweeps.registry import registry

EMBEDDED = Path(__file__).parents[3] / "actors/embedded"
INTERNVL = {"architecture": "InternVLForConditionalGeneration"}


def plan_of(data, conditions, **entry):
    model = {"name": "m", "source": "nowhere/m", **entry}
    return build_plan(build({"data": str(data), "model": [model], "conditions": conditions}, "x.toml"))


def forecast(data, conditions, **entry):
    return {risk.cell: risk for risk in risks(plan_of(data, conditions, **entry), Path(data))}


def test_pictures_are_counted_by_the_turn_limit(demo_data):
    plan = plan_of(demo_data, ["zero-shot", "history"], max_images=5)
    risk_by_cell = {risk.cell: risk for risk in risks(plan, demo_data)}

    assert risk_by_cell and all(
        "history" in cell and "the entry allows 5 (max_images)" in risk.reason for cell, risk in risk_by_cell.items()
    )
    for name, samples in plan.samples.items():
        longer = sum(SCENARIOS[name].limit(sample) > 5 for sample in samples)
        cell = risk_by_cell.get(f"m/{name}/history")
        assert (cell.episodes, cell.first) == (longer, 0) if longer else cell is None


def test_tokens_are_those_of_the_table_where_no_processor_is_at_hand(demo_data):
    risk_by_cell = forecast(demo_data, ["history"], **INTERNVL)["m/VSOD/history"]
    limits = [SCENARIOS["VSOD"].limit(sample) for sample in plan_of(demo_data, ["history"]).samples["VSOD"]]

    assert (
        sum(limit * 3600 > 32768 for limit in limits)
        >= risk_by_cell.episodes
        >= sum(limit * 3330 > 32768 for limit in limits)
        > 0
    )
    assert risk_by_cell.first == 0 and "(by table) in a context of 32,768" in risk_by_cell.reason
    assert forecast(demo_data, ["history"], **INTERNVL, options={"max_model_len": 1_000_000}) == {}
    assert forecast(demo_data, ["history"], **INTERNVL, beyond_context=True) == {}


def test_a_condition_that_recalls_few_turns_grows_no_further(demo_data):
    short = {"name": "short", "history": True, "history_turns": 2}
    table = {"data": str(demo_data), "model": [{"name": "m", "source": "nowhere/m", **INTERNVL}], "condition": [short]}

    assert risks(build_plan(build(table, "x.toml")), demo_data) == []


def test_pictures_count_with_their_own_sizes(demo_data, tmp_path):
    """Examples of MVP-N show their pictures in their own size: small ones fit, those of a camera do not at the first turn."""
    entry = {"architecture": "Qwen2_5_VLForConditionalGeneration", "options": {"max_model_len": 8192}}
    assert forecast(demo_data, ["icl-3"], **entry) == {}
    data = shutil.copytree(demo_data, tmp_path / "data")
    for path in (data / "MVP-N").rglob("*.*"):
        if path.suffix in (".png", ".jpg"):
            Image.new("RGB", (1280, 960)).save(path)
    found = forecast(data, ["icl-3"], **entry)["m/MVP-N/icl-3"]

    assert found.first == found.episodes == found.planned > 0
    assert f"{found.planned} of {found.planned} episodes (100%) at turn 0" in str(found)


def test_unknown_model_is_not_guessed_at(demo_data):
    assert forecast(demo_data, ["zero-shot", "history"]) == {}
    assert forecast(demo_data, ["zero-shot", "history"], options={"max_model_len": 64}) == {}


def test_data_that_are_elsewhere_count_as_common_pictures(demo_data, tmp_path):
    plan = plan_of(demo_data, ["history"], **INTERNVL)

    assert {risk.cell for risk in risks(plan, tmp_path / "absent")} >= {"m/VSOD/history"}


def test_a_processor_on_disk_is_asked(demo_data):
    pytest.importorskip("torch", reason="the extra `transformers` is not installed")
    entry = registry()["embedded"].model_copy(update={"source": str(EMBEDDED)})
    limits = bounds(entry)

    assert (limits.source, limits.picture_tokens([SIZES["small"], SIZES["full"]])) == ("processor", [19, 19])
    assert 0.1 < limits.tokens_per_character() < 1
    assert bounds(entry, by_processor=False).source == "table"


def test_the_first_risks_are_named_and_the_others_counted(demo_data):
    all_risks = risks(plan_of(demo_data, ["history"], max_images=2), demo_data)

    messages = lines(all_risks, limit=3)
    assert len(messages) == 4 and messages[-1] == f"may overflow: {len(all_risks) - 3} more cells"
    assert lines(all_risks, limit=len(all_risks)) == lines(all_risks, limit=99)


def test_a_risk_says_when_and_how_many():
    risk = Risk("m/ROD/history", first=2, episodes=5, planned=8, reason="up to 9 pictures")

    assert str(risk) == (
        "m/ROD/history: 2 of 8 episodes (25%) at turn 0 and 3 of 8 episodes (38%) at a later turn if they ask on, "
        "up to 9 pictures"
    )
