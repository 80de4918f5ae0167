"""Small sweeps and an engine that answers after a while, the same to every seed: what is played in a simulated world."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from actors.engine.backend import Backend, Reply, Request
from actors.engine.baselines import Baseline
from orchestrator.planning.build_plan import build_plan
from orchestrator.planning.plan import Plan
from sweeps.load import build
from sweeps.model import ModelSpec
from sweeps.spec import Sweep
from tests.simulation.simulated_actor import current_actor

REPLY_S, SPEAKER_REPLY_S = (0.05, 2.0), (0.05, 8.0)
"""Least and most virtual seconds of a reply; a model whose answers are judged is slower, so that verdicts come while it plays."""
SAMPLES, MORE_SAMPLES = 3, 6
"""Samples per cell of a storm, and of the runs in which earlier storms found something: fewer make as many orders of events."""
CLUSTERS = (((2.0, 8.0), (2.0, 8.0)), ((1.0, 4.0), (2.0, 8.0), (1.0, 4.0)), ((4.0, 16.0),))
"""GPUs and CPUs of the nodes of each cluster."""


POLICIES = {"judge": "rule-judge", "speaker": "ask-properly"}
"""Name of a model -> its policy, if it is not ``uniform``."""


class ScriptedEngine(Backend):
    """A policy that thinks for a random while of virtual time, and whose process ends at a ``poisoned`` episode."""

    def __init__(self, model: ModelSpec, chance: Random, poisoned: Collection[str] = ()) -> None:
        policy = model.source[8:] if model.backend == "builtin" else POLICIES.get(model.name, "uniform")
        self.policy, self.chance, self.poisoned = Baseline(policy), chance, poisoned
        self.seconds = SPEAKER_REPLY_S if model.name == "speaker" else REPLY_S

    async def reply(self, request: Request) -> Reply:
        if request.key in self.poisoned:
            current_actor.get().end()
        await asyncio.sleep(self.chance.uniform(*self.seconds))
        return await self.policy.reply(request)


@dataclass
class Benchmark:
    """The data of the sweeps, their plans, and the results of their undisturbed runs."""

    data: Path
    samples: int = SAMPLES
    plans: dict[str, Plan] = field(default_factory=dict)
    expected: dict[str, bytes] = field(default_factory=dict)
    endings: dict[str, dict[str, str]] = field(default_factory=dict)
    """Sweep -> key -> how the episode ends if nothing goes wrong."""
    sweeps: dict[int, Sweep] = field(default_factory=dict)

    def sweep(self, seed: int) -> Sweep:
        kind = seed % len(TABLES)
        if kind not in self.sweeps:
            table = {
                "name": f"simulated-{kind}",
                "data": str(self.data),
                "tracking": {"uri": "none"},
                **build_table(kind, self.samples),
            }
            self.sweeps[kind] = build(table, "simulated.toml")
        return self.sweeps[kind]

    def plan(self, seed: int) -> Plan:
        sweep = self.sweep(seed)
        if sweep.name not in self.plans:
            self.plans[sweep.name] = build_plan(sweep)
        return self.plans[sweep.name]

    @staticmethod
    def nodes(seed: int) -> tuple[tuple[float, float], ...]:
        return CLUSTERS[seed // len(TABLES) % len(CLUSTERS)]


def _model(name: str, gpus: float, in_flight: int = 4) -> dict[str, object]:
    """Return an entry; a lease has more episodes than ``in_flight`` if that is 1, so some can be recalled."""
    return {"name": name, "source": name, "backend": "vllm", "gpus": gpus, "in_flight": in_flight}


_CLUSTER = {"silence": 60.0, "wait_hours": 1.0}
TABLES: tuple[dict[str, object], ...] = (
    {"model": [_model("one", 1, in_flight=1), _model("two", 1)], "conditions": ["zero-shot", "hint"]},
    {
        "models": ["guess-aloud", "speaker"],
        "model": [_model("speaker", 1, in_flight=1)],
        "conditions": ["zero-shot", "hint"],
        "protocol": "oeg",
        "judge": {"gold_check": False, "model": _model("judge", 1)},
    },
    {"model": [_model("half", 0.5), _model("other-half", 0.5), _model("two", 2)], "conditions": ["zero-shot"]},
)
"""Plain, judged, and with shared and whole nodes. The sweep of a seed is the one with its number modulo their count."""


def build_table(kind: int, samples: int) -> dict[str, object]:
    """Return the sweep of a kind, with this many samples per cell."""
    limit = {"selection": {"limit": samples}}
    protocol = {"open_ended": limit} if "protocol" in TABLES[kind] else limit
    return {"scenarios": ["ROD", "QD"], "cluster": _CLUSTER, **protocol, **TABLES[kind]}
