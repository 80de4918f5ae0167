"""A forecast of a started run counts pending work: episodes, answers, and answers that wait for their judge."""

from pathlib import Path

import pytest

from actors.engine.baselines import Baseline
from orchestrator.planning.build_plan import build_plan
from orchestrator.scheduling.forecast.forecast import count_pending_work, forecast_lines
from sweeps.load import SweepError
from tests.orchestrator.report import runs


def test_pending_work_is_counted_by_kind(demo_data, tmp_path):
    wanted = runs.sweep(
        demo_data, ["refuse", "uniform"], ["zero-shot"], protocol=["mcqa", "oeg"], judge={"model": "rule-judge"},
        selection={"limit": 2}, open_ended={"selection": {"limit": 5}},
    ).model_copy(update={"output": str(tmp_path / "run")})  # fmt: skip
    planned = count_pending_work(wanted, build_plan(wanted))
    total = planned.episode_count("builtin")
    runs.play_sweep(tmp_path / "run", wanted, only=total - 10)
    runs.judge_answers(tmp_path / "run", wanted, wanted.judge, Baseline("rule-judge"), only=4)
    remaining = count_pending_work(wanted, build_plan(wanted))

    assert planned.episodes["builtin"] and planned.answers["builtin"] and planned.unread == 0
    assert remaining.episode_count("builtin") == 10
    stored = planned.answers["builtin"] - remaining.answers["builtin"]
    assert stored > 4 and remaining.unread == stored - 4


def test_forecast_without_gpu_models_is_refused(demo_data, tmp_path):
    wanted = runs.sweep(demo_data, ["uniform"], ["zero-shot"]).model_copy(update={"output": str(tmp_path / "run")})

    with pytest.raises(SweepError, match="no model of this sweep needs a GPU"):
        forecast_lines(wanted, 8, "h200", timeline=Path(tmp_path / "t.png"))
