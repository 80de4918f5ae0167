"""A judge that episodes wait for: it stands first and as long as they play, and whoever waits is not to blame."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.scheduling.commands import Abandon, Demand, Drop, Lease, Start, Stop
from orchestrator.scheduling.nodes import Node
from orchestrator.scheduling.scheduler import MAX_FAILED_STARTS, MAX_JUDGE_LOSSES, Scheduler
from orchestrator.scheduling.state import SILENCE_TIMEOUT_S
from tests.orchestrator.scheduling.test_scheduler import World

JUDGE = "judge:j"


def schedule(episodes: int = 300, gpus: int = 4, replicas: int = 1, width: int = 1, **more) -> Scheduler:
    demands = {
        "m": Demand(0, width, concurrency=16, judge=JUDGE),
        JUDGE: Demand(0, 1, pool="judges", standing_replicas=replicas, replicas=replicas),
    }
    return Scheduler({"m": range(episodes), JUDGE: ()}, demands, 8, gpus, shares={"models": gpus - replicas, **more})


class Bench(World):
    """A world in which nobody delivers while no worker of the judge is ready."""

    def step(self) -> None:
        ready = [slot for slot, name in self.alive.items() if name == JUDGE and slot not in self.starting]
        if not ready and JUDGE in self.alive.values():
            slot = next(slot for slot, name in self.alive.items() if name == JUDGE)
            self.starting.remove(slot)
            return self.take(self.schedule.on_ready(slot))
        return super().step()


def started(commands) -> list[str]:
    return [command.group for command in commands if isinstance(command, Start)]


def test_the_judge_starts_before_those_who_wait_for_it_and_takes_no_share_of_theirs():
    commands = schedule(3000, gpus=4, replicas=2).on_begin()

    assert started(commands)[:2] == [JUDGE, JUDGE] and set(started(commands)[2:]) == {"m"}


@given(seed=st.integers(0, 10_000), death=st.sampled_from([0.0, 0.02, 0.05]), replicas=st.integers(1, 3))
@settings(max_examples=40)
def test_every_episode_is_delivered_once_whoever_dies(seed, death, replicas):
    world = Bench(schedule(replicas=replicas), Random(seed), death)
    world.run()

    assert world.abandoned or set(world.delivered) | set(world.given_up) == set(range(300))
    assert not world.delivered or max(world.delivered.values()) == 1


def test_it_stays_without_a_lease_until_the_last_episode_and_goes_then():
    one = schedule(32, gpus=2)
    one.on_begin()
    one.on_ready(1)
    leases = [command for command in one.on_ready(2) if isinstance(command, Lease)]
    assert one.on_tick(10.0) == [] and 1 in one.slots

    one.on_heartbeat(1, 5, 2 * SILENCE_TIMEOUT_S)
    assert one.groups[JUDGE].answered == 5
    *some, last = leases
    for lease in some:
        assert Stop(1) not in one.on_delivery(2, lease.lease, lease.ordinals, 2 * SILENCE_TIMEOUT_S)
        one.on_lease_end(2, lease.lease, 2 * SILENCE_TIMEOUT_S)
    assert Stop(1) in one.on_delivery(2, last.lease, last.ordinals, 2 * SILENCE_TIMEOUT_S)
    assert one.on_lease_end(2, last.lease, 2 * SILENCE_TIMEOUT_S) == [Stop(2)] and one.done


def test_who_waits_for_a_judge_that_loads_is_not_silent_and_its_lease_is_not_late():
    one = schedule(32, gpus=2)
    one.on_begin()
    one.on_ready(2, 1.0)
    for now in range(60, 3600, 60):
        assert one.on_tick(float(now)) == []
    one.on_ready(1, 3600.0)

    assert one.on_tick(3600.0 + SILENCE_TIMEOUT_S / 3) == []


def test_a_hung_judge_is_replaced_before_those_who_wait_for_it_count_as_silent():
    one = schedule(32, gpus=2)
    one.on_begin()
    one.on_ready(1, 0.0)
    one.on_ready(2, 0.0)
    commands = one.on_tick(SILENCE_TIMEOUT_S / 2 + 1)

    assert [command.slot for command in commands if isinstance(command, Drop)] == [1]
    assert started(commands) == [JUDGE] and one.slots[2].leases


def test_a_judge_that_never_loads_ends_those_who_wait_for_it_with_its_reason():
    one = schedule(32, gpus=2)
    one.on_begin()
    one.on_ready(2)
    commands = []
    for _ in range(MAX_FAILED_STARTS):
        slot = next(slot for slot, worker in one.slots.items() if worker.group.name == JUDGE)
        commands += one.on_death(slot, "no such file")

    ended = [command for command in commands if isinstance(command, Abandon)]
    assert ended == [Abandon(JUDGE, "no such file"), Abandon("m", f"{JUDGE} cannot read its answers: no such file")]
    assert Stop(2) in commands and one.done


def test_a_judge_that_dies_again_and_again_without_an_episode_ends_the_attempt_and_with_one_it_does_not():
    for episode in (False, True):
        one = schedule(3000, gpus=2)
        one.on_begin()
        leases = [command for command in one.on_ready(2) if isinstance(command, Lease)]
        abandoned = []
        for death in range(MAX_JUDGE_LOSSES):
            slot = next(slot for slot, worker in one.slots.items() if worker.group.name == JUDGE)
            one.on_ready(slot)
            if episode and death == MAX_JUDGE_LOSSES // 2:
                one.on_delivery(2, leases[0].lease, leases[0].ordinals[:1])
            abandoned += [c.group for c in one.on_death(slot, "killed") if isinstance(c, Abandon)]
        assert abandoned == ([] if episode else [JUDGE, "m"])


@pytest.mark.parametrize("gpus", [1, 4])
def test_a_model_that_does_not_fit_beside_the_judge_is_left_out_with_a_sentence(gpus):
    one = schedule(32, gpus=gpus, width=gpus)
    of = "GPUs" if gpus > 1 else "GPU"

    assert one.on_begin() == [
        Abandon("m", f"m needs {gpus} {of}, the cluster has {gpus - 1} in addition to 1 GPU for {JUDGE}")
    ]


def test_a_judge_on_a_node_that_goes_gets_another_one_that_others_leave():
    nodes = [Node("a", 1), Node("b", 1)]
    demands = {"m": Demand(0, 1, judge=JUDGE), JUDGE: Demand(0, 1, pool="judges", standing_replicas=1, replicas=1)}
    one = Scheduler({"m": range(50), JUDGE: ()}, demands, 8, 2, nodes, {"models": 1})
    begun = one.on_begin()
    place = {command.group: command for command in begun if isinstance(command, Start)}
    left = next(node for node in nodes if node.name == place["m"].node)

    assert one.on_nodes([left], 8, 1.0) == []
    assert one.on_death(place[JUDGE].slot, "its node is gone", 2.0) == [], "its GPU is the other's"
    assert one.on_nodes([left, Node("c", 1)], 8, 3.0) == [Start(3, JUDGE, "c")]


def test_it_goes_when_all_who_would_wait_for_it_are_paused_and_comes_back_with_them():
    one = schedule(32, gpus=2)
    one.on_begin()
    one.on_ready(1)
    leases = [command for command in one.on_ready(2) if isinstance(command, Lease)]
    one.hold("m", paused=range(32), now=1.0)
    for lease in leases:  # what is recalled comes back undelivered
        one.on_lease_end(2, lease.lease, 2.0)
    one.on_tick(3.0)
    assert 1 not in one.slots and not one.done

    assert started(one.hold("m", now=4.0)) == [JUDGE]
