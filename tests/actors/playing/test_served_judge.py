"""Workers that ask a judge's workers: the least busy one, another one after a death, and none for ever."""

import asyncio

import pytest

from actors.engine.backend import BackendDied, Reply, Request, Situation, Unprocessable
from actors.playing import served_judge
from actors.playing.served_judge import MAX_DEATHS, RemoteJudge, ServedJudge
from envs import SCENARIOS
from sweeps.sampling import Sampling
from tests.actors.scripted_backend import ScriptedBackend
from tests.envs.games import SAMPLES

SAMPLE = SAMPLES["QD"]


def request(seed: int = 0) -> Request:
    game = SCENARIOS[SAMPLE.scenario]
    state = game.initial(SAMPLE)
    return Request((), Sampling(), seed, Situation(SAMPLE, state, game.view(SAMPLE, state)))


class Actor:
    """A judge's worker, as its handle shows it."""

    def __init__(self, answer) -> None:
        self.answer, self.reply = answer, self

    async def remote(self, request: Request) -> Reply:
        return await self.answer(request)


async def says_yes(request: Request) -> Reply:
    await asyncio.sleep(0)
    return Reply(f"yes {request.seed}")


@pytest.mark.parametrize("death", [ConnectionError, BackendDied])
def test_fatal_request_is_dropped_and_others_are_answered(death):
    poison = 3

    async def ask_with_replacements() -> tuple[list[Reply | BaseException], int]:
        judge, started = RemoteJudge(ConnectionError, TimeoutError), [0]

        def worker() -> Actor:
            started[0] += 1
            crashed = asyncio.Event()

            async def answer(request: Request) -> Reply:
                await asyncio.sleep(0.001)
                if request.seed == poison:
                    crashed.set()
                if crashed.is_set():
                    raise death
                return await says_yes(request)

            return Actor(answer)

        async def replace() -> None:
            while True:
                if not judge.workers:
                    await judge.set_workers({started[0]: worker()})
                await asyncio.sleep(0)

        replacing = asyncio.create_task(replace())
        outcomes = await asyncio.gather(*(judge.reply(request(seed)) for seed in range(12)), return_exceptions=True)
        replacing.cancel()
        return outcomes, started[0]

    results, started = asyncio.run(ask_with_replacements())
    assert [seed for seed, outcome in enumerate(results) if isinstance(outcome, Unprocessable)] == [poison]
    assert [outcome.text for outcome in results if isinstance(outcome, Reply)] == [
        f"yes {s}" for s in range(12) if s != poison
    ]
    assert MAX_DEATHS <= started <= MAX_DEATHS + 1


def test_judge_sends_heartbeats_while_busy_or_idle(monkeypatch):
    monkeypatch.setattr(served_judge, "HEARTBEAT_S", 0.01)

    class Hung(ScriptedBackend):
        async def reply(self, request: Request) -> Reply:
            await asyncio.sleep(3600)
            return Reply("")

    async def watch_heartbeats() -> tuple[int, bool]:
        judge = ServedJudge(ScriptedBackend(lambda query: "0"))
        beats = judge.heartbeats()
        assert await anext(beats) == 0
        await judge.reply(request())
        answered = await anext(beats)
        judge.backend = Hung(str)
        hung = asyncio.create_task(judge.reply(request()))
        await asyncio.sleep(0)
        coming = asyncio.ensure_future(anext(beats))
        _, silent = await asyncio.wait({coming}, timeout=0.2)
        coming.cancel()
        hung.cancel()
        return answered, bool(silent)

    assert asyncio.run(watch_heartbeats()) == (1, True)


@pytest.mark.parametrize("replaced", [False, True])
def test_a_worker_out_of_reach_is_asked_again_until_it_answers_or_is_replaced(monkeypatch, replaced):
    monkeypatch.setattr(served_judge, "RETRY_PAUSE_S", 0.01)
    failures = iter(range(10**9 if replaced else 2 * MAX_DEATHS))

    async def ask() -> Reply:
        judge = RemoteJudge(ConnectionError, TimeoutError)

        async def answer(request: Request) -> Reply:
            if replaced:
                await judge.set_workers({1: Actor(says_yes)})
            for _ in failures:
                raise TimeoutError
            return await says_yes(request)

        await judge.set_workers({0: Actor(answer)})
        return await asyncio.wait_for(judge.reply(request()), 5)

    assert asyncio.run(ask()).text == "yes 0"
