"""The sentences that judge a trial of a model, and what is planned for one; no engine runs here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from actors.trial.front_end import FrontEnd
from actors.trial.trial import PromptComparison, TrialReport
from envs.samples import BadData
from orchestrator.inspection.model_try import bottleneck, models, plan_trial, trial_row
from sweeps.load import SweepError
from sweeps.registry import registry

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
