"""A worker plays as many episodes as its engine can answer at once, unless its entry sets a number."""

from __future__ import annotations

import pytest

from actors.engine.in_flight import StartReport, choose_in_flight, expected_in_flight
from orchestrator.scheduling.commands import Demand
from orchestrator.scheduling.scheduler import Scheduler
from sweeps.registry import registry
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


def test_paper_models_set_no_in_flight():
    assert {name for name, entry in registry().items() if entry.in_flight is not None} == {"embedded", "embedded-asks"}


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


@pytest.mark.parametrize(
    ("entry", "cache", "sentence"),
    [
        (model("vllm"), 36_000,
         "plays 18 episodes at once (max_num_seqs 256 plus requests prepared ahead, a cache of 36,000 tokens at 3,000 a prompt)"),
        (model("vllm", options={"max_num_seqs": 7}), None,
         "plays 10 episodes at once (max_num_seqs 7 plus requests prepared ahead)"),
        (model("transformers"), 9, "plays 32 episodes at once (two batches: one is prepared while the other is answered)"),
        (model("openai"), None, "plays 64 episodes at once (a service or a policy)"),
        (model("openai", in_flight=1234), None, "plays 1,234 episodes at once (in_flight of its entry)"),
    ],
)  # fmt: skip
def test_the_choice_is_a_line_of_the_log(entry, cache, sentence):
    assert str(choose_in_flight(entry, cache)) == sentence


@pytest.mark.parametrize(("cache", "episodes"), [(0, 6), (14_999, 6), (15_000, 7), (17_999, 7), (18_000, 9)])
def test_a_small_cache_bounds_the_episodes_but_not_below_four_prompts(cache, episodes):
    assert choose_in_flight(model("vllm"), cache).episodes == episodes


def test_a_report_of_a_policy_has_no_more_than_lines():
    assert StartReport(["ready"]) == (["ready"], 0, {}, None)
