"""Asks the package ``proactivebench`` what it accepts and how it reads a judge, one JSON line a fact: CI replays them.

    PYTHONPATH=<folder of the package> python3.12 tests/parity/record_oeg.py tests/parity/openended.jsonl.xz

Needs Python >= 3.12 and the package's modules ``environment`` and ``open_ended_gen``.
"""

from __future__ import annotations

import ast
import copy
import json
import lzma
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cases import SCENARIOS, entries
from proactivebench.environment import get_environment
from proactivebench.open_ended_gen import USER_PROMPT, get_oeg_judge_messages, parse_judge_prediction
from record import SEED, STEMS
from verdicts import reply

ENTRIES, REPLIES = 150, 9
"""Entries a scenario, and judges' replies an entry."""


def first_state(scenario: str, entry: dict[str, Any]) -> Any:
    """The environment as the package's example has it before it asks for the accepted answers."""
    environment = get_environment(STEMS[scenario])(entry=copy.deepcopy(entry), data_dir="")
    return environment, environment.get_state(hint=False)["prompt"]


def judge_list(question: str, valid: str) -> list[str]:
    """The list that the judge sees."""
    message = get_oeg_judge_messages(question, valid, "?")[1]["content"]
    before, after = USER_PROMPT.format(user_prompt=question, correct_answers="\0", generated_answer="?").split("\0")
    return [str(answer) for answer in ast.literal_eval(message[len(before) : -len(after)])]


def facts(rng: random.Random, scenario: str, entry: dict[str, Any]) -> dict[str, Any]:
    """Accepted answers of one entry, asked for twice as the example does, and verdicts on judges' replies."""
    environment, question = first_state(scenario, entry)
    valid = environment.get_open_ended_gen_answers()
    second_call = environment.get_open_ended_gen_answers()
    expected = len([answer for answer in valid.split(",") if answer.strip() != ""])
    verdicts = []
    for _ in range(REPLIES):
        text = reply(rng, expected)
        prediction = parse_judge_prediction(valid, text.rpartition("</think>")[2].strip("\n"), scenario)
        bits = [prediction["category_prediction"], prediction["proactive_suggestion"], prediction["aggregate"]]
        verdicts.append([text, bits])
    return {
        "scenario": scenario, "entry": entry, "question": question, "valid": valid, "shown": judge_list(question, valid),
        "expected": expected, "grows": second_call != valid, "verdicts": verdicts,
    }  # fmt: skip


def record_facts() -> Iterator[dict[str, Any]]:
    """Every entry that the package takes; the few whose video is too short for it are left out."""
    rng = random.Random(SEED)
    for scenario in SCENARIOS:
        count = 0
        while count < ENTRIES:
            entry = entries(rng, scenario)
            try:
                fact = facts(rng, scenario, entry)
            except (ValueError, AssertionError):
                continue
            count += 1
            yield fact


def main(target: Path) -> None:
    lines = list(record_facts())
    content = "".join(json.dumps(line, ensure_ascii=True) + "\n" for line in lines)
    target.write_bytes(lzma.compress(content.encode(), preset=9))
    texts = sum(len(line["verdicts"]) for line in lines)
    print(f"{len(lines):,} entries, {texts:,} judges' replies; {target.stat().st_size:,} bytes")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
