"""A worker plays what its engine can answer at once; what the entry says wins, and the scheduler hears of it."""

from __future__ import annotations

import pytest

from actors.engine.in_flight import choose_in_flight, expected_in_flight
from orchestrator.scheduling.commands import Demand
from orchestrator.scheduling.scheduler import Scheduler
from sweeps.registry import registry
from sweeps.spec import ModelSpec


def model(backend: str, **more: object) -> ModelSpec:
    return ModelSpec(**{"name": "m", "source": "s", "backend": backend, **more})


@pytest.mark.parametrize(
    ("entry", "cache", "episodes", "reason"),
    [
        (model("vllm"), 2_000_000, 384, "max_num_seqs 256 and those prepared ahead, a cache of 2,000,000 tokens"),
        (model("vllm"), 150_000, 75, "a cache of 150,000 tokens"),
        (model("vllm"), 1_000, 6, "a cache of 1,000 tokens"),
        (model("vllm", options={"max_num_seqs": 32}), 2_000_000, 48, "max_num_seqs 32 and"),
        (model("vllm"), None, 384, "max_num_seqs 256 and"),
        (model("transformers"), None, 32, "two batches"),
        (model("transformers", options={"batch": 4}), None, 8, "two batches"),
        (model("openai"), None, 64, "a service"),
        (model("vllm", in_flight=7), 2_000_000, 7, "in_flight of its entry"),
        (model("openai", in_flight=300), None, 300, "in_flight of its entry"),
    ],
)
def test_what_the_engine_takes_decides_unless_the_entry_does(entry, cache, episodes, reason):
    found = choose_in_flight(entry, cache)

    assert found.episodes == episodes and reason in found.reason
    assert str(found).startswith(f"plays {episodes:,} episodes at once (")
    assert found.episodes <= expected_in_flight(entry), "before it is ready, no lease is cut too small for it"


def test_of_the_papers_models_none_holds_a_number_of_its_own():
    assert {name for name, entry in registry().items() if entry.in_flight is not None} == {"embedded", "embedded-asks"}


def test_leases_follow_what_a_ready_worker_says():
    """1,000 episodes for one worker: a lease is a quarter of what is left, and never less than fills its engine."""
    schedule = Scheduler({"m": range(1000)}, {"m": Demand(0, 1, concurrency=256)}, 2, 1)
    schedule.on_begin()
    (first, *_) = schedule.on_ready(1, 1.0, at_once=50)

    assert schedule.groups["m"].demand.concurrency == 50 and len(first.ordinals) == 250
    assert len(schedule.slots[1].leases) == 2, "two leases fill it"
    kept = Scheduler({"m": range(1000)}, {"m": Demand(0, 1, concurrency=256)}, 2, 1)
    kept.on_begin()
    kept.on_ready(1, 1.0)
    assert kept.groups["m"].demand.concurrency == 256
