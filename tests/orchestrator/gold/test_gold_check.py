"""A judge reads answers with known verdicts before it reads a model's; what it says of them is stored, scored and reused."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from actors.engine.backend import Reply
from actors.engine.baselines import Baseline
from actors.playing.judge import Judged
from actors.playing.judge_runner import JudgeRunner, judge_key
from actors.playing.records import JudgedAnswer, verdict_batch
from envs import SCENARIOS
from envs.openended import THRESHOLDS, Bits, accepted_answers
from orchestrator.gold.gold_check import GoldScore, describe_cost, find_unread, gold_notes, load_gold_answers
from orchestrator.judging.judge_queue import JudgeQueue
from orchestrator.planning.build_plan import build_plan
from orchestrator.storage.episode_store import EpisodeStore
from orchestrator.storage.verdict_store import VerdictStore
from sweeps.load import build_judge
from tests.actors.scripted_backend import ScriptedBackend
from tests.orchestrator.report import runs

RULES = build_judge({"model": "rule-judge", "attempts": 1}, "a test")


@pytest.fixture
def queue_of(tmp_path, demo_data):
    """Opens the queue of a judge over ten stored answers, as an attempt does."""
    wanted = runs.sweep(demo_data, ["ask-properly"], ["hint"], protocol="oeg", scenarios=["QD"])
    folder, plan = runs.play_sweep(tmp_path / "run", wanted), build_plan(wanted)
    store = EpisodeStore(folder)
    yield lambda judge=RULES: JudgeQueue(judge, plan, store, range(plan.total))
    store.close()


def read(queue: JudgeQueue, ordinals, backend=None) -> int:
    """Have leased answers judged by the worker's own runner; return the number of requests."""
    asked = Counter()
    policy = backend or Baseline("rule-judge").policy

    def answer(request):
        asked["requests"] += 1
        return policy(request.situation, request.seed)

    async def judge() -> None:
        runner = JudgeRunner(queue.plan, queue.judge, ScriptedBackend(answer), 8)
        async for batch in runner.judge(queue.lease(ordinals), queue.reads):
            queue.store_verdicts(batch)

    asyncio.run(judge())
    return asked["requests"]


def test_the_answers_cover_all_scenarios_and_all_verdicts_that_the_rules_allow():
    answers = load_gold_answers()
    assert len(answers) >= 200 and len({answer.task.key for answer in answers}) == len(answers)
    for scenario in SCENARIOS:
        own = [answer for answer in answers if answer.task.cell.scenario == scenario]
        truths = {(answer.truth.category, answer.truth.suggestion) for answer in own}
        names = {(True, False), (True, True)} if scenario not in ("ROD", "MVP-N") else set()
        assert len(own) >= 25 and truths == {(False, False), (False, True)} | names, scenario
        samples = {answer.task.sample.id: answer.task.sample for answer in own}
        for sample in samples.values():
            assert len(accepted_answers(sample)) == THRESHOLDS[scenario] + (sample.answer is not None and bool(names))
    assert len({answer.task.cell.scenario for answer in answers[:7]}) >= 4, "scenarios take turns"


def test_a_check_that_was_interrupted_goes_on(queue_of):
    queue = queue_of()
    read(queue, queue.first_answers[:50])
    assert len(queue_of().first_answers) == len(load_gold_answers()) - 50


def test_a_lost_answer_counts_as_unread_and_does_not_hold_the_others(queue_of):
    queue = queue_of()
    *rest, lost = queue.first_answers
    read(queue, rest)
    queue.give_up([lost], "two workers died")
    assert len(queue.take_released()) == 10
    score = GoldScore(queue.store.folder, queue.key)
    assert score.judged == len(rest) + 1 and score.verdicts.height == len(rest)


def truthful(situation, seed) -> str:
    """A judge that knows the truth."""
    truths = {(a.task.sample.id, a.task.cell.scenario, a.text): a for a in load_gold_answers()}
    truth = truths[situation.sample.id, situation.sample.scenario, situation.answer].truth
    border = THRESHOLDS[situation.sample.scenario]
    marks = [truth.suggestion] * border + [truth.category] * (len(accepted_answers(situation.sample)) - border)
    return ",".join(str(int(mark)) for mark in marks)


def agreeing(situation, seed) -> str:
    """A judge that says yes to everything."""
    return ",".join("1" for _ in accepted_answers(situation.sample))


@pytest.mark.parametrize(
    ("policy", "stops"), [(truthful, False), (agreeing, True), (lambda situation, seed: "0,0", True)]
)
def test_min_kappa_keeps_a_bad_judge_from_the_models_answers(queue_of, policy, stops):
    strict = build_judge({"model": "rule-judge", "attempts": 1, "min_kappa": 0.6}, "a test")
    queue = queue_of(strict)
    queue._reads = True  # so that the trial of a judge that reads nothing does not come first
    read(queue, queue.first_answers, policy)
    released = queue.take_released()
    assert (released == []) is stops and bool(queue.stop_reason) is stops
    assert not stops or "below min_kappa = 0.6" in queue.stop_reason
    assert bool(queue_of(strict).stop_reason) is stops, "the next attempt asks no more either"
    assert not queue_of(build_judge({"model": "rule-judge", "attempts": 1}, "a test")).stop_reason


def test_a_judge_that_read_nothing_and_was_mended_reads_the_answers_again(queue_of):
    queue = queue_of()
    with pytest.raises(Exception, match="gave no verdict on its first 20 answers"):
        read(queue, queue.first_answers, lambda situation, seed: "nonsense")
    assert ": 0 of 20 answers" in gold_notes(queue.store.folder, [queue.key])[0]
    mended = queue_of()
    assert len(mended.first_answers) == len(load_gold_answers()) and not mended.reads
    read(mended, mended.first_answers, truthful)
    assert len(mended.take_released()) == 10


def test_the_check_can_be_left_out(queue_of, tmp_path):
    off = build_judge({"model": "rule-judge", "gold_check": False}, "a test")
    assert list(queue_of(off).first_answers) == list(range(10))
    assert describe_cost(off, tmp_path) == describe_cost(RULES, tmp_path) == []
    assert judge_key(off) == judge_key(build_judge({"model": "rule-judge"}, "a test")), "it changes no verdict"


def test_the_rule_judge_reads_the_answers_as_well_as_the_page_says(queue_of):
    queue = queue_of()
    read(queue, queue.first_answers)
    score = GoldScore(queue.store.folder, queue.key)
    print(*score.sentences(), sep="\n")
    assert score.verdicts.height == len(load_gold_answers())
    assert score.counts("category").kappa > 0.9 and score.counts("suggestion").kappa > 0.7


def store(folder, judge, bits_by_number) -> None:
    """Store a judge's bits on gold answers by number; None for an answer that it could not read."""
    judged = [
        JudgedAnswer(n, task, Judged(bits, "" if bits else "unread", 1, [Reply("1")]))
        for n, bits in bits_by_number.items() for task in [load_gold_answers()[n].task]
    ]  # fmt: skip
    (folder / "gold").mkdir(exist_ok=True)
    gold = VerdictStore(folder / "gold")
    gold.append(verdict_batch(judge, judged).verdicts)
    gold.flush()


def test_the_bits_of_a_judge_are_counted_by_the_truth(tmp_path):
    """It says yes to all suggestions and no to all categories, and cannot read every tenth answer."""
    store(tmp_path, "j", {n: None if n % 10 == 0 else Bits(False, True) for n in range(100)})
    score, answers = GoldScore(tmp_path, "j"), load_gold_answers()
    truths = [answers[n].truth for n in range(100) if n % 10]
    asks, names = sum(t.suggestion for t in truths), sum(t.category for t in truths)
    either = sum(t.suggestion or t.category for t in truths)
    assert 0 < names < asks < 90
    assert score.counts("suggestion") == (asks, 0, 90 - asks, 0)
    assert score.counts("aggregate") == (either, 0, 90 - either, 0)
    assert score.counts("category") == (0, names, 0, 90 - names) and score.kappa == 0
    assert list(score.sentences()) == [
        f"gold check of j: 90 of 100 answers with known verdicts read, {len(answers) - 100} to come",
        f"  category: 0 of {names} found, 0 of {90 - names} wrongly, kappa 0.00",
        f"  suggestion: {asks} of {asks} found, {90 - asks} of {90 - asks} wrongly, kappa 0.00",
    ]
    assert list(GoldScore(tmp_path, "another").sentences()) == [] and gold_notes(tmp_path) == tuple(score.sentences())


def test_only_what_a_judge_has_not_read_is_pending_and_costs(tmp_path):
    service = {"name": "paid", "source": "m", "endpoint": {"base_url": "http://x.test/v1", "key_env": ""}}
    paid = build_judge({"model": service, "attempts": 3}, "a test")
    count = len(load_gold_answers())
    store(tmp_path, judge_key(paid), dict.fromkeys(range(3), Bits(True, True)))
    unread = find_unread(tmp_path, judge_key(paid), 70)
    assert list(unread) == list(range(73, 70 + count))
    assert unread[74].text == load_gold_answers()[4].text and unread[74].ordinal == 74
    (line,) = describe_cost(paid, tmp_path)
    assert (
        f"paid first reads {count - 3} answers with known verdicts, {count - 3} to {3 * (count - 3)} requests" in line
    )
    store(tmp_path, judge_key(paid), dict.fromkeys(range(3, count), Bits(True, True)))
    assert describe_cost(paid, tmp_path) == []
