"""The sentences of a gold check, on planted verdicts whose counts are known."""

import json

import polars as pl
import pytest

from actors.playing.judge import Judged
from actors.playing.judge_runner import judge_key
from actors.playing.records import JudgedAnswer, verdict_batch
from envs.openended import Bits
from orchestrator.gold import gold_check
from orchestrator.gold.gold_check import GoldCheck, GoldScore, describe_cost, gold_notes, load_gold_answers
from orchestrator.gold.labels import draw_answers, draw_disputed, label_sheet, samples_by_key
from orchestrator.report.statistics.proportion import proportion_interval
from orchestrator.storage.verdict_store import VerdictStore
from sweeps.load import build_judge

ANSWERS = load_gold_answers()


def store(folder, judge, bits_by_number) -> None:
    """Store a judge's bits on gold answers by number; None for an answer that it could not read."""
    judged = [
        JudgedAnswer(n, task.cell, task.sample.id, task.key,
                     Judged(bits, "1", 1, "" if bits else "unread", False, 0.0, 0, 0, 0.0))
        for n, bits in bits_by_number.items() for task in [ANSWERS[n].task]
    ]  # fmt: skip
    (folder / "gold").mkdir(exist_ok=True)
    verdicts = VerdictStore(folder / "gold")
    verdicts.append(verdict_batch(judge, judged).verdicts)
    verdicts.flush()


def percent(count, n):
    low, high = proportion_interval(count, n)
    return f"{100 * count / n:.0f}% ({100 * low:.0f} to {100 * high:.0f})"


def test_scenarios_take_turns_and_keys_are_of_sample_and_text():
    entries = json.loads(gold_check.FILE.read_text("utf-8"))
    first_round = [answer.text for answer in ANSWERS[: len(entries)]]
    assert first_round == [entry["answers"][0]["text"] for entry in entries]
    second = [entry["answers"][1]["text"] for entry in entries if len(entry["answers"]) > 1]
    assert [answer.text for answer in ANSWERS[len(entries) : len(entries) + len(second)]] == second
    assert len(ANSWERS) == sum(len(entry["answers"]) for entry in entries)
    task = ANSWERS[0].task
    start = f"gold/{task.cell.scenario}/zero-shot-oeg/{task.sample.id:04d}-"
    assert task.key.startswith(start) and len(task.key) == len(start) + 16
    truth = entries[0]["answers"][0]
    assert ANSWERS[0].truth == Bits(truth["category"], truth["suggestion"])


def test_the_bits_of_a_judge_are_counted_by_the_truth(tmp_path):
    """It says yes to all suggestions and no to all categories, and cannot read every tenth answer."""
    numbers = range(100)
    store(tmp_path, "j", {n: None if n % 10 == 0 else Bits(False, True) for n in numbers})
    score = GoldScore(tmp_path, "j")
    truths = [ANSWERS[n].truth for n in numbers if n % 10]
    asks, names = sum(t.suggestion for t in truths), sum(t.category for t in truths)
    either = sum(t.suggestion or t.category for t in truths)
    assert 0 < names < asks < 90
    assert score.confusion("suggestion") == (asks, 0, 90 - asks, 0) and score.confusion("category") == (
        0,
        names,
        0,
        90 - names,
    )
    assert score.confusion("aggregate") == (either, 0, 90 - either, 0)
    assert score.kappa == 0 and (score.planned, len(score.judged)) == (len(ANSWERS), 100)
    kappa = score.confusion("category").kappa
    assert list(score.sentences()) == [
        f"gold check of j: {percent(90, 100)} of 100 answers with known verdicts read, {len(ANSWERS) - 100} to come",
        f"  category: sensitivity {percent(0, names)}, specificity {percent(90 - names, 90 - names)}, "
        f"kappa 0.00 ({kappa.low:.2f} to {kappa.high:.2f})",
        f"  suggestion: sensitivity {percent(asks, asks)}, specificity {percent(0, 90 - asks)}, "
        f"kappa 0.00 ({score.confusion('suggestion').kappa.low:.2f} to {score.confusion('suggestion').kappa.high:.2f})",
    ]
    assert list(GoldScore(tmp_path, "another").sentences()) == [] and GoldScore(tmp_path, "another").kappa == 0.0


def test_a_check_that_is_done_says_no_more_about_what_is_to_come(tmp_path):
    store(tmp_path, "a", {n: answer.truth for n, answer in enumerate(ANSWERS)})
    store(tmp_path, "b", {0: None})
    first, *_ = GoldScore(tmp_path, "a").sentences()
    assert first == (
        f"gold check of a: {percent(len(ANSWERS), len(ANSWERS))} of {len(ANSWERS)} answers with known verdicts read"
    )
    unread = f"gold check of b: {percent(0, 1)} of 1 answers with known verdicts read, {len(ANSWERS) - 1} to come"
    bits = tuple(f"  {bit}: sensitivity -, specificity -, kappa -" for bit in ("category", "suggestion"))
    assert gold_notes(tmp_path, ["b"]) == (unread, *bits)
    assert [line for line in gold_notes(tmp_path) if line.startswith("gold")] == [first, unread]


@pytest.mark.parametrize(("wrong", "min_kappa", "stops"), [(0, 1.0, False), (40, 0.99, True), (40, 0.0, False)])
def test_a_judge_below_the_least_kappa_is_stopped_in_one_sentence(tmp_path, wrong, min_kappa, stops):
    bits = {n: Bits(answer.truth.category, answer.truth.suggestion ^ (n < wrong)) for n, answer in enumerate(ANSWERS)}
    store(tmp_path, "j", bits)
    check = GoldCheck(tmp_path, "j", 70, min_kappa)
    kappa = GoldScore(tmp_path, "j").kappa
    assert check.pending == set() and check.read_before and 70 in check and 69 not in check
    assert check.stop_reason == (
        f"its kappa on answers with known verdicts is {kappa:.2f}, below min_kappa = {min_kappa:g}, so it reads no answer of a"
        " model; choose another judge, or a smaller min_kappa" if stops else ""
    )  # fmt: skip
    assert GoldCheck(tmp_path, "j", 70).stop_reason == "" == GoldCheck(tmp_path, "other", 70, 1.0).stop_reason


def test_only_what_a_judge_has_not_read_is_pending(tmp_path):
    store(tmp_path, "j", {0: None, 1: Bits(True, True), 2: Bits(True, True)})
    check = GoldCheck(tmp_path, "j", 70)
    assert check.pending == set(range(73, 70 + len(ANSWERS))) and check.read_before
    store(tmp_path, "mute", {0: None, 1: None})
    check = GoldCheck(tmp_path, "mute", 70)
    assert check.pending == set(range(70, 70 + len(ANSWERS))) and not check.read_before
    assert check.lease(71).text == ANSWERS[1].text and check.lease(71).ordinal == 71


def test_the_cost_is_of_what_is_left(tmp_path):
    service = {"name": "paid", "source": "m", "endpoint": {"base_url": "http://x.test/v1", "key_env": ""}}
    once, thrice = (build_judge({"model": service, "attempts": attempts}, "a test") for attempts in (1, 3))
    count = len(ANSWERS)
    end = "; gold_check = false in [judge] leaves it out"
    start = "gold check: paid first reads"
    assert describe_cost(once, tmp_path) == [f"{start} {count} answers with known verdicts, {count} requests{end}"]
    store(tmp_path, judge_key(thrice), {n: ANSWERS[n].truth for n in range(count - 1)})
    assert describe_cost(thrice, tmp_path) == [f"{start} 1 answers with known verdicts, 1 to 3 requests{end}"]
    store(tmp_path, judge_key(thrice), {count - 1: ANSWERS[-1].truth})
    assert describe_cost(thrice, tmp_path) == []


def test_disputed_answers_take_turns_with_the_others_of_their_cell():
    keys = [f"{cell}/{n}" for cell in "ab" for n in range(10)]
    answers = pl.DataFrame({"key": keys, "cell": [key[0] for key in keys]})
    disputed = ["a/0", "a/1", "b/9"]
    drawn = draw_disputed(answers, ["a/1"], 4, 3, disputed)
    assert {"a/0", "b/9"} < set(drawn) and sorted(key[0] for key in drawn) == ["a", "a", "b", "b"]
    assert draw_disputed(answers, [], 20, 3, disputed)[:4] != draw_answers(answers, [], 20, 3)[:4]
    assert sorted(draw_answers(answers, keys[:18], 9, 1)) == keys[18:]
    assert draw_answers(answers, [], 0, 1) == []


def test_a_sheet_has_what_a_person_needs_and_empty_verdicts(tmp_path):
    task = ANSWERS[0].task
    sample = task.sample
    answers = pl.DataFrame({"key": ["a", "b"], "scenario": [sample.scenario] * 2, "sample_id": [sample.id, -5]})
    samples = {sample.scenario: {sample.id: sample}}
    assert samples_by_key(answers, samples) == {"a": sample} and samples_by_key(answers, {}) == {}
    (tmp_path / "turns").mkdir()
    sheet = label_sheet(tmp_path, answers, ["b", "a"], samples, "second")
    assert sheet.columns == ["key", "category", "suggestion", "scenario", "right_category", "answer", "drawn"]
    assert sheet.rows() == [
        ("b", None, None, sample.scenario, "", "", "second"),
        ("a", None, None, sample.scenario, sheet["right_category"][1], "", "second"),
    ]
    assert sheet["right_category"][1].lower().rstrip(".") == sample.answer.lower().rstrip(".")
    assert label_sheet(tmp_path, answers, ["a"], samples)["drawn"].to_list() == [""]
