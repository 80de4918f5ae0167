"""A run folder scored a model at a time gives what scoring all of it at once gives."""

from polars.testing import assert_frame_equal

from actors.engine.baselines import Baseline
from orchestrator.execution.circuit_breaker import find_answering_groups
from orchestrator.execution.results import score_folder
from orchestrator.planning.build_plan import build_plan, planned_rows, stored_episodes
from orchestrator.report.scores.judge_agreement import own_judge_key
from orchestrator.report.scores.metrics import score
from orchestrator.storage.verdict_store import verdicts
from tests.orchestrator.report.runs import heard, played, sweep

MODELS = ["uniform", "ask-properly"]
OPEN_ENDED = {
    "protocol": ["mcqa", "oeg"],
    "judge": {"model": "rule-judge"},
    "scenarios": ["ROD", "QD"],
    "only": [{"conditions": ["zero-shot"], "models": ["ask-properly"]}],
}
"""Only the second model is asked open-ended: the first plays a condition that does not exist there."""


def test_a_model_at_a_time_gives_what_all_at_once_give(demo_data, tmp_path):
    wanted = sweep(demo_data, MODELS, ["zero-shot", "random-proactive"], **OPEN_ENDED)
    folder, plan = played(tmp_path / "run", wanted), build_plan(wanted)
    heard(folder, wanted, wanted.judge, Baseline("rule-judge"))

    rows = score_folder(plan, folder, own_judge_key(wanted))
    assert_frame_equal(rows, score(stored_episodes(plan, folder), planned_rows(plan), verdicts(folder)))
    assert rows["judged"].sum() > 0 and rows.filter(model="uniform")["judged"].to_list() == [0, 0]


def test_who_answers_is_known_of_every_model_with_a_stored_episode(demo_data, tmp_path):
    wanted = sweep(demo_data, MODELS, ["zero-shot", "hint"], scenarios=["ROD"])
    plan = build_plan(wanted)
    assert find_answering_groups(plan, tmp_path) == []
    folder = played(tmp_path / "run", wanted, only=len(plan.cell_samples(plan.cells[0])) * 2 + 2)
    assert sorted(find_answering_groups(plan, folder)) == [
        ("ask-properly", "hint", "mcqa"),
        ("ask-properly", "zero-shot", "mcqa"),
        ("uniform", "hint", "mcqa"),
        ("uniform", "zero-shot", "mcqa"),
    ]
