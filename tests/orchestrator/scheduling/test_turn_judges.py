"""A judge that episodes wait for starts first and stays while they play; models that wait for it are not blamed."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.scheduling.commands import Abandon, Demand, Lease, Start, Stop
from orchestrator.scheduling.scheduler import MAX_FAILED_STARTS, MAX_LOSSES, Scheduler
from orchestrator.scheduling.state import SILENCE_TIMEOUT_S
from tests.orchestrator.scheduling.test_scheduler import World

JUDGE = "judge:j"


def schedule(episodes: int = 300, gpus: int = 4, replicas: int = 1, width: int = 1, **more) -> Scheduler:
    demands = {
        "m": Demand(0, width, concurrency=16, judge=JUDGE),
        JUDGE: Demand(0, 1, pool="judges", standing_replicas=replicas, replicas=replicas),
    }
    return Scheduler({"m": range(episodes), JUDGE: ()}, demands, 8, gpus, shares={"models": gpus - replicas, **more})


class WaitingWorld(World):
    """A world in which no worker delivers while no judge is ready."""

    def step(self) -> None:
        ready = [slot for slot, name in self.alive.items() if name == JUDGE and slot not in self.starting]
        if not ready and JUDGE in self.alive.values():
            slot = next(slot for slot, name in self.alive.items() if name == JUDGE)
            self.starting.remove(slot)
            return self.take(self.schedule.on_ready(slot))
        return super().step()


def started_groups(commands) -> list[str]:
    return [command.group for command in commands if isinstance(command, Start)]


def test_judge_starts_before_its_models_within_own_share():
    commands = schedule(3000, gpus=4, replicas=2).on_begin()

    assert started_groups(commands)[:2] == [JUDGE, JUDGE] and set(started_groups(commands)[2:]) == {"m"}


@given(seed=st.integers(0, 10_000), death=st.sampled_from([0.0, 0.02, 0.05]), replicas=st.integers(1, 3))
@settings(max_examples=40)
def test_every_episode_is_delivered_once_whoever_dies(seed, death, replicas):
    world = WaitingWorld(schedule(replicas=replicas), Random(seed), death)
    world.run()

    assert world.abandoned or set(world.delivered) | set(world.given_up) == set(range(300))
    assert not world.delivered or max(world.delivered.values()) == 1


def test_judge_stays_without_lease_until_last_episode():
    scheduler = schedule(32, gpus=2)
    scheduler.on_begin()
    scheduler.on_ready(1)
    leases = [command for command in scheduler.on_ready(2) if isinstance(command, Lease)]
    assert scheduler.on_tick(10.0) == [] and 1 in scheduler.slots

    scheduler.on_heartbeat(1, 5, 2 * SILENCE_TIMEOUT_S)
    assert scheduler.groups[JUDGE].answered == 5
    *some, last = leases
    for lease in some:
        assert Stop(1) not in scheduler.on_delivery(2, lease.lease, lease.ordinals, 2 * SILENCE_TIMEOUT_S)
        scheduler.on_lease_end(2, lease.lease, 2 * SILENCE_TIMEOUT_S)
    assert Stop(1) in scheduler.on_delivery(2, last.lease, last.ordinals, 2 * SILENCE_TIMEOUT_S)
    assert scheduler.on_lease_end(2, last.lease, 2 * SILENCE_TIMEOUT_S) == [Stop(2)] and scheduler.done


def test_waiting_for_loading_judge_is_not_silence():
    scheduler = schedule(32, gpus=2)
    scheduler.on_begin()
    scheduler.on_ready(2, 1.0)
    for now in range(60, 3600, 60):
        assert scheduler.on_tick(float(now)) == []
    scheduler.on_ready(1, 3600.0)

    assert scheduler.on_tick(3600.0 + SILENCE_TIMEOUT_S / 3) == []


def test_judge_that_never_loads_abandons_its_models():
    scheduler = schedule(32, gpus=2)
    scheduler.on_begin()
    scheduler.on_ready(2)
    commands = []
    for _ in range(MAX_FAILED_STARTS):
        slot = next(slot for slot, worker in scheduler.slots.items() if worker.group.name == JUDGE)
        commands += scheduler.on_death(slot, "no such file")

    ended = [command for command in commands if isinstance(command, Abandon)]
    assert ended == [Abandon(JUDGE, "no such file"), Abandon("m", f"{JUDGE} cannot read its answers: no such file")]
    assert Stop(2) in commands and scheduler.done


def test_judge_dying_without_progress_ends_attempt():
    for episode in (False, True):
        scheduler = schedule(3000, gpus=2)
        scheduler.on_begin()
        leases = [command for command in scheduler.on_ready(2) if isinstance(command, Lease)]
        abandoned = []
        for death in range(MAX_LOSSES):
            slot = next(slot for slot, worker in scheduler.slots.items() if worker.group.name == JUDGE)
            scheduler.on_ready(slot)
            if episode and death == MAX_LOSSES // 2:
                scheduler.on_delivery(2, leases[0].lease, leases[0].ordinals[:1])
            abandoned += [c.group for c in scheduler.on_death(slot, "killed") if isinstance(c, Abandon)]
        assert abandoned == ([] if episode else [JUDGE, "m"])


@pytest.mark.parametrize("gpus", [1, 4])
def test_model_without_room_beside_judge_is_abandoned(gpus):
    scheduler = schedule(32, gpus=gpus, width=gpus)
    of = "GPUs" if gpus > 1 else "GPU"

    assert scheduler.on_begin() == [
        Abandon("m", f"m needs {gpus} {of}; on one node it can have {gpus - 1} besides {JUDGE}")
    ]
