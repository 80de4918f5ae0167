"""Plays recorded episodes through the real verifiers, in an interpreter that has it: ``python -m ... EPISODES.json``.

A service on loopback gives the recorded replies and keeps what it was asked; for each episode one line of JSON is printed.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import verifiers.v1 as vf
from verifiers.v1.utils.loaders import environment_class, load_environment

from envs.types import Ending
from proactive_bridges.verifiers_taskset import ProactiveEnvConfig, replay
from tests.actors.service import Service, completion, serving


async def play(episodes: list[dict[str, Any]], data: str) -> None:
    """Play every episode, condition by condition."""
    replies: list[str] = []
    async with serving(lambda number, body: completion(replies.pop(0))) as service:
        for condition in dict.fromkeys(episode["condition"] for episode in episodes):
            group = [episode for episode in episodes if episode["condition"] == condition]
            await _play_condition(condition, group, data, service, replies)


async def _play_condition(
    condition: str, group: list[dict[str, Any]], data: str, service: Service, replies: list[str]
) -> None:
    config = {"taskset": {"id": "proactive-bridges", "data": data, "condition": condition}}
    env = load_environment(ProactiveEnvConfig.model_validate(config))
    tasks = {(task.data.scenario, task.data.sample): task for task in env.taskset}
    client = vf.EvalClientConfig(base_url=service.url, api_key_var="TESTS_KEY")
    async with env.serving():
        for episode in group:
            service.bodies.clear()
            replies[:] = episode["replies"]
            played_episode = await env.run_episode(
                tasks[episode["scenario"], episode["sample"]], vf.ModelContext(model="m", client=client)
            )
            print(json.dumps(_summarize(played_episode, service)), flush=True)


def _summarize(episode: vf.Episode, service: Service) -> dict[str, Any]:
    (trace,) = episode.traces
    game = replay(trace.task.data, trace)
    return {
        "ok": episode.ok, "errors": [error.message for error in trace.errors],
        "rewards": {n: r.score for n, r in trace.rewards.items()},
        "metrics": trace.metrics, "ending": None if game.ending is None else Ending(game.ending).value,
        "turns": [[turn.frame, turn.option, turn.category, turn.action, turn.move] for turn in game.turns],
        "sent": [list(_texts(body["messages"])) for body in service.bodies], "branches": trace.num_branches,
    }  # fmt: skip


def _texts(messages: list[dict[str, Any]]) -> Iterator[list[Any]]:
    """Role, text and number of pictures of each message."""
    for message in messages:
        content = message["content"]
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        text = "".join(part.get("text", "") for part in parts)
        yield [message["role"], text, sum(part["type"] == "image_url" for part in parts)]


if __name__ == "__main__":
    os.environ["TESTS_KEY"] = "none"
    assert environment_class("proactive-bridges").__name__ == "ProactiveEnv", "found by its name"
    asyncio.run(play(json.loads(Path(sys.argv[1]).read_text()), sys.argv[2]))
