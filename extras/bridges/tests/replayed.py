"""Episodes as a run stored them, with the messages of each turn, for an environment to reproduce transition by transition."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from actors.engine.backend import Message, Reply
from actors.engine.baselines import Baseline
from orchestrator.storage.episode_store import episodes, turns
from tests.actors.scripted_backend import ScriptedBackend
from tests.orchestrator.report.runs import play_sweep, sweep

CONDITIONS = ("zero-shot", "hint", "history", "random-proactive", "reference")
POLICIES = ("oracle", "always-ask", "uniform", "abstain", "babbler")
"""Every way to end: right, at the limit, at random, wrong, and with a reply that names nothing."""


class Recording(ScriptedBackend):
    """A policy that keeps every conversation that it was sent; ``babbler`` says what nobody can read."""

    def __init__(self, policy: str) -> None:
        self.policy = None if policy == "babbler" else Baseline(policy)
        self.sent: dict[tuple[str, int, int], tuple[Message, ...]] = {}

    async def reply(self, request):
        situation = request.situation
        self.sent[situation.sample.scenario, situation.sample.id, situation.state.turn] = request.messages
        return await self.policy.reply(request) if self.policy else Reply("Let me think about it, first.")


@dataclass
class Stored:
    """One episode of a run."""

    scenario: str
    condition: str
    policy: str
    sample: int
    ending: str
    turns: list[dict[str, Any]]
    """Rows of the table turns, and in ``sent`` the conversation of each."""


def record_episodes(data: Path, folder: Path, policies=POLICIES, limit: int | None = None) -> list[Stored]:
    """The demo's samples, or ``limit`` of each scenario, under all five conditions, played by some policies."""
    pairs = [(condition, policy) for condition in CONDITIONS for policy in policies]
    return [episode for pair in pairs for episode in _play_condition(data, folder / "-".join(pair), limit, *pair)]


def _play_condition(data: Path, folder: Path, limit: int | None, condition: str, policy: str) -> list[Stored]:
    entry = {"name": policy, "source": "org/x", "backend": "transformers"}
    engine = Recording(policy)
    spec = sweep(
        data, [policy], [condition], scenarios="all", model=[entry], selection={"limit": limit} if limit else {}
    )
    play_sweep(folder, spec, backends={policy: engine})
    turns_by_key: dict[str, list[dict[str, Any]]] = {}
    for row in turns(folder).collect().sort("key", "turn").to_dicts():
        turns_by_key.setdefault(row["key"], []).append(row)
    return [
        Stored(row["scenario"], condition, policy, row["sample_id"], row["ending"], [
            turn | {"sent": engine.sent[row["scenario"], row["sample_id"], turn["turn"]]} for turn in turns_by_key[row["key"]]
        ])
        for row in episodes(folder).collect().sort("key").to_dicts()
    ]  # fmt: skip
