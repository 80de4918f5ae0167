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
def recorded() -> tuple[dict[str, Any], ...]:
    return tuple(json.loads(line) for line in lzma.decompress(FACTS.read_bytes()).decode().split("\n") if line)


def of(scenario: str) -> list[dict[str, Any]]:
    return [fact for fact in recorded() if fact["scenario"] == scenario]


def bits(found: Any) -> list[int]:
    return [int(found.category), int(found.suggestion), int(found.aggregate)]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_accepted_answers_are_the_packages_in_its_order(scenario):
    for fact in of(scenario):
        mine = accepted_answers(sample(scenario, fact["entry"]))

        assert list(mine) == fact["shown"] and len(mine) == fact["expected"]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_question_is_the_packages(scenario):
    for fact in of(scenario):
        entry = sample(scenario, fact["entry"])
        view = open_view(entry, SCENARIOS[scenario].initial(entry), CONDITIONS["zero-shot"])

        assert view.prompt == fact["question"]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_verdict_is_the_packages(scenario):
    for fact in of(scenario):
        for text, told in fact["verdicts"]:
            assert bits(strict_verdict(text, scenario, fact["expected"])) == told, text


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_verdict_differs_from_the_packages_only_where_it_is_none(scenario):
    for fact in of(scenario):
        for text, told in fact["verdicts"]:
            mine = read_verdict(text, scenario, fact["expected"])
            if mine is None:
                cut_off = strip_thinking(text) is None
                assert cut_off or told == bits(NOTHING), text
            else:
                assert bits(mine) == told, text


def test_the_record_is_large_and_varied_enough_to_mean_something():
    told = [(fact, text, tuple(said)) for fact in recorded() for text, said in fact["verdicts"]]
    seen = Counter(said for _, _, said in told)
    read = [read_verdict(text, fact["scenario"], fact["expected"]) for fact, text, _ in told]
    split = [fact for fact in recorded() if "," in fact["entry"]["answer"]]

    assert len(told) >= 5_000 and {fact["scenario"] for fact in recorded()} == set(SCENARIOS)
    assert set(seen) == {(0, 0, 0), (0, 1, 1), (1, 0, 1), (1, 1, 1)} and min(seen.values()) > 300, seen
    assert 500 < sum(verdict is None for verdict in read) < 0.6 * len(read)
    assert sum(verdict == NOTHING for verdict in read) > 200, "an honest zero is not the same as no verdict"
    assert len(split) > 30, "categories with a comma count as two answers"
    assert any(fact["grows"] for fact in recorded()), "asked twice, the package's list of CIT grows (decision 0003)"
