"""A worker plays as many episodes as its engine can answer at once, unless its entry sets a number."""

from __future__ import annotations

import pytest

from actors.engine.in_flight import choose_in_flight, expected_in_flight
from orchestrator.scheduling.commands import Demand
from orchestrator.scheduling.scheduler import Scheduler
from sweeps.spec import ModelSpec


def model(backend: str, **fields: object) -> ModelSpec:
    return ModelSpec(**{"name": "m", "source": "s", "backend": backend, **fields})


@pytest.mark.parametrize(
    ("entry", "cache", "episodes", "reason"),
    [
        (model("vllm"), 2_000_000, 384, "max_num_seqs 256 plus requests prepared ahead, a cache of 2,000,000 tokens"),
        (model("vllm"), 150_000, 75, "a cache of 150,000 tokens"),
        (model("vllm"), 1_000, 6, "a cache of 1,000 tokens"),
        (model("vllm", options={"max_num_seqs": 32}), 2_000_000, 48, "max_num_seqs 32 plus"),
        (model("vllm"), None, 384, "max_num_seqs 256 plus"),
        (model("transformers"), None, 32, "two batches"),
        (model("transformers", options={"batch": 4}), None, 8, "two batches"),
        (model("openai"), None, 64, "a service"),
        (model("vllm", in_flight=7), 2_000_000, 7, "in_flight of its entry"),
        (model("openai", in_flight=300), None, 300, "in_flight of its entry"),
    ],
)
def test_engine_capacity_decides_in_flight_unless_entry_does(entry, cache, episodes, reason):
    choice = choose_in_flight(entry, cache)

    assert choice.episodes == episodes and reason in choice.reason
    assert str(choice).startswith(f"plays {episodes:,} episodes at once (")
    assert choice.episodes <= expected_in_flight(entry), "before it is ready, no lease is cut too small for it"


def test_leases_follow_worker_capacity():
    """1,000 episodes for one worker: a lease is a quarter of what is left, and never less than fills its engine."""
    schedule = Scheduler({"m": range(1000)}, {"m": Demand(0, 1, concurrency=256)}, 2, 1)
    schedule.on_begin()
    (first, *_) = schedule.on_ready(1, 1.0, concurrency=50)

    assert schedule.groups["m"].demand.concurrency == 50 and len(first.ordinals) == 250
    assert len(schedule.slots[1].leases) == 2, "two leases fill it"
    unchanged = Scheduler({"m": range(1000)}, {"m": Demand(0, 1, concurrency=256)}, 2, 1)
    unchanged.on_begin()
    unchanged.on_ready(1, 1.0)
    assert unchanged.groups["m"].demand.concurrency == 256
