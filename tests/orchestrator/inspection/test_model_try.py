"""What is planned for the trial of a model, and the row and the proof that judge it; no engine runs here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from actors.trial.certificate import Certificate, CertifiedRequest
from actors.trial.trial import TrialReport
from envs.samples import BadData
from orchestrator.inspection.model_try import Row, models, plan_trial, trial_row
from sweeps.load import SweepError
from sweeps.spec import ModelSpec, Protocol

MODEL = ModelSpec(name="mine", source="nowhere/mine", backend="transformers", gpus=0)


def trial_report(same: bool = True, endings: Mapping[str, int] | None = None, **fields: object) -> TrialReport:
    request = CertifiedRequest(sample=1, engine={"input_ids": "a"}, package={"input_ids": "a" if same else "b"})
    certificate = Certificate(source="s", backend="transformers", requests={"QD/hint": request})
    known = {"reason": "", "certificate": certificate, **fields}
    return TrialReport(seconds=4.0, endings=dict(endings or {"correct": 8}), **known)  # type: ignore[arg-type]


def test_a_row_has_what_was_measured_and_the_first_fault() -> None:
    row = trial_row(MODEL, 61.2, trial_report())
    assert row.rate == 2.0
    assert row.cells == ("mine", "61.2", "2.00", "0 of 8", "equal", "nothing")
    assert trial_row(MODEL, 1.0, trial_report(same=False)).wrong.startswith("1 of 1 request differ")
    endings = {"correct": 3, "unprocessable": 1, "overflow": 2, "refused": 4, "failed": 8}
    row = trial_row(MODEL, 1.0, trial_report(endings=endings, reason="no room"))
    assert row.cells[2:] == ("4.50", "7 of 18", "equal", "no room")
    assert Row("m", wrong="it broke").cells == ("m", "-", "-", "0 of 0", "-", "it broke")


def test_two_samples_of_each_scenario_and_condition_are_planned(demo_data: Path, tmp_path: Path) -> None:
    _, plan = plan_trial(MODEL, None, demo_data)
    assert plan.total == 2 * 7 * 3 and {c.condition.name for c in plan.cells} == {"zero-shot", "hint", "history"}
    blind, plan = plan_trial(MODEL.model_copy(update={"limits": ("no pictures",)}), None, demo_data)
    assert {cell.condition.name for cell in plan.cells} == {"text-only"} and blind.selection.limit == 2
    file = tmp_path / "s.toml"
    file.write_text(
        'data = "nowhere"\nmodels = ["oracle"]\nprotocol = ["mcqa", "oeg"]\nscenarios = ["QD"]\nconditions = ["hint"]\n'
        '[judge]\nmodel = "rule-judge"\n[selection]\nfiltered = false\n'
    )
    tried, plan = plan_trial(MODEL, file, demo_data)
    assert tried.judge is None and tried.models == (MODEL,) and tried.data == str(demo_data)
    assert tried.selection.filtered is False and tried.protocols == (Protocol.MCQA, Protocol.OEG) and plan.total == 4
    with pytest.raises(BadData, match="has no benchmark; name one with --data DIR"):
        plan_trial(MODEL, None, tmp_path)


def test_models_are_named_and_services_of_a_sweep_are_left_out(tmp_path: Path) -> None:
    sweep = tmp_path / "mine.toml"
    sweep.write_text(
        'name = "mine"\ndata = "data"\nmodels = ["qwen2.5-vl-7b", "gpt-4.1"]\nconditions = ["zero-shot"]\n'
    )
    assert [model.name for model in models([], sweep)] == ["qwen2.5-vl-7b"]
    assert [model.name for model in models([], sweep, services=True)] == ["qwen2.5-vl-7b", "gpt-4.1"]
    assert [model.name for model in models(["gpt-4.1"], None)] == ["gpt-4.1"]
    with pytest.raises(SweepError, match="name models, folders of checkpoints or a sweep"):
        models([], None)
