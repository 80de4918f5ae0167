"""Replicas in pipeline stages over several nodes: placed whole stage by stage, and lost with any of their nodes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from orchestrator.execution.model_packages import worker_options
from orchestrator.scheduling.commands import Abandon, Demand, Drop, Lease, Start
from orchestrator.scheduling.nodes import Node, Nodes, Place, build_nodes
from orchestrator.scheduling.scheduler import Scheduler
from orchestrator.scheduling.wanted_gpus import wanted_bundles
from sweeps.load import build
from sweeps.sweep_file import SweepError
from tests.simulated_schedule import FaultModel, simulate

PAIR = ("node-0", "node-1")
WIDE = Demand(0, 16, 4, concurrency=8, stages=2)
ONE = Demand(0, 1, 64, concurrency=8)


def schedule(nodes: int, work: dict[str, Demand] | None = None, episodes: int = 1000, **options) -> Scheduler:
    """Return a schedule on nodes of 8 GPUs, by default of one model on two of them."""
    work = work or {"wide": WIDE}
    queues = {name: range(n * 10**6, n * 10**6 + episodes) for n, name in enumerate(work)}
    return Scheduler(queues, work, 0, 8 * nodes, build_nodes(8 * nodes), **options)


def only(kind: type, commands) -> list:
    return [command for command in commands if isinstance(command, kind)]


# -- the nodes --------------------------------------------------------------------------------------------------------
def test_stages_go_to_the_fewest_nodes_and_to_the_tightest_last():
    nodes = Nodes([Node("a", 8), Node("b", 4), Node("c", 6, "H200"), Node("d", 4)])

    assert nodes.fit(8, 2) == Place("a"), "one node is wide enough"
    assert nodes.fit(12, 3) == Place("a", None, ("a", "a", "b")), "whole stages of 4; b fits more tightly than c"
    assert nodes.fit(20, 5) == Place("a", None, ("a", "a", "b", "c", "d"))
    assert nodes.fit(12, 2) == Place("a", None, ("a", "c")) and nodes.fit(24, 2) is None
    assert nodes.fit(12, 3, "H200") is None and nodes.fit(12, 3, without={"b", "c"}) == Place(
        "a", None, ("a", "a", "d")
    )
    assert nodes.fit(12) is None, "without stages it never leaves its node"


# -- the scheduler ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("lost", [0, 1])
def test_either_lost_node_takes_the_leases_back_once(lost):
    scheduler = schedule(2, episodes=8)
    scheduler.on_begin()
    (lease,) = scheduler.on_ready(1, 1.0)
    assert isinstance(lease, Lease) and len(lease.ordinals) == 8
    rest = (build_nodes(16)[1 - lost],)

    assert only(Drop, scheduler.on_nodes(rest, 0, 2.0)) == [Drop(1, "a node of its pipeline stages is lost")]
    assert scheduler.on_death(1, "its actor died", 3.0) == [], "Ray may report the same loss"
    assert scheduler.remaining(scheduler.groups["wide"]) == 8 and not scheduler.slots
    assert scheduler.nodes.free == {rest[0].name: 8} and scheduler.groups["wide"].losses == 0
    assert scheduler.on_nodes(build_nodes(16), 0, 4.0) == [Start(2, "wide", Place("node-0", None, PAIR))]
    leases, played = only(Lease, scheduler.on_ready(2, 5.0)), list[int]()
    while leases:
        lease = leases.pop()
        played += lease.ordinals
        leases += only(Lease, scheduler.on_delivery(2, lease.lease, lease.ordinals, 6.0))
        leases += only(Lease, scheduler.on_lease_end(2, lease.lease, 6.0))
    assert sorted(played) == list(range(8)) and scheduler.done


def test_it_waits_for_nodes_and_is_abandoned_when_none_came():
    reason = "wide needs 16 GPUs in 2 stages of 8; the cluster has 8 in whole stages"
    assert schedule(1).on_begin() == [Abandon("wide", reason)]
    scheduler = schedule(1, wait=7200)

    assert scheduler.on_begin() == []
    wait = scheduler.describe_wait(scheduler.groups["wide"])
    assert wait == "waits up to 2 h for nodes with 16 GPUs in 2 stages of 8; they have 8"
    assert wanted_bundles(scheduler, {}) == [{"GPU": 8}] * 2 * WIDE.replicas, (
        "the autoscaler is asked for a node per stage"
    )
    assert scheduler.on_tick(7199) == [] and scheduler.on_tick(7201) == [Abandon("wide", reason)]


@pytest.mark.parametrize("seed", range(12))
def test_every_episode_is_delivered_once_on_nodes_that_are_never_overfull(seed):
    """Models of every width on four nodes, with workers that die."""
    work = {"wide": replace(WIDE, rate=2.0, start=30.0), "m": replace(ONE, rate=1.0, start=5.0),
            "four": Demand(0, 4, rate=1.0, start=9.0), "deep": Demand(0, 24, rate=3.0, start=40.0, stages=6)}  # fmt: skip
    pending = {name: range(n * 10**6, n * 10**6 + 40 + 700 * n) for n, name in enumerate(work)}
    nodes = build_nodes(32)
    run = simulate(pending, work, 32, FaultModel(seed, deaths=0.2, silent=0.2, skew=0.3), nodes)

    missing = sum(map(len, pending.values())) - len(run.delivered) - len(run.given_up)
    assert run.duplicates == 0 and (not missing or run.abandoned)
    deep = [replica for replica in run.replicas if replica.start.group == "deep"]
    assert any(len(set(replica.start.place.stages)) == 3 for replica in deep)
    for moment in {replica.began for replica in run.replicas}:
        alive = [replica for replica in run.replicas if replica.began <= moment < replica.ended]
        for node in nodes:
            assert sum(each.start.place.share_of(node.name, each.work.gpus) for each in alive) <= node.gpus


# -- the entry --------------------------------------------------------------------------------------------------------
def sweep(**entry):
    return build({"name": "t", "data": "d", "model": [{"name": "m", "source": "org/m", **entry}]}, "mine.toml")


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"gpus": 16}, "gpus = 16 does not fit pipeline_parallel_size = 1"),
        ({"gpus": 9, "options": {"pipeline_parallel_size": 2}}, "gpus = 9 does not fit pipeline_parallel_size = 2"),
        ({"options": {"pipeline_parallel_size": "2"}}, "pipeline_parallel_size = '2' is no number of stages"),
        ({"gpus": 4, "options": {"pipeline_parallel_size": 2, "tensor_parallel_size": 4}}, "leave tensor_parallel_size out"),
        ({"options": {"distributed_executor_backend": "ray"}}, "is set automatically for a replica on several nodes"),
        ({"gpus": 16, "backend": "transformers"}, "only vLLM has replicas on several nodes"),
        ({"gpus": 16, "endpoint": {"base_url": "http://127.0.0.1:1/v1"}}, "write gpus = 8 or less"),
        ({"options": {"pipeline_parallel_size": 2}, "backend": "openai"}, "without pipeline_parallel_size"),
    ],
)  # fmt: skip
def test_what_cannot_be_split_is_refused_in_one_sentence(entry, words):
    with pytest.raises(SweepError) as refusal:
        sweep(**entry)
    assert words in str(refusal.value) and "\n" not in str(refusal.value)


def test_nodes_of_a_batch_invariant_replica_import_vllm_in_that_mode():
    (model,) = sweep(gpus=16, options={"pipeline_parallel_size": 2, "batch_invariant": True}).models
    assert worker_options([model]) == {"runtime_env": {"env_vars": {"VLLM_BATCH_INVARIANT": "1"}}}
    assert worker_options(sweep(options={"batch_invariant": True}).models) == {}
