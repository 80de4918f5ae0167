"""Workers that ask a judge's workers: the least busy one, another one after a death, and none for ever."""

from __future__ import annotations

import asyncio

import pytest

from actors.engine.backend import BackendDied, Refused, Reply, Request, ScriptedBackend, Situation, Unprocessable
from actors.playing import served_judge
from actors.playing.served_judge import MAX_DEATHS, RemoteJudge, ServedJudge
from envs import SCENARIOS
from sweeps.sampling import Sampling
from tests.envs.games import SAMPLES

SAMPLE = SAMPLES["QD"]


def request(seed: int = 0) -> Request:
    game = SCENARIOS[SAMPLE.scenario]
    state = game.initial(SAMPLE)
    return Request((), Sampling(), seed, Situation(SAMPLE, state, game.view(SAMPLE, state)))


class Actor:
    """A judge's worker as its handle shows it."""

    def __init__(self, answer) -> None:
        self.heard, self.answer, self.reply = [], answer, self

    async def remote(self, asked: Request) -> Reply:
        self.heard.append(asked.seed)
        return await self.answer(asked)


async def says_yes(asked: Request) -> Reply:
    await asyncio.sleep(0)
    return Reply(f"yes {asked.seed}")


async def dies(asked: Request) -> Reply:
    raise ConnectionError


def test_requests_wait_for_a_worker_and_are_spread_over_those_there_are():
    async def asked() -> tuple[list[Actor], list[str]]:
        judge, actors = RemoteJudge(ConnectionError), [Actor(says_yes), Actor(says_yes)]
        waiting = [asyncio.create_task(judge.reply(request(seed))) for seed in range(6)]
        await asyncio.sleep(0)
        assert not any(task.done() for task in waiting)
        await judge.set_workers(dict(enumerate(actors)))
        return actors, [reply.text for reply in await asyncio.gather(*waiting)]

    actors, texts = asyncio.run(asked())
    assert texts == [f"yes {seed}" for seed in range(6)]
    assert [len(actor.heard) for actor in actors] == [3, 3]


def test_after_a_death_another_worker_answers():
    async def asked() -> str:
        judge = RemoteJudge(ConnectionError)
        await judge.set_workers({1: Actor(dies), 2: Actor(says_yes)})
        return (await judge.reply(request(7))).text

    assert asyncio.run(asked()) == "yes 7"


@pytest.mark.parametrize("death", [ConnectionError, BackendDied])
def test_what_kills_judges_is_set_aside_and_everything_beside_it_is_answered(death):
    poison = 3

    async def asked() -> tuple[list[Reply | BaseException], int]:
        judge, started = RemoteJudge(ConnectionError), [0]

        def worker() -> Actor:
            started[0] += 1
            crashed = asyncio.Event()

            async def answer(asked: Request) -> Reply:
                await asyncio.sleep(0.001)
                if asked.seed == poison:
                    crashed.set()
                if crashed.is_set():
                    raise death
                return await says_yes(asked)

            return Actor(answer)

        async def replace() -> None:
            while True:
                if not judge.workers:
                    await judge.set_workers({started[0]: worker()})
                await asyncio.sleep(0)

        replacing = asyncio.create_task(replace())
        found = await asyncio.gather(*(judge.reply(request(seed)) for seed in range(12)), return_exceptions=True)
        replacing.cancel()
        return found, started[0]

    found, started = asyncio.run(asked())
    assert [seed for seed, one in enumerate(found) if isinstance(one, Unprocessable)] == [poison]
    assert [one.text for one in found if isinstance(one, Reply)] == [f"yes {s}" for s in range(12) if s != poison]
    assert MAX_DEATHS <= started <= MAX_DEATHS + 1


@pytest.mark.parametrize("problem", [Unprocessable, Refused])
def test_what_the_engine_says_of_a_request_reaches_who_asked(problem):
    async def refuses(asked: Request) -> Reply:
        raise problem("not this one")

    async def asked() -> None:
        judge = RemoteJudge(ConnectionError)
        await judge.set_workers({0: Actor(refuses)})
        await judge.reply(request())

    with pytest.raises(problem, match="not this one"):
        asyncio.run(asked())


def test_a_judge_is_heard_of_while_it_answers_or_has_nothing_to_answer(monkeypatch):
    monkeypatch.setattr(served_judge, "HEARTBEAT_S", 0.01)

    class Hung(ScriptedBackend):
        async def reply(self, asked: Request) -> Reply:
            await asyncio.sleep(3600)
            return Reply("")

    async def heard() -> tuple[int, bool]:
        judge = ServedJudge(ScriptedBackend(lambda asked: "0"))
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

    assert asyncio.run(heard()) == (1, True)


def test_a_judge_whose_engine_died_says_so_at_once(monkeypatch):
    monkeypatch.setattr(served_judge, "HEARTBEAT_S", 3600)

    def dead(asked: Request) -> str:
        raise BackendDied("out of memory")

    async def heard() -> None:
        judge = ServedJudge(ScriptedBackend(dead))
        coming = asyncio.ensure_future(anext(judge.heartbeats()))
        with pytest.raises(BackendDied):
            await judge.reply(request())
        await asyncio.wait_for(coming, 60)

    with pytest.raises(BackendDied, match="out of memory"):
        asyncio.run(heard())
