"""Cells that may outgrow their model are known before a run, by the rules and a table alone."""

from envs import SCENARIOS
from orchestrator.inspection.overflow import lines, model_facts
from orchestrator.planning.build_plan import build_plan
from sweeps.load import build
from sweeps.spec import ModelSpec

INTERNVL = {"architecture": "InternVLForConditionalGeneration"}


def forecast(data, conditions, condition=(), **entry):
    model = {"name": "m", "source": "nowhere/m", **entry}
    table = {"data": str(data), "model": [model], "conditions": conditions, "condition": list(condition)}
    return lines(build_plan(build(table, "x.toml")))


def test_pictures_are_counted_by_the_turn_limit(demo_data):
    risks = forecast(demo_data, ["zero-shot", "history"], max_images=5)
    assert risks and all("/history: if it asks at every turn, up to" in line and "allows 5" in line for line in risks)
    assert forecast(demo_data, ["history"], max_images=99) == forecast(demo_data, ["zero-shot"], max_images=1) == []
    assert forecast(demo_data, ["history"], backend="builtin", source="builtin:oracle") == []


def test_tokens_are_those_of_the_table_and_only_history_grows(demo_data):
    (line,) = [line for line in forecast(demo_data, ["history"], **INTERNVL) if "m/VSOD/history" in line]
    assert "tokens in a context of 32,768" in line and "max_images" not in line
    short = {"name": "short", "history": True, "history_turns": 1}
    assert forecast(demo_data, ["short"], [short], **INTERNVL) == []
    assert forecast(demo_data, ["history"], **INTERNVL, options={"max_model_len": 1_000_000}) == []
    assert forecast(demo_data, ["history"], **INTERNVL, beyond_context=True) == []


def test_an_unknown_model_is_not_guessed_at_and_missing_pictures_are_not_missed(demo_data, tmp_path):
    assert forecast(demo_data, ["history"], architecture="NewForConditionalGeneration") == []
    model = ModelSpec(name="m", source="nowhere/m", options={"max_model_len": 100})
    assert model_facts(model) == (100, {})
    for name in SCENARIOS.values():
        file = f"{name.stem}_preprocessed.jsonl"
        (tmp_path / file).write_bytes((demo_data / file).read_bytes())
    assert forecast(tmp_path, ["history"], **INTERNVL) == forecast(demo_data, ["history"], **INTERNVL) != []
