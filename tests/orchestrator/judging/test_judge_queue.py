"""Only stored answers are leased to a judge, and of verdicts that arrive the first counts, gold answers apart."""

import polars as pl
import pytest

from actors.engine.backend import Reply
from actors.engine.baselines import Baseline
from actors.playing.judge import Judged
from actors.playing.records import EpisodeBatch, JudgedAnswer, verdict_batch
from envs.openended import Bits
from orchestrator.gold.gold_check import load_gold_answers
from orchestrator.judging.judge_queue import JudgeQueue, check_wording, find_unjudged
from orchestrator.planning.build_plan import build_plan, stored_episodes
from orchestrator.storage.episode_store import EpisodeStore, episodes
from orchestrator.storage.verdict_store import verdicts
from sweeps.load import SweepError, build_judge
from sweeps.spec import Protocol
from tests.orchestrator.report import runs

JUDGE = {"model": "rule-judge", "gold_check": False}
RULES = build_judge(JUDGE, "a test")
GOLD_READER = build_judge({"model": "rule-judge"}, "a test")
GOLD = len(load_gold_answers())


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
    open_ended = [n for n in range(plan.total) if plan.cells[plan.task(n)[0]].protocol is Protocol.OEG]
    assert len(open_ended) == 10 and plan.total == 20
    assert find_unjudged(plan, folder, RULES) == open_ended
    assert find_unjudged(plan, folder, RULES, again=True) == open_ended

    runs.judge_answers(folder, spec, RULES, Baseline("rule-judge"), only=6)
    assert find_unjudged(plan, folder, RULES) == open_ended[6:]
    queue = JudgeQueue(RULES, plan, EpisodeStore(folder))
    queue.give_up(open_ended[6:8], "a worker died")
    queue.flush(always=True)
    queue.store.close()
    assert find_unjudged(plan, folder, RULES) == open_ended[8:]
    assert find_unjudged(plan, folder, RULES, again=True) == open_ended[6:]


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
    remaining_keys = set(episodes(folder).collect()["key"])
    assert len(remaining_keys) == 4
    assert {plan.key(*plan.task(answer.ordinal)) for answer in queue.lease(answered)} == remaining_keys
    assert queue.lease([]) == []
    store.close()


# -- verdicts that arrive ----------------------------------------------------------------------------------------------
@pytest.fixture
def queue_of(tmp_path, demo_data):
    """Opens the queue of a judge over a plan of seventy answers."""
    plan = build_plan(runs.sweep(demo_data, ["ask-properly"], ["hint"], protocol="oeg"))
    store = EpisodeStore(tmp_path)
    yield lambda judge=RULES, backlog=(): JudgeQueue(judge, plan, store, backlog)
    store.close()


def batch_of(queue, ordinals, bit):
    """Verdicts on these answers: both bits ``bit``, or none where it is None."""
    bits = None if bit is None else Bits(bit, bit)
    judged = Judged(bits, "" if bits else "unread", 1, [Reply("1,1", 10, 2)], 0.5)
    tasks = [(ordinal, queue._task(ordinal)) for ordinal in ordinals]
    return verdict_batch(queue.key, [JudgedAnswer(ordinal, task, judged) for ordinal, task in tasks])


def stored(folder) -> dict[str, bool | None]:
    return dict(verdicts(folder).select("key", "aggregate").collect().rows())


def test_the_first_verdict_on_an_answer_counts(queue_of):
    queue = queue_of()
    queue.store_verdicts(batch_of(queue, [0, 1], True))
    queue.store_verdicts(batch_of(queue, [1, 2], None))
    queue.flush(always=True)
    keys = [queue.plan.key(*queue.plan.task(ordinal)) for ordinal in range(3)]
    assert stored(queue.store.folder) == {keys[0]: True, keys[1]: True, keys[2]: None}
    assert (queue.judged_count, queue.read_count) == (3, 2)


def test_gold_verdicts_are_stored_apart_and_release_the_answers_that_waited(queue_of):
    queue = queue_of(GOLD_READER, [4, 2])
    assert list(queue.first_answers) == list(range(70, 70 + GOLD)) and not queue.reads
    queue.store_verdicts(batch_of(queue, range(70, 69 + GOLD), True))
    queue.store_verdicts(batch_of(queue, [70], None))
    assert queue.take_released() == [] and queue.first_answers == [69 + GOLD]
    (last,) = queue.lease([69 + GOLD])
    assert (last.ordinal, last.text) == (69 + GOLD, load_gold_answers()[-1].text)
    assert queue.add_answers(answered_batch(queue, [9])) == [] and queue.backlog == [4, 2, 9]
    queue.backlog.pop()
    duplicate = batch_of(queue, [69 + GOLD, 0], True)
    queue.store_verdicts(duplicate)
    assert queue.take_released() == [4, 2] == queue.first_answers and queue.reads
    queue.store_verdicts(duplicate)
    queue.flush(always=True)
    assert (queue.judged_count, queue.read_count) == (1, 1)
    assert len(stored(queue.store.folder)) == 1
    gold = stored(queue.store.folder / "gold")
    assert len(gold) == GOLD and set(gold.values()) == {True}
    assert queue_of(GOLD_READER).reads, "what an earlier attempt read counts"


def test_another_judge_of_answers_that_were_read_in_play_is_another_run(demo_data, monkeypatch):
    judge = {"model": "rule-judge"}
    played, after = (
        runs.sweep(demo_data, ["ask-properly"], ["hint"], protocol=protocol, judge=judge)
        for protocol in ("oeg-multi", ["oeg", "oeg-multi"])
    )
    with pytest.raises(SweepError) as refused:
        check_wording(GOLD_READER, played)
    assert str(refused.value) == (
        "answers of oeg-multi were read while they were played; to use another judge, play a run with that [judge]"
    )
    check_wording(GOLD_READER, after)
    check_wording(None)
    monkeypatch.setattr("actors.playing.judge.importlib.util.find_spec", lambda name: None)
    paper = build_judge({"model": "rule-judge", "instruction": "paper"}, "a test")
    with pytest.raises(SweepError, match="proactivebench"):
        check_wording(paper)
