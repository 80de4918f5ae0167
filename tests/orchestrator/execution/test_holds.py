"""Episodes that commands hold and withdraw, group by group, by hand; the schedule that obeys is ``test_live_control``'s."""

import logging
from functools import partial
from types import SimpleNamespace

import pytest

from orchestrator.execution.live_control import LiveControl
from orchestrator.planning.build_plan import build_plan
from orchestrator.storage import control_log
from orchestrator.storage.control_state import ControlState
from tests.orchestrator.execution.controlled import sweep_of

OWN = {"m0": range(20), "m1": range(20, 40), "judge:j": range(40)}
"""Group -> the ordinals of its episodes (``two_models``)."""


class Driver:
    """What a driver is to a hold: a schedule that records what it is asked to hold."""

    def __init__(self, sweep, judge=""):
        self.judge_queue = SimpleNamespace(group=judge) if judge else None
        self.pool, self.held, self.commands, self.nodes = SimpleNamespace(sweep=sweep), [], [], ()
        demand = SimpleNamespace(demand=SimpleNamespace(pool="models"))
        self.schedule = SimpleNamespace(groups=dict.fromkeys(("m1", "m0", judge or "m1"), demand), hold=self.hold)

    def hold(self, name, held, withdrawn, now):
        assert now == 7.0
        self.held.append((name, held, withdrawn))
        return [f"hold {name}"]

    def now(self):
        return 7.0

    def act(self, commands):
        self.commands += commands


def held_by(driver):
    """Group -> which of its ordinals are held, and which withdrawn, since the last call; in the order of the calls."""
    calls = list(driver.held)
    driver.held.clear()
    return {
        name: ([n for n in OWN[name] if n in held], [n for n in OWN[name] if n in gone]) for name, held, gone in calls
    }


@pytest.fixture
def two_models(demo_data):
    """Two models under two conditions of a scenario: ten samples a cell, each model's cells one after another."""
    spec = sweep_of(demo_data, ("m0", "m1"), ("hint", "zero-shot"), scenarios=["ROD"])
    plan = build_plan(spec)
    assert [cell.key for cell in plan.cells] == ["m0/ROD/hint", "m0/ROD/zero-shot", "m1/ROD/hint", "m1/ROD/zero-shot"]
    assert list(plan.offsets) == [0, 10, 20, 30, 40]
    return spec, plan


def numbers(*cells):
    return [number for cell in cells for number in range(10 * cell, 10 * cell + 10)]


def test_a_hold_names_the_episodes_of_each_group_it_touches(two_models, tmp_path):
    spec, plan = two_models
    driver = Driver(spec)
    control = LiveControl(driver, plan, tmp_path, ControlState())
    assert driver.held == []
    send = partial(carry_out, control, tmp_path)

    assert send("pause", "*/*/hint") == "2 cells are paused; episodes in play end and are stored"
    assert list(held_by(driver).items()) == [("m0", (numbers(0), [])), ("m1", (numbers(2), []))]
    assert send("cancel", "m1/ROD/zero-shot") == "1 cell is cancelled; episodes in play end and are stored"
    assert held_by(driver) == {"m1": (numbers(2), numbers(3))}
    assert send("resume", "m0") == "2 cells are resumed"
    assert held_by(driver) == {"m0": ([], [])}
    assert send("restore", "all") == "4 cells are restored"
    assert held_by(driver) == {"m0": ([], []), "m1": (numbers(2), [])}
    assert driver.commands == ["hold m0", "hold m1", "hold m1", "hold m0", "hold m0", "hold m1"]


def test_a_judge_is_held_by_its_own_name_or_all_and_never_by_a_cancelled_cell(two_models, tmp_path):
    spec, plan = two_models
    driver = Driver(spec, "judge:j")
    send = partial(carry_out, LiveControl(driver, plan, tmp_path, ControlState()), tmp_path)

    assert send("pause", "judge") == "the judge is paused; episodes in play end and are stored"
    assert held_by(driver) == {"judge:j": (numbers(0, 1, 2, 3), [])}
    send("cancel", "m0")
    assert held_by(driver) == {"m0": ([], numbers(0, 1))}
    assert send("resume", "judge") == "the judge is resumed"
    assert held_by(driver) == {"judge:j": ([], [])}
    send("cancel", "all")
    assert held_by(driver) == {"judge:j": ([], []), "m0": ([], numbers(0, 1)), "m1": ([], numbers(2, 3))}
    send("pause", "all")
    assert held_by(driver)["judge:j"] == (numbers(0, 1, 2, 3), [])


def test_a_new_driver_holds_what_earlier_commands_hold(two_models, tmp_path):
    spec, plan = two_models
    entries = [
        control_log.LogEntry(name="", command=control_log.make_command(verb, target), taken="", effect="")
        for verb, target in (("pause", "m0/*/hint"), ("cancel", "*/*/zero-shot"), ("pause", "judge"))
    ]
    driver = Driver(spec, "judge:j")
    LiveControl(driver, plan, tmp_path, ControlState(entries))

    assert list(held_by(driver).items()) == [
        ("judge:j", (numbers(0, 1, 2, 3), [])), ("m0", (numbers(0), numbers(1))), ("m1", ([], numbers(3))),
    ]  # fmt: skip


def carry_out(control, folder, verb, target):
    """Send a command, let the control poll, and return its effect."""
    name = control_log.send_command(folder, control_log.make_command(verb, target))
    control.poll()
    (entry,) = (entry for entry in control_log.read_history(folder) if entry.name == name)
    assert not entry.refused
    return entry.effect


@pytest.mark.parametrize(
    ("target", "names", "refusal"),
    [
        ("host-3", {"node-0003-long"}, ""), ("node-0004", {"node-0004-long"}, ""),
        ("shared", {"node-0001-long", "node-0002-long"}, ""),
        ("node", set(), "node matches several GPU nodes of the cluster; its GPU nodes: {nodes}"),
        ("host", set(), "host is not a GPU node of the cluster; its GPU nodes: {nodes}"),
    ],
)  # fmt: skip
def test_a_node_is_drained_by_its_host_or_the_start_of_its_name(two_models, tmp_path, target, names, refusal):
    spec, plan = two_models
    driver, drained = Driver(spec), []
    every = [f"node-{number:04d}-long" for number in range(1, 11)]
    hosts = {every[0]: "shared", every[1]: "shared"} | {name: f"host-{n}" for n, name in enumerate(every, 1) if n > 2}
    del hosts[every[4]]
    driver.nodes, driver.hosts, driver.drain = (
        [SimpleNamespace(name=name) for name in every],
        lambda: hosts,
        drained.append,
    )
    listed = ["shared", "shared", "host-3", "host-4", "?", "host-6", "host-7", "host-8"]
    nodes = ", ".join(f"{host} (node-000{number}-lo)" for number, host in enumerate(listed, 1))
    control = LiveControl(driver, plan, tmp_path, ControlState())

    effect, refused = control._act(control_log.make_command("drain", target))
    assert refused is bool(refusal) and drained == ([names] if names else [])
    assert effect == (
        refusal.format(nodes=nodes) or f"{target} gets no more workers; episodes in play there end and are stored"
    )
    if names:
        assert control._act(control_log.make_command("undrain", target)) == (f"{target} gets workers again", False)
        assert drained == [names, set()]


def test_a_cluster_without_gpus_has_no_node_to_drain(two_models, tmp_path):
    driver = Driver(two_models[0])
    driver.hosts = dict
    command = control_log.make_command("drain", "a")
    assert LiveControl(driver, two_models[1], tmp_path, ControlState())._act(command) == (
        "a is not a GPU node of the cluster; its GPU nodes: none", True,
    )  # fmt: skip


def test_each_command_is_logged_a_refused_one_as_a_warning(two_models, tmp_path, caplog):
    caplog.set_level(logging.INFO, "orchestrator")
    control = LiveControl(Driver(two_models[0]), two_models[1], tmp_path, ControlState())
    for target in ("m0", "m9"):
        control_log.send_command(tmp_path, control_log.make_command("pause", target))
        control.poll()
    done, refused = control_log.read_history(tmp_path)

    assert [(record.levelname, record.message) for record in caplog.records] == [
        ("INFO", f"ctl: {done.sentence}"),
        ("WARNING", f"ctl: {refused.sentence}"),
    ]
    assert refused.effect == "m9 matches no cell of this sweep; its models are m0, m1"


def test_a_folder_that_is_gone_is_no_folder_without_commands(two_models, tmp_path):
    control = LiveControl(Driver(two_models[0]), two_models[1], tmp_path / "moved", ControlState())
    with pytest.raises(FileNotFoundError):
        control.poll()
