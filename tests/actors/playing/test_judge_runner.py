"""A judge's runner: seeds that depend on run, answer and judge alone, recalled answers, keys and defaults."""

from __future__ import annotations

import asyncio
from hashlib import blake2b
from types import SimpleNamespace
from typing import Any

import pytest

from actors.engine.backend import Request, ScriptedBackend
from actors.playing.judge_runner import AnswerTask, JudgeRunner, LeasedAnswer, judge_key
from sweeps.conditions import CONDITIONS
from sweeps.spec import Cell, Judge, ModelSpec, Protocol
from tests.envs.games import SAMPLES

MODEL = ModelSpec(name="m", source="builtin:refuse", backend="builtin")
JUDGE = Judge(model=ModelSpec(name="j", source="org/judge", backend="vllm"))
CELL = Cell(model=MODEL, scenario="VSOD", condition=CONDITIONS["zero-shot"], protocol=Protocol.OEG)
TASK = AnswerTask(CELL, SAMPLES["VSOD"], "the key")


def runner(asked: list[Request], seed: int = 4, **fields: Any) -> JudgeRunner:
    return JudgeRunner(
        SimpleNamespace(seed=seed), JUDGE, ScriptedBackend(lambda r: asked.append(r) or "[0, 0, 0]"), **fields
    )


async def collect(judging: JudgeRunner, answers: list[LeasedAnswer]) -> list[int]:
    return [ordinal async for batch in judging.judge(answers) for ordinal in batch.ordinals]


def test_the_seed_of_a_verdict_is_that_of_run_answer_and_judge() -> None:
    """56 bits of the hash of the three."""
    asked: list[Request] = []
    judging = runner(asked)
    assert asyncio.run(collect(judging, [LeasedAnswer(7, "I refuse.", TASK)])) == [7]

    first = blake2b(f"4/the key/{judge_key(JUDGE)}".encode(), digest_size=7).hexdigest()
    assert asked[0].seed == int(first, 16) and asked[0].situation.sample is SAMPLES["VSOD"]


def test_answers_of_recalled_episodes_are_skipped_unless_begun() -> None:
    asked: list[Request] = []
    judging = runner(asked, in_flight=1)
    answers = [LeasedAnswer(number, "no", TASK) for number in range(6)]

    async def run() -> list[int]:
        lease = judging.judge(answers)
        judging.recall([1, 4, 99])
        return [ordinal async for batch in lease for ordinal in batch.ordinals]

    assert asyncio.run(run()) == [0, 2, 3, 5]


def test_a_runner_judges_as_many_as_its_entry_says() -> None:
    assert (runner([]).in_flight, runner([], in_flight=3).in_flight) == (384, 3)
    name, _, rest = judge_key(JUDGE).partition("/")
    assert name == "j" and rest.startswith("ours-") and len(rest) == len("ours-") + 8


@pytest.mark.parametrize(
    ("change", "equal"), [({"attempts": 9}, False), ({"max_tokens": 9}, False), ({"gpus": 2}, True)]
)
def test_a_judge_s_key_changes_with_what_changes_verdicts(change: dict[str, int], equal: bool) -> None:
    if "gpus" in change:
        other = JUDGE.model_copy(update={"model": JUDGE.model.model_copy(update=change)})
    elif "attempts" in change:
        other = JUDGE.model_copy(update=change)
    else:
        other = JUDGE.model_copy(update={"sampling": JUDGE.sampling.model_copy(update=change)})
    assert (judge_key(other) == judge_key(JUDGE)) is equal
