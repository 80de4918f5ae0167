"""What the oracle would say in a sitting, in the order in which the sitting asks."""

from __future__ import annotations

import asyncio

from actors.engine.backend import Message, Reply, Request
from actors.engine.baselines import Baseline
from actors.playing.episode_runner import EpisodeRunner
from orchestrator.planning.build_plan import build_plan
from proactive_people.session import order
from sweeps.spec import Sweep


class Recorder(Baseline):
    """The oracle, which records its requests and replies."""

    def __init__(self) -> None:
        super().__init__("oracle")
        self.turns: list[tuple[Request, str]] = []

    async def reply(self, request: Request) -> Reply:
        answer = await super().reply(request)
        self.turns.append((request, answer.text))
        return answer


def oracle_turns(sweep: Sweep) -> list[tuple[Request, str]]:
    """Return every question of the sitting and the oracle's reply to it."""
    plan, recorder = build_plan(sweep), Recorder()
    (name,) = (model.name for model in sweep.models)
    runner = EpisodeRunner(plan, {name: recorder}, in_flight=1)

    async def play_all() -> None:
        for ordinal in order(plan, plan.pending(())[name], name):
            async for _ in runner.play([ordinal]):
                pass

    asyncio.run(play_all())
    return recorder.turns


def texts(messages: tuple[Message, ...]) -> list[str]:
    return [message.text for message in messages]
