"""A run folder scored a model at a time gives what scoring all of it at once gives."""

import polars as pl
from polars.testing import assert_frame_equal

from actors.engine.baselines import Baseline
from orchestrator.execution.score import score_folder
from orchestrator.planning.build_plan import build_plan, planned_cells, stored_episodes
from orchestrator.report.read_run import read_run
from orchestrator.report.scores.judge_agreement import own_judge_key
from orchestrator.report.scores.metrics import score
from orchestrator.storage.verdict_store import verdicts
from orchestrator.tracking.process import score_stored
from tests.orchestrator.report.runs import judge_answers, play_sweep, sweep

MODELS = ["uniform", "ask-properly"]
OPEN_ENDED = {
    "protocol": ["mcqa", "oeg"],
    "judge": {"model": "rule-judge"},
    "scenarios": ["ROD", "QD"],
    "only": [{"conditions": ["zero-shot"], "models": ["ask-properly"]}],
}
"""Only the second model is asked open-ended: the first plays a condition that does not exist there."""


def test_scoring_by_model_equals_scoring_all_at_once(demo_data, tmp_path):
    spec = sweep(demo_data, MODELS, ["zero-shot", "random-proactive"], **OPEN_ENDED)
    folder, plan = play_sweep(tmp_path / "run", spec), build_plan(spec)
    judge_answers(folder, spec, spec.judge, Baseline("rule-judge"))

    rows = score_folder(plan, spec, folder, own_judge_key(spec))
    assert_frame_equal(rows, score(stored_episodes(plan, folder), pl.DataFrame(planned_cells(plan)), verdicts(folder)))
    assert rows["judged"].sum() > 0 and rows.filter(model="uniform")["judged"].to_list() == [0, 0]


def test_shares_of_asking_are_null_where_a_condition_of_the_sweep_cannot_be_asked_under(demo_data, tmp_path):
    own = [{"name": "clear", "mode": "reference", "preface": "Look closely."}]
    spec = sweep(demo_data, ["uniform"], ["zero-shot", "clear"], scenarios=["ROD", "QD"], condition=own)
    folder, plan = play_sweep(tmp_path / "run", spec), build_plan(spec)

    for rows in (score_folder(plan, spec, folder, ""), score_stored(folder), read_run(folder).rows):
        shares = {row["condition"]: row["asks"] for row in rows.iter_rows(named=True)}
        assert shares["clear"] is None and shares["zero-shot"] is not None
    (folder / "plan.json").write_bytes(b"{")
    assert score_stored(folder).is_empty(), "the driver reports the damage"
