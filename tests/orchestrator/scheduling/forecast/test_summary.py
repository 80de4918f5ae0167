"""A forecast of a run that has begun counts what is left: episodes, answers, and answers that wait for their judge."""

from pathlib import Path

import pytest

from actors.engine.baselines import Baseline
from orchestrator.planning.build_plan import build_plan
from orchestrator.scheduling.forecast.forecast import count_pending_work, forecast_lines
from sweeps.load import SweepError
from tests.orchestrator.report import runs


def test_what_is_left_is_told_kind_by_kind(demo_data, tmp_path):
    wanted = runs.sweep(
        demo_data, ["refuse", "uniform"], ["zero-shot"], protocol=["mcqa", "oeg"], judge={"model": "rule-judge"},
        selection={"limit": 2}, open_ended={"selection": {"limit": 5}},
    ).model_copy(update={"output": str(tmp_path / "run")})  # fmt: skip
    whole = count_pending_work(wanted, build_plan(wanted))
    total = whole.episode_count("builtin")
    runs.played(tmp_path / "run", wanted, only=total - 10)
    runs.heard(tmp_path / "run", wanted, wanted.judge, Baseline("rule-judge"), only=4)
    left = count_pending_work(wanted, build_plan(wanted))

    assert whole.episodes["builtin"] and whole.answers["builtin"] and whole.unread == 0
    assert left.episode_count("builtin") == 10
    stored = whole.answers["builtin"] - left.answers["builtin"]
    assert stored > 4 and left.unread == stored - 4


def test_where_nobody_takes_a_gpu_there_is_nothing_to_forecast(demo_data, tmp_path):
    wanted = runs.sweep(demo_data, ["uniform"], ["zero-shot"]).model_copy(update={"output": str(tmp_path / "run")})

    with pytest.raises(SweepError, match="no model of this sweep needs a GPU"):
        forecast_lines(wanted, 8, "h200", timeline=Path(tmp_path / "t.png"))
