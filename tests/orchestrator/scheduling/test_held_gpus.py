"""GPUs of a shared cluster that other jobs hold: nothing starts there, nothing is abandoned, and the wait has a reason."""

from dataclasses import replace

from orchestrator.monitoring.render import headline, lines
from orchestrator.monitoring.snapshot import RateMeter
from orchestrator.scheduling.commands import Abandon, Demand, Start, Stop
from orchestrator.scheduling.nodes import Node, Place, build_nodes
from orchestrator.scheduling.resources import shares
from orchestrator.scheduling.scheduler import Scheduler
from tests.orchestrator.scheduling.test_resize import JUDGE, MODEL, judged_sweep
from tests.orchestrator.scheduling.test_resize import start as start_judged

FOUR = Demand(0, 4)


def held(*counts: int) -> tuple[Node, ...]:
    """Return nodes of 8 GPUs of which others hold so many."""
    return tuple(node._replace(held=count) for node, count in zip(build_nodes(8 * len(counts)), counts, strict=True))


def schedule(nodes, demand=FOUR, **options) -> Scheduler:
    return Scheduler({"m": range(1000)}, {"m": demand}, 8, 8, nodes, **options)


def test_group_waits_for_held_gpus_and_starts_when_they_are_free():
    scheduler = schedule(held(6))
    assert scheduler.on_begin() == [] and not scheduler.done
    assert scheduler.describe_wait(scheduler.groups["m"]) == "waits for 4 GPUs; 6 are held by others"
    assert scheduler.on_tick(1e6) == [], "it is not abandoned, however long others play"

    assert scheduler.on_nodes(held(4), 8, 1e6) == [Start(1, "m", Place("node-0"))]
    assert scheduler.describe_wait(scheduler.groups["m"]) == ""


def test_worker_that_waits_in_ray_is_withdrawn_and_starts_again():
    """Two sweeps took the same free GPUs; Ray gave them to the other one, so the waiting worker has no failed start."""
    scheduler = schedule(held(0))
    assert scheduler.on_begin() == [Start(1, "m", Place("node-0")), Start(2, "m", Place("node-0"))]
    scheduler.on_placed(1, 3.0)

    assert scheduler.on_nodes(held(4), 8, 5.0) == [Stop(2)]
    assert scheduler.groups["m"].failed_starts == 0 and scheduler.nodes.free == {"node-0": 0}
    assert scheduler.on_nodes(held(0), 8, 900.0) == [Start(3, "m", Place("node-0"))]


def test_too_wide_for_what_others_leave_is_not_too_wide_for_the_cluster():
    """The judge that episodes wait for has one of the 4 usable GPUs; the other 4 may come."""
    sweep = judged_sweep("oeg-multi")
    scheduler = start_judged(sweep, 8, episodes=100)
    wide = {MODEL: replace(scheduler.demands[MODEL], gpus=4), JUDGE: scheduler.demands[JUDGE]}
    scheduler.on_nodes(held(4), 32, 0.0, wide, shares(sweep, 4))
    commands = scheduler.on_begin()
    assert not [command for command in commands if isinstance(command, Abandon)]
    assert [command.group for command in commands] == [JUDGE]

    freed = scheduler.on_nodes(held(0), 32, 10.0, wide, shares(sweep, 8))
    assert [command.group for command in freed] == [MODEL]


def test_snapshot_says_what_is_waited_for_and_how_many_others_hold():
    scheduler = schedule(held(6))
    scheduler.on_begin()
    snapshot = RateMeter({"m": 1000}, {}).snapshot(scheduler, {}, {}, 1.0, {})
    assert headline(snapshot).endswith("6 of 8 GPUs are held by others")
    assert lines(snapshot)[1:] == ["  m: waits for 4 GPUs; 6 are held by others"]


# -- nodes that may come ---------------------------------------------------------------------------------------------
HOUR = 3600.0


def test_cluster_without_gpus_waits_for_its_first_node():
    scheduler = Scheduler({"m": range(9)}, {"m": FOUR}, 8, 0, [], wait=2 * HOUR)
    assert scheduler.on_begin() == []
    assert scheduler.describe_wait(scheduler.groups["m"]) == "waits up to 2 h for a node with 4 GPUs; there is none"
    assert scheduler.on_tick(1.9 * HOUR) == []
    assert [start.group for start in scheduler.on_nodes(build_nodes(8), 8, 1.9 * HOUR)] == ["m", "m"]


def test_wide_model_waits_for_a_wide_node_while_the_others_play():
    work = {"wide": range(9), "m": range(9)}
    scheduler = Scheduler(work, {"wide": Demand(0, 8), "m": FOUR}, 8, 4, build_nodes(4), wait=HOUR)
    assert [command.group for command in scheduler.on_begin()] == ["m"]
    reason = scheduler.describe_wait(scheduler.groups["wide"])
    assert reason == "waits up to 1 h for a node with 8 GPUs; the widest has 4"


def test_gpus_that_others_take_and_free_do_not_restart_the_wait():
    scheduler = schedule(held(1), Demand(0, 16), wait=HOUR)
    scheduler.on_begin()
    scheduler.on_nodes(held(2), 8, 0.9 * HOUR)
    assert scheduler.on_tick(HOUR + 1) == [Abandon("m", "m needs 16 GPUs; on one node it can have 8")]
