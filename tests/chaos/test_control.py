"""Commands to a sweep on two real nodes of Ray, whose driver and workers are killed meanwhile."""

from __future__ import annotations

import os
import signal
import time
from random import Random

import pytest

from orchestrator.storage import control_log
from tests.chaos.ground import finish_process, wait_until_playing

pytestmark = [pytest.mark.slow, pytest.mark.long]

COMMANDS = 40


def test_random_commands_a_killed_driver_and_killed_workers(ground, sweep_file, undisturbed, check_survival, tmp_path):
    """When a run ends before the last command is asked, the next one takes the rest."""
    out, chance = tmp_path / "run", Random("control")
    nodes = [node.node_id for node in ground.cluster.list_all_nodes()]
    process = ground.start("run", sweep_file, "--output", out)
    wait_until_playing(out, process)
    for number in range(COMMANDS):
        ask(out, chance, nodes)
        time.sleep(0.25)
        if number % 10 == 4:
            for pid in ground.workers()[:1]:
                os.kill(pid, signal.SIGKILL)
        if number == COMMANDS // 2:
            process.kill()
            finish_process(process)
            process = ground.start("run", sweep_file, "--output", out)
    for verb in ("resume", "restore"):
        control_log.send_command(out, control_log.parse_command(verb, "all"))
    for node in nodes:
        control_log.send_command(out, control_log.parse_command("undrain", node))
    finish_process(process)
    done = ground.run("run", sweep_file, "--output", out, "--retry", "failed")

    assert done.returncode == 0, done.stderr
    history = control_log.read_history(out)
    assert len({entry.name for entry in history}) == len(history) == COMMANDS + 2 + len(nodes)
    assert any(not entry.refused for entry in history) and any(entry.refused for entry in history)
    check_survival(f"{COMMANDS} random commands, SIGKILL of the driver and of workers", out)


def ask(out, chance: Random, nodes: list[str]) -> None:
    verb = chance.choice(["pause", "resume", "resume", "cancel", "restore", "drain", "undrain"])
    target = chance.choice(["all", "u1*", "*/ROD", "*/*/hint", "nobody"])
    if verb in ("drain", "undrain"):
        target = chance.choice(nodes)
    control_log.send_command(out, control_log.parse_command(verb, target))
