"""Only stored answers are leased to a judge: an answer whose row was set aside, or whose part is gone, is left out."""

from orchestrator.judging.judge_queue import JudgeQueue
from orchestrator.planning.build_plan import build_plan, stored_episodes
from orchestrator.storage.episode_store import EpisodeStore, episodes
from sweeps.load import build_judge
from tests.orchestrator.report import runs


def test_missing_answer_is_not_leased(tmp_path, demo_data):
    spec = runs.sweep(demo_data, ["ask-properly"], ["hint"], protocol="oeg", scenarios=["QD"])
    folder, plan = runs.play_sweep(tmp_path / "run", spec, only=6), build_plan(spec)
    runs.play_sweep(folder, spec)
    stored = set(stored_episodes(plan, folder).collect()["key"])
    answered = [ordinal for ordinal in range(plan.total) if plan.key(*plan.task(ordinal)) in stored]
    store = EpisodeStore(folder)
    queue = JudgeQueue(build_judge({"model": "rule-judge"}, "a test"), plan, store, answered)
    assert [answer.ordinal for answer in queue.lease(answered)] == answered and len(answered) == 10

    (folder / "turns/part-00000001.parquet").unlink()
    remaining_keys = {row["key"] for row in episodes(folder).collect().to_dicts()}
    assert {plan.key(*plan.task(answer.ordinal)) for answer in queue.lease(answered)} == remaining_keys and len(
        remaining_keys
    ) == 4
    assert queue.lease([]) == []
    store.close()
