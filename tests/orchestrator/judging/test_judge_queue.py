"""Only stored answers are leased to a judge: an answer whose row was set aside, or whose part is gone, is left out."""

import polars as pl
import pytest

from actors.engine.baselines import Baseline
from actors.playing.records import EpisodeBatch
from orchestrator.judging.judge_queue import MAX_CACHED_ANSWERS, JudgeQueue, find_unjudged
from orchestrator.planning.build_plan import build_plan, stored_episodes
from orchestrator.storage.episode_store import EpisodeStore, episodes
from orchestrator.storage.verdict_store import verdicts
from sweeps.load import build_judge
from sweeps.spec import Protocol
from tests.orchestrator.report import runs

JUDGE = {"model": "rule-judge", "gold_check": False}
RULES = build_judge(JUDGE, "a test")


@pytest.fixture
def queue(tmp_path, demo_data):
    """The queue of a judge that reads no gold answers, over a plan of ten answers without a stored one."""
    plan = build_plan(runs.sweep(demo_data, ["ask-properly"], ["hint"], protocol="oeg", scenarios=["QD"]))
    store = EpisodeStore(tmp_path)
    yield JudgeQueue(RULES, plan, store)
    store.close()


def answered_batch(queue, ordinals, ending="answered"):
    """A batch of episodes that ended so after one reply each, which is ``reply N``."""
    keys = [queue.plan.key(*queue.plan.task(ordinal)) for ordinal in ordinals]
    turns = {"key": keys, "reply": [f"reply {ordinal}" for ordinal in ordinals]}
    return EpisodeBatch(list(ordinals), {"key": keys, "ending": [ending] * len(keys)}, turns)


def test_answers_are_leased_from_memory_once(queue):
    assert queue.add_answers(answered_batch(queue, [3, 1])) == [3, 1]
    assert queue.add_answers(answered_batch(queue, [5], "failed")) == []
    assert [(answer.ordinal, answer.text) for answer in queue.lease([1, 3, 5])] == [(1, "reply 1"), (3, "reply 3")]
    assert queue.lease([1, 3]) == [] and queue.first_answers == []


def test_memory_holds_8192_answers_and_the_rest_is_read_from_the_store(tmp_path, demo_data):
    copies = [{"name": f"g{n}", "source": "builtin:refuse", "backend": "builtin", "gpus": 0} for n in range(118)]
    fields = {"protocol": "oeg", "model": copies}
    plan = build_plan(runs.sweep(demo_data, [model["name"] for model in copies], ["hint"], **fields))
    store = EpisodeStore(tmp_path)
    queue = JudgeQueue(RULES, plan, store)
    assert MAX_CACHED_ANSWERS == 8192 < plan.total

    assert queue.add_answers(answered_batch(queue, range(8190))) == list(range(8190))
    assert queue.add_answers(answered_batch(queue, range(8190, 8194))) == [8190, 8191, 8192, 8193]
    assert [answer.ordinal for answer in queue.lease([8189, 8190, 8191, 8192, 8193])] == [8189, 8190, 8191]
    assert queue.add_answers(answered_batch(queue, [8192])) == [8192]
    assert [(answer.ordinal, answer.text) for answer in queue.lease([8192, 8193])] == [(8192, "reply 8192")]
    store.close()


def test_answer_that_is_given_up_is_stored_without_a_verdict(queue):
    queue.give_up([4, 2], "two workers died")
    queue.give_up([4], "a third one died")
    queue.flush(always=True)
    rows = verdicts(queue.store.folder).collect().sort("key").to_dicts()
    assert [row["key"] for row in rows] == sorted(queue.plan.key(*queue.plan.task(ordinal)) for ordinal in (2, 4))
    empty = {"text": "", "attempts": 0, "prompt_tokens": 0, "reply_tokens": 0, "cost": 0.0, "seconds": 0.0}
    empty |= {"category": None, "suggestion": None, "aggregate": None, "reason": "two workers died"}
    assert [{name: row[name] for name in empty} for row in rows] == [empty, empty]
    assert queue.judged_count == 2 and queue.read_count == 0 and not queue.reads


def test_episodes_are_on_the_disk_before_their_verdicts(tmp_path, demo_data):
    spec = runs.sweep(demo_data, ["ask-properly"], ["hint"], protocol="oeg", scenarios=["QD"])
    source, plan = runs.play_sweep(tmp_path / "source", spec), build_plan(spec)
    rows, turns = (columns(source / name) for name in ("episodes", "turns"))
    store = EpisodeStore(tmp_path / "run", rows=1000, seconds=1e9)
    queue = JudgeQueue(RULES, plan, store)
    ordinals = {plan.key(*plan.task(ordinal)): ordinal for ordinal in range(plan.total)}
    store.append(EpisodeBatch([ordinals[key] for key in rows["key"]], rows, turns))
    queue.give_up([0], "a worker died")
    queue.flush()
    assert episodes(store.folder).collect().is_empty() and verdicts(store.folder).collect().is_empty()
    queue.flush(always=True)
    assert episodes(store.folder).collect().height == 10 and verdicts(store.folder).collect().height == 1
    store.close()


def columns(folder):
    """The stored columns of a folder of parts."""
    (table,) = (pl.read_parquet(path) for path in folder.glob("*.parquet"))
    return table.to_dict(as_series=False)


def test_only_open_ended_answers_without_a_verdict_are_unjudged(tmp_path, demo_data):
    spec = runs.sweep(demo_data, ["ask-properly"], ["hint"], protocol=["mcqa", "oeg"], scenarios=["QD"], judge=JUDGE)
    folder, plan = runs.play_sweep(tmp_path / "run", spec), build_plan(spec)
    stored = stored_episodes(plan, folder)
    open_ended = [n for n in range(plan.total) if plan.cells[plan.task(n)[0]].protocol is Protocol.OEG]
    assert len(open_ended) == 10 and plan.total == 20
    assert find_unjudged(plan, stored, folder, RULES) == open_ended
    assert find_unjudged(plan, stored, folder, RULES, again=True) == open_ended

    runs.judge_answers(folder, spec, RULES, Baseline("rule-judge"), only=6)
    assert find_unjudged(plan, stored, folder, RULES) == open_ended[6:]
    queue = JudgeQueue(RULES, plan, EpisodeStore(folder))
    queue.give_up(open_ended[6:8], "a worker died")
    queue.flush(always=True)
    queue.store.close()
    assert find_unjudged(plan, stored, folder, RULES) == open_ended[8:]
    assert find_unjudged(plan, stored, folder, RULES, again=True) == open_ended[6:]


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
