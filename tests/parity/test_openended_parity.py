"""What is accepted, and how a judge's reply is read, agrees with the package on more than 9,000 recorded facts.

Recorded by ``record_oeg.py`` from ``proactivebench`` 0.1.1; replayed here without it.
"""

from __future__ import annotations

import json
import lzma
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from actors.playing.prompts import open_view
from envs import SCENARIOS
from envs.openended import NOTHING, accepted_answers, read_verdict, strict_verdict, strip_thinking
from sweeps.conditions import CONDITIONS
from tests.parity.test_parity import sample

FACTS = Path(__file__).with_name("openended.jsonl.xz")


@cache
def load_facts() -> tuple[dict[str, Any], ...]:
    return tuple(json.loads(line) for line in lzma.decompress(FACTS.read_bytes()).decode().split("\n") if line)


def facts_of(scenario: str) -> list[dict[str, Any]]:
    return [fact for fact in load_facts() if fact["scenario"] == scenario]


def bits(verdict: Any) -> list[int]:
    return [int(verdict.category), int(verdict.suggestion), int(verdict.aggregate)]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_accepted_answers_are_the_packages_in_its_order(scenario):
    for fact in facts_of(scenario):
        ours = accepted_answers(sample(scenario, fact["entry"]))

        assert list(ours) == fact["shown"] and len(ours) == fact["expected"]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_question_is_the_packages(scenario):
    for fact in facts_of(scenario):
        entry = sample(scenario, fact["entry"])
        view = open_view(entry, SCENARIOS[scenario].initial(entry), CONDITIONS["zero-shot"])

        assert view.prompt == fact["question"]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_verdict_is_the_packages(scenario):
    for fact in facts_of(scenario):
        for text, expected in fact["verdicts"]:
            assert bits(strict_verdict(text, scenario, fact["expected"])) == expected, text


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_verdict_differs_from_package_only_where_none(scenario):
    for fact in facts_of(scenario):
        for text, expected in fact["verdicts"]:
            ours = read_verdict(text, scenario, fact["expected"])
            if ours is None:
                cut_off = strip_thinking(text) is None
                assert cut_off or expected == bits(NOTHING), text
            else:
                assert bits(ours) == expected, text


def test_record_is_large_and_varied():
    records = [(fact, text, tuple(marks)) for fact in load_facts() for text, marks in fact["verdicts"]]
    counts = Counter(marks for _, _, marks in records)
    read = [read_verdict(text, fact["scenario"], fact["expected"]) for fact, text, _ in records]
    split = [fact for fact in load_facts() if "," in fact["entry"]["answer"]]

    assert len(records) >= 5_000 and {fact["scenario"] for fact in load_facts()} == set(SCENARIOS)
    assert set(counts) == {(0, 0, 0), (0, 1, 1), (1, 0, 1), (1, 1, 1)} and min(counts.values()) > 300, counts
    assert 500 < sum(verdict is None for verdict in read) < 0.6 * len(read)
    assert sum(verdict == NOTHING for verdict in read) > 200, "an honest zero is not the same as no verdict"
    assert len(split) > 30, "categories with a comma count as two answers"
    assert any(fact["grows"] for fact in load_facts()), "asked twice, the package's list of CIT grows (decision 0003)"
