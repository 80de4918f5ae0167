"""What is planned for the trial of a model, and the row that judges it; no engine runs here."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from actors.trial.certificate import Certificate, CertifiedRequest
from envs.samples import BadData
from orchestrator.execution.trial import judge_trial
from orchestrator.inspection.model_try import models, trial_sweep
from orchestrator.planning.build_plan import build_plan
from sweeps.load import SweepError
from sweeps.spec import ModelSpec, Protocol, Selection

MODEL = ModelSpec(name="mine", source="nowhere/mine", backend="transformers", gpus=0)


def test_a_row_has_the_first_fault() -> None:
    request = CertifiedRequest(sample=1, engine={"input_ids": "a"}, package={"input_ids": "b"})
    unequal = Certificate(source="s", backend="transformers", requests={"QD/hint": request})
    equal = unequal.model_copy(update={"requests": {"QD/hint": request.model_copy(update={"engine": request.package})}})
    played = pl.DataFrame({"ending": ["correct", "overflow", "failed"], "error": [None, "no room", "gone"]})

    assert judge_trial(MODEL, played[:1], equal).cells == ("mine", "0 of 1", "equal", "nothing")
    assert judge_trial(MODEL, played, equal).cells == ("mine", "2 of 3", "equal", "no room")
    assert judge_trial(MODEL, played, unequal).wrong.startswith("1 of 1 request differ")
    assert judge_trial(MODEL, played[:0], None, "it broke").cells == ("mine", "0 of 0", "-", "it broke")
    assert judge_trial(MODEL, played[:0], None).wrong == "there is no episode for it"


def test_two_samples_of_each_scenario_and_condition_are_planned(demo_data: Path, tmp_path: Path) -> None:
    plan = build_plan(trial_sweep([MODEL], None, demo_data))
    assert plan.total == 2 * 7 * 3 and {c.condition.name for c in plan.cells} == {"zero-shot", "hint", "history"}
    blind = MODEL.model_copy(update={"limits": ("no pictures",)})
    assert {c.condition.name for c in build_plan(trial_sweep([blind], None, demo_data)).cells} == {"text-only"}
    file = tmp_path / "s.toml"
    file.write_text(
        'data = "nowhere"\nmodels = ["oracle"]\nprotocol = ["mcqa", "oeg"]\nscenarios = ["QD"]\nconditions = ["hint"]\n'
        '[judge]\nmodel = "rule-judge"\n[selection]\nfiltered = false\n'
    )
    tried = trial_sweep([MODEL], file, demo_data)
    assert tried.judge is None and tried.models == (MODEL,) and tried.data == str(demo_data)
    assert tried.selection == Selection(limit=2, filtered=False) and tried.tracking.uri == "none"
    assert tried.protocols == (Protocol.MCQA, Protocol.OEG) and build_plan(tried).total == 4
    with pytest.raises(BadData, match="has no benchmark; type --data DIR"):
        trial_sweep([MODEL], None, tmp_path)


def test_models_are_named_and_services_of_a_sweep_are_left_out(tmp_path: Path) -> None:
    sweep = tmp_path / "mine.toml"
    sweep.write_text('name = "mine"\ndata = "data"\nmodels = ["qwen2.5-vl-7b", "gpt-4.1"]\nconditions = "hint"\n')
    assert [model.name for model in models([], sweep)] == ["qwen2.5-vl-7b"]
    assert [model.name for model in models([], sweep, services=True)] == ["qwen2.5-vl-7b", "gpt-4.1"]
    assert [model.name for model in models(["gpt-4.1"], None)] == ["gpt-4.1"]
    with pytest.raises(SweepError, match="name models, folders of checkpoints or a sweep"):
        models([], None)
