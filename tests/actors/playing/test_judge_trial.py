"""A judge that reads nothing is stopped after its first answers; one that reads is never slowed down, and never stopped."""

from __future__ import annotations

import asyncio
from functools import partial
from types import SimpleNamespace

import pytest

from actors.engine.backend import ModelStopped
from actors.playing.judge import FIRST_ANSWERS, JudgeTrial


class Answers:
    """Judges answers in many lanes; ``reads`` says which of them, by number, get a verdict."""

    def __init__(self, reads, passed: bool = False):
        self.reads, self.trial = reads, JudgeTrial("j", passed)
        self.begun = self.stopped = self.most_at_once = 0

    def judge(self, count: int, lanes: int) -> Answers:
        asyncio.run(self._judge(iter(range(count)), lanes))
        return self

    async def _judge(self, numbers, lanes: int) -> None:
        await asyncio.gather(*(self._lane(numbers) for _ in range(lanes)))

    async def _lane(self, numbers) -> None:
        for number in numbers:
            try:
                await self.trial.run(partial(self._judge_one, number))
            except ModelStopped as stop:
                self.stopped += 1
                self.sentence = str(stop)
                return

    async def _judge_one(self, number: int) -> SimpleNamespace:
        self.begun += 1
        self.most_at_once = max(self.most_at_once, self.trial.running)
        await asyncio.sleep(0)
        return SimpleNamespace(reason="" if self.reads(number) else "no list")


@pytest.mark.parametrize("lanes", [1, 7, 64])
def test_twenty_answers_without_a_verdict_and_nothing_more_is_asked(lanes):
    answers = Answers(lambda number: False).judge(200, lanes)
    assert (answers.begun, answers.stopped) == (FIRST_ANSWERS, lanes)
    assert answers.sentence.startswith("j gave no verdict on its first 20 answers") and "no list" in answers.sentence


@pytest.mark.parametrize("first_read", [0, 5, 19])
def test_one_verdict_among_the_first_twenty_goes_on_with_all_lanes(first_read):
    answers = Answers(lambda number: number == first_read or number >= 20).judge(400, 64)
    assert (answers.begun, answers.stopped) == (400, 0) and answers.most_at_once > FIRST_ANSWERS


@pytest.mark.parametrize(("read", "stops"), [(4, True), (5, False)])
def test_fewer_than_five_percent_of_the_first_hundred_stop_it_too(read, stops):
    answers = Answers(lambda number: number < read).judge(300, 1)
    assert (answers.begun == 100) is stops and (answers.stopped == 1) is stops
    assert not stops or answers.sentence.startswith("j gave 4 verdicts on its first 100 answers")


def test_cancelled_answers_free_their_places():
    async def play() -> None:
        trial, never = JudgeTrial("j"), asyncio.Event()
        first = [asyncio.create_task(trial.run(never.wait)) for _ in range(FIRST_ANSWERS)]
        await asyncio.sleep(0)
        other = asyncio.create_task(trial.run(partial(Answers(bool)._judge_one, 1)))
        for task in first:
            task.cancel()
        await asyncio.wait_for(other, 5)

    asyncio.run(play())
