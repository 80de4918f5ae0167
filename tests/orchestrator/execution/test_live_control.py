"""Commands to a running sweep, carried out on a real scheduler; the simulation and chaos tests send them while things die."""

from types import SimpleNamespace

import pytest

from orchestrator.execution.live_control import LiveControl, describe_effect
from orchestrator.planning.build_plan import build_plan
from orchestrator.scheduling.commands import Recall
from orchestrator.scheduling.nodes import Node
from orchestrator.scheduling.resources import demands
from orchestrator.scheduling.scheduler import Scheduler
from orchestrator.storage import control_log
from orchestrator.storage.control_log import ControlState, read_control_state
from sweeps.load import build

MODELS = ("m0", "m1")
NODES = (Node("n1", 2), Node("n2", 2))


class StandIn(SimpleNamespace):
    """What the commands use of a driver: its scheduler, whose commands are recorded."""

    def __init__(self, plan, sweep) -> None:
        schedule = Scheduler(plan.pending(()), demands(sweep, 8, 4), 8, 4, NODES)
        view = SimpleNamespace(nodes=NODES)
        super().__init__(schedule=schedule, view=view, judge_queue=None, commands=[], sweep=sweep)
        self.act(schedule.on_begin())

    def act(self, commands) -> None:
        self.commands += commands

    def now(self) -> float:
        return 0.0

    def hosts(self) -> dict[str, str]:
        return {"n1": "first", "n2": "second", "n3": "second"}

    def drain(self, nodes) -> None:
        self.act(self.schedule.drain(nodes))


@pytest.fixture
def control(demo_data, tmp_path):
    models = [{"name": name, "source": name, "backend": "vllm", "gpus": 1, "in_flight": 4} for name in MODELS]
    table = {"name": "controlled", "data": str(demo_data), "model": models, "conditions": ["zero-shot", "hint"]}
    sweep = build(table, "controlled.toml")
    plan = build_plan(sweep)
    return LiveControl(StandIn(plan, sweep), plan, tmp_path, ControlState())


def ask(control, verb, target) -> control_log.LogEntry:
    """Send a command, let the driver poll, and return its log entry."""
    name = control_log.send_command(control.folder, control_log.parse_command(verb, target))
    control.poll()
    return next(entry for entry in control_log.read_history(control.folder) if entry.name == name)


def restart(control) -> LiveControl:
    """Return the control of a new driver of the same folder."""
    driver = StandIn(control.plan, control.driver.sweep)
    return LiveControl(driver, control.plan, control.folder, read_control_state(control.folder))


def held(control) -> dict[str, tuple[int, int]]:
    """Return group -> its paused and its cancelled episodes that no worker has."""
    return {name: (len(group.parked), len(group.dropped)) for name, group in control.driver.schedule.groups.items()}


def test_paused_and_cancelled_cells_wait_over_drivers_until_they_are_taken_back(control):
    assert ask(control, "pause", "m0").effect == "in force for 14 cells; episodes in play end and are stored"
    assert ask(control, "cancel", "*/ROD/hint").effect == "in force for 2 cells; episodes in play end and are stored"
    again = restart(control)

    assert held(control) == held(again) == {"m0": (130, 10), "m1": (0, 10)}
    assert not again.driver.schedule.done
    for verb in ("resume", "restore"):
        ask(again, verb, "all")
    assert held(again) == {"m0": (0, 0), "m1": (0, 0)}


def test_leased_episodes_of_a_cancelled_cell_are_recalled(control):
    schedule = control.driver.schedule
    control.driver.act(schedule.on_ready(1))
    leased = schedule.slots[1].leased
    ask(control, "cancel", "all")

    assert Recall(1, leased) in control.driver.commands


def test_drained_node_gets_no_worker_until_undrained(control):
    assert ask(control, "drain", "second").effect.startswith("in force for node second")
    again = restart(control)
    assert control.driver.schedule.closed == again.driver.schedule.closed == {"n2"}
    again.driver.view.nodes = (NODES[0], Node("n3", 2))  # the host was restarted
    again.poll()
    assert again.driver.schedule.closed == {"n3"}
    ask(again, "undrain", "n3")
    assert again.driver.schedule.closed == set(), "drained by its host, and reopened by its name"


@pytest.mark.parametrize(
    "verb, target, why",
    [
        ("pause", "m9", "m9 matches no cell of this sweep; its models are m0, m1"),
        ("cancel", "judge", "judge matches no cell of this sweep"),
        ("pause", "judge", "judge matches no cell of this sweep"),
        ("drain", "n", "n is not one GPU node of the cluster; its GPU nodes: first (n1), second (n2)"),
        ("drain", "n3", "n3 is not one GPU node of the cluster"),
    ],
)
def test_impossible_command_is_refused_and_changes_nothing(control, verb, target, why):
    entry = ask(control, verb, target)

    assert entry.refused and entry.effect.startswith(why)
    assert not control.standing.commands and not control.driver.schedule.closed
    assert held(control) == {"m0": (0, 0), "m1": (0, 0)} and not read_control_state(control.folder).commands


def test_commands_sent_before_a_driver_take_effect(control):
    for verb, target in (("cancel", "m1"), ("pause", "m9"), ("drain", "n1")):
        control_log.send_command(control.folder, control_log.parse_command(verb, target))
    control_log.take_commands(control.folder, lambda command: describe_effect(command, control.plan))
    assert [entry.refused for entry in control_log.read_history(control.folder)] == [False, True, False]

    again = restart(control)
    assert held(again) == {"m0": (0, 0), "m1": (0, 140)} and again.driver.schedule.closed == {"n1"}
