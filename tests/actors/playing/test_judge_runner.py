"""A judge's runner: recalled answers are skipped, and its key changes with what changes verdicts."""

import asyncio
from types import SimpleNamespace

import pytest

from actors.playing.judge_runner import JudgeRunner, LeasedAnswer, judge_key
from actors.playing.records import AnswerTask
from sweeps.load import build_cell
from sweeps.spec import Judge, ModelSpec, Protocol
from tests.actors.scripted_backend import ScriptedBackend
from tests.envs.games import SAMPLES

JUDGE = Judge(model=ModelSpec(name="j", source="org/judge", backend="vllm"))
TASK = AnswerTask(build_cell("VSOD", "zero-shot", protocol=Protocol.OEG), SAMPLES["VSOD"], "the key")


def test_answers_of_recalled_episodes_are_skipped_unless_begun() -> None:
    judging = JudgeRunner(SimpleNamespace(seed=4), JUDGE, ScriptedBackend(lambda request: "[0, 0, 0]"), in_flight=1)
    answers = [LeasedAnswer(number, "no", TASK) for number in range(6)]

    async def run() -> list[int]:
        lease = judging.judge(answers)
        judging.recall([1, 4, 99])
        return [ordinal async for batch in lease for ordinal in batch.ordinals]

    assert asyncio.run(run()) == [0, 2, 3, 5]


SHORTER = JUDGE.sampling.model_copy(update={"max_tokens": 9})
ON_TWO_GPUS = JUDGE.model.model_copy(update={"gpus": 2})


@pytest.mark.parametrize(
    ("change", "equal"), [({"attempts": 9}, False), ({"sampling": SHORTER}, False), ({"model": ON_TWO_GPUS}, True)]
)
def test_a_judge_s_key_changes_with_what_changes_verdicts(change: dict[str, object], equal: bool) -> None:
    assert (judge_key(JUDGE.model_copy(update=change)) == judge_key(JUDGE)) is equal


def test_a_judge_keeps_its_key_so_that_no_stored_verdict_is_bought_twice() -> None:
    assert judge_key(JUDGE) == "j/ours-753ca4ef"
