"""What a judge's queue makes of verdicts that arrive: the first counts, gold answers apart, and when its judge reads."""

import polars as pl
import pytest

from actors.playing.judge import Judged
from actors.playing.records import EpisodeBatch, JudgedAnswer, verdict_batch
from envs.openended import Bits
from orchestrator.gold.gold_check import load_gold_answers
from orchestrator.judging.judge_queue import JudgeQueue, check_wording, reads_answers
from orchestrator.planning.build_plan import build_plan
from orchestrator.storage.episode_store import EpisodeStore
from orchestrator.storage.verdict_store import verdicts
from sweeps.load import SweepError, build_judge
from tests.orchestrator.report import runs

RULES = build_judge({"model": "rule-judge"}, "a test")
PLAIN = build_judge({"model": "rule-judge", "gold_check": False}, "a test")
GOLD = len(load_gold_answers())


@pytest.fixture
def queue_of(tmp_path, demo_data):
    """Opens the queue of a judge over a plan of seventy answers."""
    plan = build_plan(runs.sweep(demo_data, ["ask-properly"], ["hint"], protocol="oeg"))
    store = EpisodeStore(tmp_path)
    yield lambda judge=PLAIN, backlog=(): JudgeQueue(judge, plan, store, backlog)
    store.close()


def batch_of(queue, ordinals, bit):
    """Verdicts on these answers: both bits ``bit``, or none where it is None."""
    bits = None if bit is None else Bits(bit, bit)
    judged = Judged(bits, "1,1", 1, "" if bits else "unread", False, 0.5, 10, 2, 0.0)
    tasks = [(ordinal, queue._task(ordinal)) for ordinal in ordinals]
    return verdict_batch(
        queue.key, [JudgedAnswer(ordinal, task.cell, task.sample.id, task.key, judged) for ordinal, task in tasks]
    )


def answered(queue, ordinals) -> EpisodeBatch:
    """Episodes that ended after one reply each, which is ``reply N``."""
    keys = [queue.plan.key(*queue.plan.task(ordinal)) for ordinal in ordinals]
    turns = {"key": keys, "reply": [f"reply {ordinal}" for ordinal in ordinals]}
    return EpisodeBatch(list(ordinals), {"key": keys, "ending": ["answered"] * len(keys)}, turns)


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
    queue = queue_of(RULES, [4, 2])
    assert list(queue.first_answers) == list(range(70, 70 + GOLD)) and not queue.reads
    queue.store_verdicts(batch_of(queue, range(70, 69 + GOLD), True))
    queue.store_verdicts(batch_of(queue, [70], None))
    assert queue.take_released() == [] and queue.first_answers == [69 + GOLD]
    assert [(answer.ordinal, answer.text) for answer in queue.lease([69 + GOLD])] == [
        (69 + GOLD, load_gold_answers()[-1].text)
    ]
    assert queue.add_answers(answered(queue, [9])) == [] and queue.backlog == [4, 2, 9]
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
    assert queue_of(RULES).reads, "what an earlier attempt read counts"


def test_a_judge_below_min_kappa_reads_no_answer_of_a_model(queue_of):
    strict = build_judge({"model": "rule-judge", "min_kappa": 0.5}, "a test")
    queue = queue_of(strict, [3])
    queue.store_verdicts(batch_of(queue, range(70, 70 + GOLD), True))
    assert queue.take_released() == [] and queue.first_answers == () and queue.stop_reason
    assert queue.add_answers(answered(queue, [9])) == [] and queue.backlog == [3, 9]
    later = queue_of(strict, [3])
    assert later.first_answers == () and later.stop_reason == queue.stop_reason


@pytest.mark.parametrize(
    ("unread", "read", "reads"),
    [(95, 5, True), (96, 4, False), (0, 99, False), (0, 100, True), (100, 0, False)],
)
def test_a_judge_reads_once_a_hundred_answers_have_five_verdicts(tmp_path, demo_data, unread, read, reads):
    models = ["ask-properly", "always-ask"]
    plan = build_plan(runs.sweep(demo_data, models, ["hint"], protocol="oeg"))
    store = EpisodeStore(tmp_path)
    queue = JudgeQueue(PLAIN, plan, store)
    queue.store_verdicts(batch_of(queue, range(unread), None))
    queue.store_verdicts(batch_of(queue, range(unread, unread + read), False))
    assert queue.reads is reads and queue.judged_count == unread + read
    store.close()


def test_a_run_folder_without_a_verdict_of_this_judge_does_not_count_as_read(tmp_path, demo_data):
    spec = runs.sweep(demo_data, ["ask-properly"], ["hint"], protocol="oeg", scenarios=["QD"])
    folder = runs.play_sweep(tmp_path / "run", spec)
    store = EpisodeStore(folder)
    queue = JudgeQueue(PLAIN, build_plan(spec), store)
    assert not reads_answers(folder, queue.key)
    queue.store_verdicts(batch_of(queue, range(9), None))
    queue.flush(always=True)
    assert not reads_answers(folder, queue.key)
    queue.store_verdicts(batch_of(queue, [9], False))
    queue.flush(always=True)
    assert reads_answers(folder, queue.key) and not reads_answers(folder, "another")
    assert JudgeQueue(PLAIN, build_plan(spec), store).reads
    store.close()


def test_verdicts_that_are_due_are_flushed_without_being_asked(queue_of, monkeypatch):
    queue = queue_of()
    queue.store_verdicts(batch_of(queue, [0], True))
    queue.flush()
    assert stored(queue.store.folder) == {}
    monkeypatch.setattr(type(queue.verdicts), "due", property(lambda self: True))
    queue.flush()
    assert len(stored(queue.store.folder)) == 1


def test_another_judge_of_answers_that_were_read_in_play_is_another_run(demo_data, monkeypatch):
    judge = {"model": "rule-judge"}
    played, after = (
        runs.sweep(demo_data, ["ask-properly"], ["hint"], protocol=protocol, judge=judge)
        for protocol in ("oeg-multi", ["oeg", "oeg-multi"])
    )
    with pytest.raises(SweepError) as refused:
        check_wording(RULES, played)
    assert str(refused.value) == (
        "answers of oeg-multi were read while they were played; to use another judge, play a run with that [judge]"
    )
    check_wording(RULES, after)
    check_wording(None)
    monkeypatch.setattr("actors.playing.judge.importlib.util.find_spec", lambda name: None)
    paper = build_judge({"model": "rule-judge", "instruction": "paper"}, "a test")
    with pytest.raises(SweepError, match="proactivebench"):
        check_wording(paper)


def test_an_answer_that_is_not_on_the_disk_yet_is_leased(tmp_path, demo_data, monkeypatch):
    spec = runs.sweep(demo_data, ["ask-properly"], ["hint"], protocol="oeg", scenarios=["QD"])
    source, plan = runs.play_sweep(tmp_path / "source", spec), build_plan(spec)
    episodes, turns = (
        pl.concat(pl.read_parquet(path) for path in (source / name).glob("*.parquet")).to_dict(as_series=False)
        for name in ("episodes", "turns")
    )
    store = EpisodeStore(tmp_path / "run", rows=1000, seconds=1e9)
    store.append(EpisodeBatch(list(range(10)), episodes, turns))
    queue = JudgeQueue(PLAIN, plan, store)
    assert [answer.ordinal for answer in queue.lease([0, 9])] == [0, 9]
    queue.give_up([3], "two workers died")
    queue.flush(always=True)
    (row,) = verdicts(store.folder).collect().to_dicts()
    assert row["first_failed"] is True and row["reason"] == "two workers died"
    store.close()
