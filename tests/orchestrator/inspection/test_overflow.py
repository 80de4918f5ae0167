"""Which episodes may outgrow their model is an upper bound: counted by picture limits, contexts and the longest episode."""

from pathlib import Path

import pytest

from envs import SCENARIOS
from orchestrator.inspection.overflow import TURN_TOKENS, bounds, lines, risks
from orchestrator.planning.build_plan import build_plan
from sweeps.load import build
from sweeps.registry import registry

EMBEDDED = Path(__file__).parents[3] / "actors/embedded"


def plan_of(data, conditions, **entry):
    model = {"name": "m", "source": "nowhere/m", **entry}
    return build_plan(build({"data": str(data), "model": [model], "conditions": conditions}, "x.toml"))


def test_pictures_are_counted_by_the_turn_limit(demo_data):
    plan = plan_of(demo_data, ["zero-shot", "history"], max_images=5)
    found = {risk.cell: risk for risk in risks(plan)}

    assert found and all(
        "history" in cell and "the entry allows 5 (max_images)" in risk.reason for cell, risk in found.items()
    )
    for name, samples in plan.samples.items():
        longer = sum(SCENARIOS[name].limit(sample) > 5 for sample in samples)
        assert (found[f"m/{name}/history"].episodes if longer else 0) == longer


def test_tokens_are_those_of_the_table_where_no_processor_is_at_hand(demo_data):
    entry = {"architecture": "InternVLForConditionalGeneration"}
    found = {risk.cell: risk for risk in risks(plan_of(demo_data, ["history"], **entry))}
    plan = plan_of(demo_data, ["history"], **entry)
    limits = [SCENARIOS["VSOD"].limit(sample) for sample in plan.samples["VSOD"]]
    needed = max(limits) * (3330 + TURN_TOKENS) + 50

    assert found["m/VSOD/history"].episodes == sum(limit * (3330 + TURN_TOKENS) + 50 > 32768 for limit in limits) > 0
    assert (
        f"about {needed:,} tokens (3,330 per picture, by table) in a context of 32,768"
        in found["m/VSOD/history"].reason
    )
    roomy = entry | {"options": {"max_model_len": 1_000_000}}
    assert risks(plan_of(demo_data, ["history"], **roomy)) == []
    assert risks(plan_of(demo_data, ["history"], **entry, beyond_context=True)) == []


def test_a_model_of_which_nothing_is_known_is_not_guessed_at(demo_data):
    assert risks(plan_of(demo_data, ["zero-shot", "history"])) == []


def test_a_processor_on_disk_is_asked(demo_data):
    pytest.importorskip("torch", reason="the extra `transformers` is not installed")
    found = bounds(registry()["embedded"].model_copy(update={"source": str(EMBEDDED)}))

    assert (found.source, found.small, found.full) == ("processor", 19, 19)  # 16 and the marks around them


def test_the_first_risks_are_named_and_the_others_counted(demo_data):
    found = risks(plan_of(demo_data, ["history"], max_images=2))

    told = lines(found, limit=3)
    assert len(told) == 4 and told[-1] == f"may overflow: {len(found) - 3} more cells"
    assert lines(found, limit=len(found)) == lines(found, limit=99)
