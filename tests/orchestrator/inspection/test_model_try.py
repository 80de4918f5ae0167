"""The sentences that judge a trial of a model, and what is planned for one; no engine runs here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from actors.engine.backend import ModelInput
from actors.trial.certify import InputReport, RecordedInput
from actors.trial.front_end import FrontEnd
from actors.trial.trial import PromptComparison, TrialReport
from envs.samples import BadData
from orchestrator.inspection.model_try import (
    Proof,
    Row,
    bottleneck,
    default_sweep,
    models,
    plan_trial,
    protocol,
    trial_row,
)
from sweeps.load import SweepError
from sweeps.registry import registry
from sweeps.spec import Protocol

MODEL = registry()["embedded"]
GIB = 2**30


def trial_report(
    *compared: PromptComparison, endings: Mapping[str, int] | None = None, **overrides: object
) -> TrialReport:
    fields = {"reason": "", "host": 3 * GIB, "gpu": 10 * GIB, "picture": 577, "uncompared": "", **overrides}
    return TrialReport(seconds=4.0, endings=dict(endings or {"correct": 8}), compared=compared, **fields)  # type: ignore[arg-type]


def test_equal_ids_and_replies_leave_nothing_to_say() -> None:
    row = trial_row(
        MODEL,
        61.2,
        trial_report(
            PromptComparison(1, [1, 2], [1, 2], "A.", "A."), PromptComparison(3, [1, 4], [1, 4], "B", "B\ufffd")
        ),
    )

    assert row.ok and row.rate == 2.0
    assert row.cells == (
        "embedded",
        "61.2",
        "10.0 GPU + 3.0 host",
        "577",
        "2.00",
        "0 of 8",
        "ids 2/2, replies 2/2",
        "nothing",
    )


def test_the_first_prompt_that_differs_is_named() -> None:
    row = trial_row(
        MODEL,
        1.0,
        trial_report(PromptComparison(1, [1, 2], [1, 2], "A", "A"), PromptComparison(3, [1, 7], [1, 2, 3], "A", "B")),
    )

    assert not row.ok and row.equal == "ids 1/2, replies 1/2"
    assert row.wrong == ("a prompt with 3 pictures has 2 tokens, the package's call 3; they differ from token 1 on")


def test_second_start_token_is_noted_and_no_error() -> None:
    row = trial_row(MODEL, 1.0, trial_report(PromptComparison(1, [1, 2, 3], [1, 1, 2, 3], "A", "A")))

    assert row.ok and row.equal == "ids 1/1, replies 1/1, package: start token twice"


@pytest.mark.parametrize(
    ("report", "wrong"),
    [
        (trial_report(uncompared="transformers: no such model"), "not compared: transformers: no such model"),
        (
            trial_report(endings={"correct": 6, "unprocessable": 2}, reason="the prompt is too long"),
            "the prompt is too long",
        ),
        (trial_report(uncompared="no checkpoint to compare with"), ""),
    ],
)
def test_problem_is_one_sentence(report: TrialReport, wrong: str) -> None:
    row = trial_row(MODEL, 1.0, report)

    assert (row.wrong, row.ok) == (wrong, not wrong)
    assert row.ended == report.endings.get("unprocessable", 0)


def test_a_slow_engine_bounds_its_worker() -> None:
    front = FrontEnd(14, new_ms=20.0, cached_ms=4.0, engine=15.0, cached=0.5)
    row = trial_row(MODEL, 1.0, trial_report(front=front))

    assert front.ceiling == pytest.approx(1000 / 12)
    assert row.table()["front"]["new_ms"] == 20.0
    assert row.bound == (
        "bottleneck: engine (15 requests/s; image preprocessing could do 83: 50 with new pictures, 250 with known ones); "
        "a worker uses 1.2 CPU cores"
    )
    slow = FrontEnd(14, new_ms=0.5, cached_ms=0.25, engine=15.0, cached=0.0)
    assert ": 2000 with new pictures, 4000 with known ones); a worker uses 1.0 " in bottleneck(MODEL, slow)
    assert trial_row(MODEL, 1.0, trial_report()).bound == "" == trial_row(MODEL, 1.0, trial_report()).table()["bound"]


@pytest.mark.parametrize(("gpus", "shares"), [(1, "3 engines per GPU use it fully (gpus = 0.33); "), (2, ""), (0, "")])
def test_a_fast_engine_waits_for_its_front_end(gpus: float, shares: str) -> None:
    front = FrontEnd(14, new_ms=20.0, cached_ms=4.0, engine=200.0, cached=0.5)

    assert bottleneck(MODEL.model_copy(update={"gpus": gpus}), front) == (
        "bottleneck: image preprocessing (83 requests/s: 50 with new pictures, 250 with known ones; the engine could do 200); "
        f"{shares}a worker uses 2.0 CPU cores"
    )


def test_two_samples_of_each_scenario_and_condition_are_plan_trial(demo_data: Path) -> None:
    _, plan = plan_trial(MODEL, None, demo_data)

    assert plan.total == 2 * 7 * 3
    assert {cell.condition.name for cell in plan.cells} == {"zero-shot", "hint", "history"}


def test_a_folder_without_a_benchmark_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(BadData, match="has no benchmark; name one with --data DIR"):
        plan_trial(MODEL, None, tmp_path)


def test_models_are_named_and_services_of_a_sweep_are_left_out(tmp_path: Path) -> None:
    sweep = tmp_path / "mine.toml"
    sweep.write_text('name = "mine"\ndata = "data"\nmodels = ["embedded", "gpt-4.1"]\nconditions = ["zero-shot"]\n')

    assert [model.name for model in models([], sweep)] == ["embedded"]
    assert [model.name for model in models(["gpt-4.1"], None)] == ["gpt-4.1"]
    with pytest.raises(SweepError, match="name models or checkpoint folders, or add --sweep FILE"):
        models([], None)


def certified(dtype: str, same: bool = True) -> InputReport:
    """An engine's report of one request, in this number format."""
    engine = ModelInput((1,), {"input_ids": "a"}, {}, dtype)
    return InputReport(inputs=(RecordedInput("QD/hint", 1, 1, engine, {"input_ids": "a" if same else "b"}),))


def test_faults_are_looked_for_from_ids_to_endings() -> None:
    other = PromptComparison(2, [1], [1], "A" * 50, "B" * 50)
    found = [
        trial_row(MODEL, 1.0, trial_report(other, inputs=inputs, **more)).wrong
        for inputs, more in (
            (certified("float32"), {}),
            (certified("bfloat16"), {}),
            (certified("float32", same=False), {}),
            (certified("bfloat16"), {"uncompared": "transformers: none"}),
            (certified("bfloat16"), {"reason": "too long", "endings": {"correct": 1, "overflow": 1, "refused": 1}}),
            (certified("bfloat16"), {"reason": "too long", "endings": {"correct": 1}}),
        )
    ]
    assert found == [
        f"in float32, the reply to a prompt with 2 pictures is {'A' * 40!r}, the package's call says {'B' * 40!r}", "",
        "1 of 1 request differ from the package's call, first input_ids of QD/hint", "not compared: transformers: none",
        "too long", "",
    ]  # fmt: skip
    twice = PromptComparison(2, [1, 2], [1, 1, 2], "A", "B")
    assert trial_row(MODEL, 1.0, trial_report(twice, inputs=certified("float32"))).wrong == ""
    longer = trial_row(MODEL, 1.0, trial_report(PromptComparison(0, [1, 2], [1, 2, 3, 4], "A", "A"))).wrong
    assert longer == "a prompt with 0 pictures has 2 tokens, the package's call 4; they differ from token 2 on"
    assert trial_row(MODEL, 1.0, trial_report(PromptComparison(0, [], [1], "A", "A"))).equal == "ids 0/1, replies 1/1"


def test_a_row_counts_what_the_model_could_not_play() -> None:
    endings = {"correct": 3, "unprocessable": 1, "overflow": 2, "refused": 4, "failed": 8}
    row = trial_row(MODEL, 1.0, trial_report(endings=endings, gpu=None, picture=None))
    assert (row.ended, row.episodes, row.rate) == (7, 18, 4.5)
    assert row.cells[2:6] == ("3.0 host", "-", "4.50", "7 of 18") and row.cells[6] == "-"
    empty = Row("m", wrong="it broke")
    assert empty.cells == ("m", "-", "-", "-", "-", "0 of 0", "-", "it broke") and empty.table()["ok"] is False


def test_a_sweep_has_a_protocol_if_it_has_one_alone(demo_data: Path) -> None:
    sweep = default_sweep(demo_data)
    assert protocol(sweep) is Protocol.MCQA and [c.name for c in sweep.conditions] == ["zero-shot", "hint", "history"]
    assert protocol(sweep.model_copy(update={"protocols": (Protocol.OEG,)})) is Protocol.OEG
    assert protocol(sweep.model_copy(update={"protocols": (Protocol.MCQA, Protocol.OEG)})) is None
    blind, plan = plan_trial(MODEL.model_copy(update={"limits": ("no pictures",)}), None, demo_data)
    assert {cell.condition.name for cell in plan.cells} == {"text-only"} and blind.selection.limit == 2


def test_a_sweep_is_tried_with_few_samples_and_without_its_judge(demo_data: Path, tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text(
        'data = "nowhere"\nmodels = ["oracle"]\nprotocol = ["mcqa", "oeg"]\nscenarios = ["QD"]\nconditions = ["hint"]\n'
        '[judge]\nmodel = "rule-judge"\n[selection]\nfiltered = false\n'
    )
    tried, plan = plan_trial(MODEL, file, demo_data)
    assert tried.judge is None and tried.models == (MODEL,) and tried.data == str(demo_data)
    assert tried.selection.filtered is False and tried.protocols == (Protocol.MCQA, Protocol.OEG) and plan.total == 4
    file.write_text(file.read_text().replace('"hint"', '"icl-1"').replace('["mcqa", "oeg"]', '"mcqa"'))
    with pytest.raises((BadData, SweepError)):
        plan_trial(MODEL, file, demo_data)


def test_a_proof_is_good_if_the_input_is_the_packages_and_the_stored_ones() -> None:
    fields = {"model": "m", "engine": "vllm", "weights": "w", "folder": "out/vllm", "verdict": "v", "outcome": "o"}
    proofs = {
        status: [Proof(**fields, status=status, changed=changed).ok for changed in ([], ["torch"])]
        for status in ("equal", "request only", "unequal", "incomplete")
    }
    assert proofs == {
        "equal": [True, False], "request only": [True, False], "unequal": [False, False], "incomplete": [False, False],
    }  # fmt: skip
    assert Proof(**fields, status="equal", changed=["torch: 1, now 2", "ids of A"]).change == (
        "m differs from its certificate in out/vllm: torch: 1, now 2; ids of A"
    )


def test_a_front_end_as_fast_as_its_engine_is_no_bottleneck() -> None:
    even = FrontEnd(14, new_ms=10.0, cached_ms=10.0, engine=100.0, cached=0.5)
    assert bottleneck(MODEL, even).startswith(
        "bottleneck: engine (100 requests/s; image preprocessing could do 100: 100 with"
    )
    assert bottleneck(MODEL, even).endswith("a worker uses 2.0 CPU cores")
    double = FrontEnd(14, new_ms=10.0, cached_ms=10.0, engine=200.0, cached=0.5)
    half = bottleneck(MODEL.model_copy(update={"gpus": 0.5}), double)
    assert "2 engines per GPU use it fully (gpus = 0.25); " in half


def test_a_model_that_did_not_load_has_nothing_but_its_fault() -> None:
    assert Row("m", wrong="no GPU").table() == {
        "model": "m", "loads": None, "host": None, "gpu": None, "picture": None, "rate": None, "episodes": 0, "ended": 0,
        "certificate": "", "equal": "", "wrong": "no GPU", "front": None, "bound": "", "ok": False,
    }  # fmt: skip
    assert Row("m", wrong="no GPU").cells == ("m", "-", "-", "-", "-", "0 of 0", "-", "no GPU")
    assert Row("m", 1.26, host=0.04, gpu=2.0).cells[:3] == ("m", "1.3", "2.0 GPU + 0.0 host") and Row("m").ok
