"""What a lost node leaves behind, to the episode, and the words and times of groups that wait or are abandoned."""

import math
from collections import deque

import pytest

from orchestrator.scheduling.commands import JUDGES, Abandon, Demand, GiveUp, Lease, Recall, Start, Stop
from orchestrator.scheduling.nodes import Node, Place
from orchestrator.scheduling.resources import ENGINE_CPUS, MAX_REPLICAS
from orchestrator.scheduling.scheduler import Scheduler
from orchestrator.scheduling.state import WorkerGroup, WorkerSlot, leased_count, used_cpus
from orchestrator.scheduling.tight_end import Load, choose_givers, tight_end

ONE = Demand(0, 1, 1)


def one_worker(episodes, at_once=1, **options) -> Scheduler:
    """Return a begun schedule of one group that may have one worker, which is ready."""
    schedule = Scheduler({"m": list(episodes)}, {"m": Demand(0, 1, 1, concurrency=at_once)}, 2, 1, **options)
    schedule.on_begin()
    schedule.on_ready(1)
    return schedule


def suspects(schedule: Scheduler) -> list[int]:
    return [len(lease) for lease in schedule.groups["m"].suspects]


@pytest.mark.parametrize(("delivered", "suspected", "waiting"), [(127, [16, 16, 16, 16, 9], 0), (128, [], 72)])
def test_only_what_was_in_play_on_the_first_lost_node_is_suspected_after_the_second(delivered, suspected, waiting):
    """Of 200 leased episodes, 128 may have been in play; the others only waited with them."""
    schedule = one_worker(range(200), at_once=200)
    schedule.on_death(1, "gone", 1.0, with_node=True)
    group = schedule.groups["m"]
    assert group.lost_with_node == set(range(128)) and list(group.waiting) == list(range(200)) and not group.suspects

    (lease,) = schedule.on_ready(2, 2.0)
    schedule.on_delivery(2, lease.lease, range(delivered), 3.0)
    schedule.on_death(2, "gone", 4.0, with_node=True)
    assert (suspects(schedule), len(group.waiting)) == (suspected, waiting)


def test_every_lease_of_a_lost_node_waits_in_its_order_and_only_the_lost_one_is_suspected():
    schedule = one_worker(range(40), at_once=4)
    first, second = (tuple(lease) for lease in schedule.slots[1].leases.values())
    group = schedule.groups["m"]
    schedule.on_death(1, "gone", 1.0, with_node=True)
    assert list(group.waiting) == [*second, *first, *range(len(first) + len(second), 40)]
    assert not schedule.lone_deaths.total()

    group.lost_with_node = {second[-1]}
    leased = [command for command in schedule.on_ready(2, 2.0) if isinstance(command, Lease)]
    schedule.on_death(2, "gone", 3.0, with_node=True)
    lost, kept = (lease.ordinals for lease in leased)
    assert second[-1] in lost
    assert [n for lease in group.suspects for n in lease] == list(lost)
    assert list(group.waiting)[: len(kept)] == list(kept) and len(group.waiting) == 40 - len(lost)


def test_an_episode_that_ends_three_nodes_alone_is_given_up():
    """The first node may have ended for any reason; then it counts as every other death of a worker."""
    schedule = one_worker([5])
    assert schedule.on_death(1, "gone", 1.0, with_node=True) == [Start(2, "m", Place("node-0"))]
    assert not schedule.groups["m"].suspects and schedule.lone_deaths["m", 5] == 0
    schedule.on_ready(2, 2.0)
    assert schedule.on_death(2, "gone", 3.0, with_node=True) == [Start(3, "m", Place("node-0"))]
    assert suspects(schedule) == [1] and schedule.lone_deaths["m", 5] == 1
    assert schedule.on_ready(3, 4.0) == [Lease(3, 3, (5,))]
    assert schedule.on_death(3, "no memory", 5.0, with_node=True) == [GiveUp((5,), "no memory", "m")]
    assert schedule.done


def test_a_node_that_is_gone_from_the_cluster_is_a_lost_one_for_its_workers():
    schedule = one_worker(range(40), at_once=40)
    schedule.on_nodes([Node("new", 1)], 2, 1.0)
    schedule.on_death(1, "its node is gone", 2.0)
    assert suspects(schedule) == [] and schedule.groups["m"].losses == 0
    schedule.on_ready(2, 3.0)
    schedule.on_death(2, "killed", 4.0)
    assert suspects(schedule) == [16, 16, 8] and schedule.groups["m"].losses == 1


def test_what_is_paused_does_not_wait_after_its_node_is_lost():
    schedule = one_worker(range(8), at_once=8)
    schedule.hold("m", paused=range(3), now=1.0)
    schedule.on_death(1, "gone", 2.0, with_node=True)
    group = schedule.groups["m"]
    assert (list(group.parked), list(group.waiting)) == ([0, 1, 2], [3, 4, 5, 6, 7])


def test_a_delivery_ends_the_losses_of_a_group_and_of_its_judge():
    demands = {"m": Demand(0, 1, judge="j"), "j": Demand(0, 1), "other": Demand(0, 1)}
    schedule = Scheduler({"m": [1, 2], "j": [], "other": []}, demands, 2, 1)
    (start,) = schedule.on_begin()
    lease = schedule.on_ready(start.slot)[0]
    for group in schedule.groups.values():
        group.losses = 9
    schedule.on_delivery(start.slot, lease.lease, [], 1.0)
    assert {name: group.losses for name, group in schedule.groups.items()} == {"m": 0, "j": 0, "other": 9}


def test_a_heartbeat_counts_answers_and_is_a_sign_of_life():
    schedule = one_worker(range(4))
    assert (
        schedule.on_heartbeat(1, 3, 50.0)
        == schedule.on_heartbeat(1, 4, 60.0)
        == schedule.on_heartbeat(9, 4, 70.0)
        == []
    )
    assert (schedule.groups["m"].answered, schedule.slots[1].last_heard, schedule.now) == (7, 60.0, 70.0)
    assert schedule.on_tick(960.0) == [] and schedule.on_tick(961.0)[0].reason == "silent for 901 s"


def test_a_judge_that_was_idle_is_neither_silent_nor_slow_when_it_gets_answers():
    """While writers play, the judge waits; that time would make it look dead and lower its rate."""
    demands = {"m": Demand(0, 1, 1, judge="j"), "j": Demand(0, 1, 1, concurrency=2, pool=JUDGES)}
    schedule = Scheduler({"m": [1], "j": [10, 11]}, demands, 2, 2)
    slots = {start.group: start.slot for start in schedule.on_begin()}
    schedule.on_ready(slots["m"])
    (lease,) = schedule.on_ready(slots["j"])
    schedule.on_delivery(slots["j"], lease.lease, [10, 11], 10.0)
    assert schedule.on_lease_end(slots["j"], lease.lease, 10.0) == []

    schedule.on_delivery(slots["m"], 1, [], 4000.0)
    (lease,) = schedule.on_answers("j", [12, 13], 5000.0)
    schedule.on_delivery(slots["m"], 1, [], 5000.0)
    assert schedule.on_tick(5900.0) == [], "900 s after its new lease it may still be silent"
    schedule.on_delivery(slots["j"], lease.lease, [12, 13], 5900.0)
    assert (schedule.groups["j"].played, schedule.groups["j"].busy_s) == (4, 910.0)


def test_a_group_waits_for_wide_nodes_from_the_last_change_of_the_cluster_on():
    schedule = Scheduler({"m": [1]}, {"m": Demand(0, 4)}, 2, 2, [Node("a", 2)], wait=100.0)
    assert schedule.on_begin(0.0) == []
    waits = "waits up to 0.028 h for a node with 4 GPUs; the widest has 2"
    assert schedule.describe_wait(schedule.groups["m"]) == waits
    schedule.on_nodes([Node("a", 2, held=1)], 2, 50.0)
    assert schedule.changed == 0, "what others hold is no change"
    schedule.on_nodes([Node("a", 2), Node("b", 1)], 2, 60.0)
    assert schedule.changed == 60 and schedule.on_tick(160.0) == []
    assert schedule.on_tick(161.0) == [Abandon("m", "m needs 4 GPUs; a node of the cluster has 2")]
    assert schedule.describe_wait(schedule.groups["m"]) == ""


def test_nobody_is_said_to_wait_who_has_room_no_work_or_no_gpu():
    nodes = [Node("a", 2, held=1)]
    demands = {"wide": Demand(0, 2), "narrow": Demand(0, 1), "idle": Demand(0, 2), "service": Demand(0, 0)}
    schedule = Scheduler({"wide": [1], "narrow": [2], "idle": [], "service": [3]}, demands, 2, 2, nodes)
    said = {name: schedule.describe_wait(group) for name, group in schedule.groups.items()}
    assert said == {"wide": "waits for 2 GPUs; 1 are held by others", "narrow": "", "idle": "", "service": ""}
    too_wide = Scheduler({"m": [1]}, {"m": Demand(0, 4)}, 2, 2, nodes)
    assert too_wide.describe_wait(too_wide.groups["m"]) == "", "it will not wait"


def test_a_group_that_is_too_wide_says_what_the_cluster_has():
    staged = Scheduler({"m": [1]}, {"m": Demand(0, 16, stages=2)}, 2, 8)
    whole = "m needs 16 GPUs in 2 stages of 8; the cluster has 8 in whole stages"
    assert staged.on_begin() == [Abandon("m", whole)]
    demands = {"m": Demand(0, 2, judge="j"), "j": Demand(0, 1, pool="judges", standing_replicas=1)}
    judged = Scheduler({"m": [1], "j": []}, demands, 2, 2, shares={"models": 1})
    reason = "m needs 2 GPUs; the cluster has 1 in addition to 1 GPU for j"
    assert judged.on_begin() == [Abandon("m", reason)]


def test_a_judge_that_is_abandoned_takes_its_writers_along():
    demands = {"m": Demand(0, 1, judge="j"), "j": Demand(0, 1, pool="judges", standing_replicas=1)}
    schedule = Scheduler({"m": range(9), "j": []}, demands, 2, 2, shares={"models": 1})
    starts = {start.group: start.slot for start in schedule.on_begin()}
    commands = schedule.on_fatal_error(starts["j"], "no key", 1.0)
    assert commands == [Abandon("j", "no key"), Stop(starts["m"]), Abandon("m", "j cannot read its answers: no key")]
    assert schedule.done and schedule.requeue("m", [3], 2.0) == schedule.hold("m", paused=[3], now=2.0) == []


def test_workers_that_others_have_displaced_are_withdrawn_newest_first():
    schedule = Scheduler({"m": range(5000)}, {"m": Demand(0, 1, 3)}, 2, 3)
    assert [start.slot for start in schedule.on_begin()] == [1, 2, 3]
    assert schedule.on_nodes([Node("node-0", 3, held=0)], 2, 1.0) == []
    assert schedule.on_nodes([Node("node-0", 3, held=2)], 2, 2.0) == [Stop(3), Stop(2)]
    assert schedule.on_nodes([Node("node-0", 3, held=2)], 2, 3.0) == [] and list(schedule.slots) == [1]


def test_a_smaller_share_is_reached_exactly_and_those_that_start_leave_first():
    schedule = Scheduler({"m": range(5000)}, {"m": Demand(0, 1, 4)}, 2, 4)
    schedule.on_begin(0.0)
    for slot in (1, 2):
        schedule.on_ready(slot, 1.0)
    assert schedule.set_shares({"models": 4}, 2.0) == []
    assert schedule.set_shares({"models": 3}, 3.0) == [Stop(3)]
    commands = schedule.set_shares({"models": 1}, 4.0)
    assert commands == [Stop(4), Recall(1, schedule.slots[1].leased)]
    assert [slot.leaving for slot in schedule.slots.values()] == [True, False]


def test_a_pause_counts_from_its_beginning_and_cancelled_work_is_not_parked():
    schedule = Scheduler({"m": range(6)}, {"m": ONE}, 2, 1)
    schedule.hold("m", paused=[1, 2], withdrawn=[3], now=5.0)
    schedule.hold("m", paused=[1, 2, 4], withdrawn=[3], now=9.0)
    group = schedule.groups["m"]
    assert (list(group.waiting), sorted(group.parked), list(group.dropped)) == ([0, 5], [1, 2, 4], [3])
    assert group.parked_since == 5.0
    schedule.cancel("m", [1, 5], now=10.0)
    assert (list(group.waiting), group.queued_count) == ([0], 1) and group.is_held_back(5)
    schedule.hold("m", now=11.0)
    assert sorted(group.waiting) == [0, 2, 3, 4] and not group.parked and not group.dropped


def test_cpus_of_a_shared_gpu_count_once():
    group = WorkerGroup("g", Demand(4, 0.5), deque())
    slots = [WorkerSlot(group, Place("n", shared), cpus=cpus) for shared, cpus in ((1, 4), (1, 4), (2, 3), (None, 2))]
    assert used_cpus(slots, None) == used_cpus(slots, Place("n")) == used_cpus(slots, Place("n", 9)) == 9
    assert used_cpus(slots, Place("n", 1)) == 5 and used_cpus([], None) == 0
    slots[0].leases, slots[3].leases = {1: {5: None, 6: None}, 2: {7: None}}, {3: {8: None}}
    assert leased_count(slots) == 4 and slots[0].leased == (5, 6, 7)
    assert (ENGINE_CPUS, MAX_REPLICAS, Demand().replicas, Demand().cpus) == (4, 64, 64, 1.0)


def test_gpu_seconds_hold_starts_first_starts_on_nodes_and_slack():
    """Replicas of two GPUs: 100 s of work take five of them until 30 s, which start for 10 s, on three nodes for 5 s more."""
    load = Load(gpus=2, work=100, start=10, further=5, node_start=5, per_node=2, slack=7)
    assert load.gpu_seconds(30) == 2 * (100 + 5 * 10 + 3 * 5)
    assert load.gpu_seconds(34) == 2 * (100 + 5 * 10 + 3 * 5 + 7), "20 s of the last replica are not used"
    assert load.gpu_seconds(31) == 2 * (100 + 5 * 10 + 3 * 5 + 5)
    assert load.gpu_seconds(29) == load.gpu_seconds(10) == math.inf and load.lacking(30) == 5
    playing = Load(gpus=1, work=50, start=10, further=5, ready=2, starting=((6.0, 3), (40.0, 1)))
    assert playing.missing(16) == 0 == playing.lacking(16) and playing.missing(11) == 50 - 2 * 11 - 3 * 5
    assert playing.gpu_seconds(16) == 50 + 3 * 6 + 16, "one is not ready by then, and holds its GPU until then"


def test_the_widest_groups_choose_first_and_the_narrowest_workers_that_suffice_go():
    wide, narrow = Load(2, 150, 10, 64, ready=1), Load(1, 150, 10, 64, ready=1)
    spare = {"two": Load(2, 100, 10, 64, ready=4), "four": Load(4, 100, 10, 64, ready=4)}
    loads = spare | {"narrow": narrow, "wide": wide}
    assert wide.lacking(60) == narrow.lacking(60) == 2
    assert choose_givers(loads, ["narrow", "wide"], 60, 0) == ["two", "two", "four"]
    assert choose_givers(loads, ["wide"], 60, 2) == ["two"] and choose_givers(loads, ["wide"], 60, 4) == []


def test_long_slack_has_an_end_and_nobody_leaves_for_a_group_that_is_too_late():
    """On one GPU, each of two groups keeps it for 5 s of start, 95 s of work and 500 s after that."""
    assert tight_end([Load(1, 95, 5, 64, slack=500)] * 2, 1) == pytest.approx(1200, rel=1e-3)
    loads = {"idle": Load(1, 1, 10, 64, ready=4), "late": Load(1, 150, 10, 64, ready=1)}
    assert loads["late"].lacking(8) == math.inf and choose_givers(loads, ["late"], 8, 0) == []
    assert choose_givers(loads, ["late"], 160, 0) == [] and choose_givers(loads, ["late"], 100, 0) == ["idle"]
